"""Devices at a desk: what a desk without any leaves behind, and what it says."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from farm.adb.connection import query
from farm.adb.errors import AdbServerGone
from runner import pool


def test_an_adb_server_that_was_started_to_look_and_lists_nothing_is_ended_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(port))
    monkeypatch.setenv("FARM_STATE", str(tmp_path))
    started: list[str] = []
    run = pool._adb
    monkeypatch.setattr(pool, "_adb", lambda command: (started.append(command), run(command)))
    try:
        if pool.candidates("auto"):
            pytest.skip("a device is plugged in here")
        assert started == ["start-server", "kill-server"]
        with pytest.raises(AdbServerGone):
            query("127.0.0.1", port, "host:version")
        with pytest.raises(pytest.UsageError, match=r"ANDROID_ADB_SERVER_PORT.*adb connect 127\.0\.0\.1:PORT"):
            pool.take("auto", "a test")
    finally:
        run("kill-server")
