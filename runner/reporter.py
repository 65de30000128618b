"""How the pytest side tells what happens: to its supervisor over a socket, or to a journal file at a desk.

The protocol of the socket is one JSON object per line:

    {"op": "hello", "role": "suite"}                      no answer; the peer's process id comes from the socket itself
    {"op": "record", "kind": "...", ...fields}            no answer; what is refused becomes an incident
    {"op": "engine", "device": "...", "pid": 123|null, "alive": true}    no answer: whose stacks to take in a hang
    {"op": "lost", "device": "...", "why": "..."}         no answer
    {"op": "turn", "measures": true, "virtual": true} -> {"ok": true, "waited_s": 0.2} | {"ok": false, "why": "..."}
    {"op": "turn_over"}                                   no answer; the end of the connection does the same
    {"op": "sync"} -> {"ok": true}                        whatever was sent before is in the journal now
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from farm.domain.journal import MAX_LINE
from runner.gate import Gate, Refused
from runner.journal import FileJournal
from runner.turns import Need, NoTurn, Turns

#: A test goes on only when these are written: what happens next belongs to the right test, and none runs twice.
_AWAITED = frozenset({"test_start", "test_end"})


class Reporter(Protocol):
    """What the plugin needs of the world outside pytest."""

    def record(self, kind: str, **fields: Any) -> None:
        """Put one record into the journal."""

    def engine(self, device: str, pid: int | None, alive: bool) -> None:
        """An engine process started or ended."""

    def lost(self, device: str, why: str) -> None:
        """The device cannot be reached any more."""

    def turn(self, *, measures: bool, virtual: bool) -> AbstractContextManager[float]:
        """A test's turn on this machine (see runner.turns): a context that gives the seconds waited. Raises NoTurn."""

    def close(self) -> None: ...


class SocketReporter:
    """Reports over a unix socket. Thread-safe; a broken connection raises OSError: without a journal nothing counts."""

    def __init__(self, path: str, role: str = "suite") -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._answers = self._socket.makefile("rb")
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._send({"op": "hello", "role": role})

    def fileno(self) -> int:
        return self._socket.fileno()

    def record(self, kind: str, **fields: Any) -> None:
        self._send({"op": "record", "kind": kind, **fields})
        if kind in _AWAITED:
            self._ask({"op": "sync"})

    def engine(self, device: str, pid: int | None, alive: bool) -> None:
        self._send({"op": "engine", "device": device, "pid": pid, "alive": alive})

    def lost(self, device: str, why: str) -> None:
        self._send({"op": "lost", "device": device, "why": why[:2000]})

    @contextmanager
    def turn(self, *, measures: bool, virtual: bool) -> Iterator[float]:
        answer = self._ask({"op": "turn", "measures": measures, "virtual": virtual})
        if not answer.get("ok"):
            raise NoTurn(str(answer.get("why")))
        try:
            yield float(answer.get("waited_s") or 0.0)
        finally:
            self._send({"op": "turn_over"})

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        with self._asking:
            self._send(message)
            line = self._answers.readline(MAX_LINE)
        if not line:
            raise ConnectionError("the supervisor is gone")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _send(self, message: dict[str, Any]) -> None:
        line = json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"
        with self._lock:
            self._socket.sendall(line)


class DeskReporter:
    """Writes the journal file itself, for a run at a desk in one process."""

    def __init__(self, journal: FileJournal, gate: Gate, turns: Turns, say: Callable[[str], None]) -> None:
        self._journal, self._gate, self._turns, self._say = journal, gate, turns, say
        self._lock = threading.Lock()
        self.on_engine: Callable[[int | None, bool], None] = lambda *_: None

    def record(self, kind: str, **fields: Any) -> None:
        with self._lock:
            try:
                self._journal.record(kind, **self._gate.admit(kind, fields))
            except Refused as refusal:
                self._journal.record("note", level="warning", text=f"not in the journal: {refusal}"[:2000])

    def engine(self, device: str, pid: int | None, alive: bool) -> None:
        """No supervisor watches at a desk: the adapter's own limits stand, and the sampler looks at its memory."""
        self.on_engine(pid, alive)

    def lost(self, device: str, why: str) -> None:
        with self._lock:
            self._journal.record("note", level="warning", text=f"{device} was lost: {why}"[:2000])

    @contextmanager
    def turn(self, *, measures: bool, virtual: bool) -> Iterator[float]:
        began = time.monotonic()
        held = self._turns.wait(Need.of(virtual=virtual, measures=measures), "a run at a desk", self._say)
        try:
            yield time.monotonic() - began
        finally:
            held.release()

    def close(self) -> None:
        self._journal.close()


def desk_journal(state: Path) -> Path:
    """Where a run at a desk leaves its journal: in a new folder of its own, named by the time of its start."""
    began, number = time.strftime("%Y%m%d-%H%M%S"), 1
    while True:
        folder = state / "desk" / (began if number == 1 else f"{began}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:  # another desk began in the same second
            number += 1
        else:
            return folder / "journal.jsonl"
