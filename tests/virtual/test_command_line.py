"""`python -m virtual`: start, list, stop, fault, and what it says when something is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from virtual import fleet


def virtual(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ) if path is None else os.environ | {"PATH": path}
    command = [sys.executable, "-m", "virtual", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, env=environment)


@pytest.fixture
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="vd-") as name:
        yield name
        fleet.stop_all(Path(name))


def test_a_device_that_cannot_start_is_told_with_its_last_words(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet.sys, "executable", "/bin/false")
    with pytest.raises(fleet.FleetError, match=r"the device did not start: it said nothing; see .*hardware\.log"):
        fleet.start("rk3568", "CLI0", Path(folder))
    broken = Path(folder, "python")
    broken.write_text("#!/bin/sh\necho no room for a phone >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(fleet.sys, "executable", str(broken))
    with pytest.raises(fleet.FleetError, match="did not start: no room for a phone; see"):
        fleet.start("rk3568", "CLI0", Path(folder))


def test_a_device_is_started_once_listed_asked_and_stopped(folder: str) -> None:
    where = ("--dir", folder)
    start = ("start", "--profile", "rk3568", "--serial", "CLI1", "--data-mb", "16", *where, "--json")
    first = json.loads(virtual(*start).stdout)
    port = int(first["address"].rpartition(":")[2])
    assert port >= 5600
    assert not first["already_running"]
    again = json.loads(virtual(*start).stdout)
    assert (again["already_running"], again["pid"]) == (True, first["pid"])
    listed = json.loads(virtual("list", *where, "--json").stdout)
    assert [one["serial"] for one in listed] == ["CLI1"]
    status = json.loads(virtual("fault", "CLI1", "status", *where).stdout)
    assert status["profile"] == "rk3568"
    refused = virtual("fault", "CLI1", "melt", *where)
    assert (refused.returncode, "unknown fault" in refused.stderr) == (1, True)
    taken = virtual("start", "--profile", "rk3568", "--serial", "CLI2", "--port", str(port), *where)
    assert (taken.returncode, "is taken" in taken.stderr) == (1, True)
    assert virtual("stop", "CLI1", *where).stdout == "stopped: CLI1\n"
    assert virtual("stop", "CLI1", *where).stdout == "nothing to stop\n"
    assert json.loads(virtual("list", *where, "--json").stdout) == []


def test_missing_tools_are_named_with_the_command_to_install_them(folder: str, tmp_path: Path) -> None:
    done = virtual("start", "--profile", "rk3568", "--serial", "X", "--dir", folder, path=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.strip() == (
        "error: virtual devices need bubblewrap, mksh, toybox: type  sudo apt-get install bubblewrap mksh toybox"
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--serial", "a/b", "--profile", "rk3568"), "serial 'a/b' must be"),
        (("--serial", "X", "--profile", "pixel-99"), "no profile 'pixel-99'"),
        (("--serial", "X", "--profile", "rk3568", "--time-scale", "0"), "time scale"),
    ],
)
def test_a_wrong_start_says_what_is_wrong(folder: str, arguments: tuple[str, ...], complaint: str) -> None:
    done = virtual("start", *arguments, "--dir", folder)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_folder_may_lie_deeper_than_a_socket_s_address_is_long(folder: str) -> None:
    deep = Path(folder) / ("a" * 60) / ("b" * 60)
    deep.mkdir(parents=True)
    try:
        device = fleet.start("rk3568", "DEEP", deep, data_mb=16)
        assert fleet.fault(deep, device.serial, "status")["boot_id"]
    finally:
        fleet.stop_all(deep)
