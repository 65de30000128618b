"""First program inside the sandbox: limits, the way to the lens, the witness, then pytest.

`python -m runner.relay PYTEST-ARGUMENTS…`, with the plugin added

In this order: resource limits that nothing below can lift; a child that listens on 127.0.0.1:5037 of the sandbox's own
network and passes each connection to the lens; then, in this process, the seccomp listener that lets the supervisor see
what is refused, and pytest itself. No line of the suite has run before all of that stands.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import selectors
import signal
import socket
import sys
from dataclasses import dataclass

from runner.sandbox import ADB_PORT, EAR, LENS, PACK

#: Per process, except NPROC (tasks of this sandbox). The supervisor's control groups bound the sum where it can.
LIMITS: dict[int, int] = {
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_FSIZE: 1 << 30,
    resource.RLIMIT_NOFILE: 1024,
    resource.RLIMIT_DATA: 4 << 30,
    resource.RLIMIT_NPROC: 512,
}
_BLOCK = 1 << 17


def set_limits() -> None:
    for what, limit in LIMITS.items():
        _, hard = resource.getrlimit(what)
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(what, (value, value))


def start_relay() -> None:
    """Fork the relay. The port listens before this returns."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", ADB_PORT))
    listener.listen(64)
    if os.fork() == 0:
        try:
            Relay(listener).run()
        finally:
            os._exit(0)
    listener.close()


@dataclass(slots=True)
class _Way:
    """One direction of a connection: what was read and not yet written, and whether the end was seen."""

    source: socket.socket
    target: socket.socket
    pending: bytes = b""
    ended: bool = False
    done: bool = False


class Relay:
    """Passes bytes both ways with back-pressure; one thread, at most one block pending per direction."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._ways: dict[socket.socket, tuple[_Way, _Way]] = {}  # socket -> (out of it, into it)

    def run(self) -> None:
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._step(key.fileobj)  # type: ignore[arg-type]  # only sockets are registered

    def _accept(self) -> None:
        try:
            near, _ = self._listener.accept()
        except OSError:
            return
        far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            far.connect(LENS)
        except OSError:
            near.close()
            far.close()
            return
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        out, back = _Way(near, far), _Way(far, near)
        self._ways[near], self._ways[far] = (out, back), (back, out)
        for side in (near, far):
            side.setblocking(False)
            self._selector.register(side, selectors.EVENT_READ)

    def _step(self, side: socket.socket) -> None:
        ways = self._ways.get(side)
        if ways is None:
            return
        out, into = ways
        try:
            if not out.pending and not out.ended:
                self._read(out)
            for way in (out, into):
                self._write(way)
        except OSError:
            self._close(out)
            return
        if out.done and into.done:
            self._close(out)
            return
        for end in (out.source, out.target):
            self._watch(end)

    @staticmethod
    def _read(way: _Way) -> None:
        try:
            way.pending = way.source.recv(_BLOCK)
        except BlockingIOError:
            return
        way.ended = not way.pending

    @staticmethod
    def _write(way: _Way) -> None:
        if way.pending:
            try:
                way.pending = way.pending[way.target.send(way.pending) :]
            except BlockingIOError:
                return
        if way.ended and not way.pending and not way.done:
            way.done = True
            with contextlib.suppress(OSError):
                way.target.shutdown(socket.SHUT_WR)

    def _watch(self, side: socket.socket) -> None:
        out, into = self._ways[side]
        events = selectors.EVENT_READ if not out.pending and not out.ended else 0
        events |= selectors.EVENT_WRITE if into.pending else 0
        registered = side in self._selector.get_map()
        if events and registered:
            self._selector.modify(side, events)
        elif events:
            self._selector.register(side, events)
        elif registered:
            self._selector.unregister(side)

    def _close(self, way: _Way) -> None:
        for side in (way.source, way.target):
            self._ways.pop(side, None)
            with contextlib.suppress(KeyError):
                self._selector.unregister(side)
            side.close()


def main(arguments: list[str]) -> int:
    set_limits()
    start_relay()
    # In a hang the supervisor asks for the stacks: written past pytest's capture, in C, whatever Python is doing.
    faulthandler.register(signal.SIGUSR2, file=os.dup(2), all_threads=True)
    import pytest

    # Before the listener stands: their own imports are of no interest.
    from runner import inside, plugin, state  # noqa: F401
    from runner.reporter import SocketReporter
    from runner.seccomp import send_listener

    reporter = SocketReporter(EAR)
    state.reporter = reporter
    why = send_listener(reporter)
    if why:
        reporter.record("note", level="warning", text=f"refusals are not witnessed: {why}")
    os.chdir(PACK)  # names in pytest's output are relative to this; the tests themselves run in WORK
    return int(pytest.main(arguments, plugins=[plugin]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
