"""Who is silent: an adb server that answers nobody, or a device that it waits for."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from farm.adb.connection import open_transport
from farm.adb.errors import AdbServerGone, DeviceOffline


@contextmanager
def server(*, answers: bool) -> Iterator[int]:
    """Something that takes connections as an adb server does; of all questions it answers that for its version."""
    listener = socket.create_server(("127.0.0.1", 0))
    kept: list[socket.socket] = []

    def serve(client: socket.socket) -> None:
        with client.makefile("rb") as stream:
            request = stream.read(int(stream.read(4) or b"0", 16))
            if answers and request == b"host:version":
                client.sendall(b"OKAY00040029")

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            kept.append(client)
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for client in kept:
            client.close()


def test_a_device_that_the_server_waits_for_is_offline_and_the_server_is_not_gone() -> None:
    with server(answers=True) as port, pytest.raises(DeviceOffline, match="does not answer"):
        open_transport("127.0.0.1", port, "V1", timeout_s=0.3)


def test_a_server_that_answers_nobody_is_the_one_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farm.adb.connection.VERSION_S", 0.3)
    with server(answers=False) as port, pytest.raises(AdbServerGone):
        open_transport("127.0.0.1", port, "V1", timeout_s=0.3)
