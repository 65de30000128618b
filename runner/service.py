"""The socket on which the sandbox reports: records through the gate into the journal, turns, engine pids.

Whoever connects may be the plugin or a stranger's suite: lines are bounded, connections are few, and what is refused
becomes an incident (the first ones in full, then a count).
"""

from __future__ import annotations

import array
import contextlib
import hashlib
import json
import os
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from farm.domain.journal import MAX_LINE, Kind
from runner.gate import Gate, Refused
from runner.journal import FileJournal
from runner.refusals import Refusals
from runner.turns import Need, NoTurn, Turn, Turns

MAX_CONNECTIONS = 32
MAX_ARTIFACT_BYTES = 512 << 20


class Service:
    """Serves the socket at `path`. `active()` tells when somebody last reported, and whether they wait for a turn.

    `virtual`: whether the leased devices are; None where only who asks can tell (a desk). `on_wait` is told what a turn
    is waited for, and None when it has come; `on_engine` of each engine's process that begins or ends.
    """

    def __init__(
        self,
        path: Path,
        journal: FileJournal,
        gate: Gate,
        turns: Turns,
        work_dir: Path,
        on_witness: Callable[[int], None] | None = None,
        *,
        name: str = "an attempt",
        virtual: bool | None = None,
        on_wait: Callable[[str | None], None] = lambda _: None,
        on_engine: Callable[[str, int, bool], None] = lambda *_: None,
    ) -> None:
        self._path, self._journal, self._gate, self._turns = path, journal, gate, turns
        self._name, self._virtual, self._on_wait, self._on_engine = name, virtual, on_wait, on_engine
        self._starting: Turn | None = None
        self._work_dir = work_dir
        self._on_witness = on_witness
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._listener: socket.socket | None = None
        self._connections: set[socket.socket] = set()
        self._refusals = Refusals()
        self._waiting_since: dict[int, float] = {}
        self.last_sign = time.monotonic()
        self.waited_s = 0.0  # time spent in the queue for turns
        self.suite_pid: int | None = None
        self.engines: dict[tuple[str, int], None] = {}
        self.lost: dict[str, str] = {}
        self.broken: str | None = None  # why the journal can take nothing more
        self.test_began: dict[tuple[str, str], float] = {}

    def start(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self._path))
        listener.listen(16)
        self._listener = listener
        threading.Thread(target=self._accept, name="service", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()
        self.started()
        for connection in [self._listener, *self._connections]:
            if connection is not None:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                connection.close()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        with self._lock:
            for (klass, summary, test), count in self._refusals.rest():
                self._write_incident(klass, summary, test, count=count)

    def starting(self, limit_s: float, given_up: Callable[[], bool]) -> None:
        """Share the machine until the first test starts: starting pytest must not disturb who measures meanwhile.

        After `limit_s` it starts all the same.
        """
        if self._virtual:
            self._starting = self._turns.take(Need.SHARE, limit_s, self._name, given_up)

    def started(self) -> None:
        if self._starting is not None:
            self._starting.release()
            self._starting = None

    def running_test(self) -> str | None:
        """The test that runs now; the first of them where there are several."""
        with self._lock:
            return next((test for test, _ in self._gate.running), None)

    def waiting_for_turn(self) -> bool:
        """Whether a test waits for its turn just now: that is not silence."""
        return bool(self._waiting_since)

    def queue_s(self) -> float:
        """Seconds that this attempt has waited for turns so far, the current wait included."""
        now = time.monotonic()
        return self.waited_s + sum(now - since for since in list(self._waiting_since.values()))

    def incident(self, klass: str, summary: str, evidence: str = "", device: str | None = None) -> None:
        """Write an incident of the farm's own, bounded in number."""
        with self._lock:
            test = self.running_test()
            if self._refusals.is_new(klass, summary[:2000], test):
                self._write_incident(klass, summary[:2000], test, device, evidence=evidence[:8000])

    def _write_incident(
        self, klass: str, summary: str, test: str | None, device: str | None = None, **more: Any
    ) -> None:
        fields: dict[str, Any] = {"class": klass, **({"test": test} if test else {})}
        fields.update(device=device or self._gate.first_device, summary=summary, **more)
        self._write(Kind.INCIDENT, **fields)

    def _write(self, kind: str, **fields: Any) -> None:
        """A record that the journal cannot take ends the attempt: what is not written down has not happened."""
        try:
            self._journal.record(kind, **fields)
        except OSError as error:
            self.broken = self.broken or f"the journal cannot be written: {error.strerror}"

    def end_running(self, cause: str | None, message: str, detail: str) -> list[str]:
        """Write the end of whatever test still runs, as a failure: the suite did not bring it to one; their ids."""
        with self._lock:
            ended = []
            for test, device in list(self._gate.running):
                began = self.test_began.get((test, device), time.monotonic())
                fields = {"test": test, "outcome": "failed", "duration_s": time.monotonic() - began, "message": message}
                extra = {
                    "detail": detail,
                    **({"cause": cause} if cause else {}),
                    **({"device": device} if device else {}),
                }
                self._write(Kind.TEST_END, **self._gate.admit(Kind.TEST_END, {**fields, **extra}))
                ended.append(test)
            return ended

    def _accept(self) -> None:
        assert self._listener is not None
        while not self._stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if len(self._connections) >= MAX_CONNECTIONS:
                connection.close()
                continue
            self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), name="service-peer", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        peer = _Peer(connection)
        try:
            for line in peer.lines():
                self._handle(peer, line)
        except OSError:
            pass
        finally:
            peer.release()
            self._connections.discard(connection)
            connection.close()

    def _handle(self, peer: _Peer, line: bytes) -> None:
        try:
            message = json.loads(line)
            op = message.pop("op")
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            self.incident("journal-refused", "a line on the runner's socket is no message", repr(line[:500]))
            return
        self.last_sign = time.monotonic()
        if op == "record":
            self._record(message)
        elif op == "turn":
            self._turn(peer, message)
        elif op == "turn_over":
            peer.release()
        elif op == "sync":
            peer.answer({"ok": True})
        elif op == "engine":
            self._engine(message)
        elif op == "lost":
            self.lost.setdefault(str(message.get("device"))[:200], str(message.get("why"))[:2000])
        elif op == "hello" and self.suite_pid is None:
            self.suite_pid = peer.pid
        elif op == "witness" and peer.passed:
            self._witness(peer.passed.pop())

    def _record(self, message: dict[str, Any]) -> None:
        kind = str(message.pop("kind", ""))
        with self._lock:
            try:
                fields = self._gate.admit(kind, message)
                if kind == Kind.ARTIFACT:
                    fields.update(measure_artifact(self._work_dir, fields["path"]))
                self._write(kind, **fields)
            except (Refused, ValueError) as refusal:
                self.incident("journal-refused", f"the journal refused a record: {refusal}", repr(message)[:2000])
                return
            if kind == Kind.TEST_START:
                self.started()
                self.test_began[fields["test"], fields["device"]] = time.monotonic()

    def _engine(self, message: dict[str, Any]) -> None:
        device, pid = str(message.get("device")), message.get("pid")
        if not isinstance(pid, int) or device not in self._gate.devices or len(self.engines) > 1000:
            return
        if message.get("alive"):
            self.engines[device, pid] = None
        else:
            self.engines.pop((device, pid), None)
        self._on_engine(device, pid, bool(message.get("alive")))

    def _turn(self, peer: _Peer, message: dict[str, Any]) -> None:
        virtual = bool(message.get("virtual")) if self._virtual is None else self._virtual
        began = self._waiting_since[peer.id] = time.monotonic()
        answer: dict[str, Any] = {"ok": True}
        try:
            need = Need.of(virtual=virtual, measures=bool(message.get("measures")))
            gone = lambda: self._stopping.is_set() or peer.closed()  # noqa: E731
            peer.turn = peer.turn or self._turns.wait(need, self._name, self._waits, gone)
        except NoTurn as late:
            answer = {"ok": False, "why": str(late)}
        finally:
            waited = time.monotonic() - self._waiting_since.pop(peer.id, began)
            self.waited_s += waited
            self.last_sign = time.monotonic()
            self._on_wait(None)
        peer.answer({**answer, "waited_s": round(waited, 3)})

    def _waits(self, words: str) -> None:
        self._on_wait(words)
        with self._lock:
            self._write(Kind.NOTE, level="info", text=words)

    def _witness(self, fd: int) -> None:
        if self._on_witness is None:
            os.close(fd)
            return
        callback, self._on_witness = self._on_witness, None
        callback(fd)


class _Peer:
    """One connection: its lines, bounded, the descriptors passed along, the turn that it has."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self.id = connection.fileno()
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        self.pid: int = struct.unpack("3i", credentials)[0]
        self.passed: list[int] = []
        self.turn: Turn | None = None

    def lines(self) -> Any:
        pending = b""
        room = socket.CMSG_SPACE(4 * array.array("i").itemsize)
        while True:
            data, ancillary, _, _ = self._socket.recvmsg(65536, room)
            for level, kind, payload in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    fds = array.array("i")
                    fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
                    self.passed.extend(fds)
            if not data:
                return
            pending += data
            *whole, pending = pending.split(b"\n")
            yield from (line for line in whole if line)
            if len(pending) > MAX_LINE:
                yield pending[:1000]  # no message: said so once, and the connection ends
                return

    def answer(self, message: dict[str, Any]) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def closed(self) -> bool:
        """Whether the other side is gone (asked while no line is expected)."""
        try:
            return self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def release(self) -> None:
        if self.turn is not None:
            self.turn.release()
            self.turn = None
        for fd in self.passed:
            os.close(fd)
        self.passed.clear()


def measure_artifact(work_dir: Path, path: str) -> dict[str, Any]:
    """Size and hash of a file below `work_dir/artifacts`, opened without following any link. Raises Refused."""
    parts = Path(path).parts
    if len(parts) < 2 or parts[0] != "artifacts" or ".." in parts or len(parts) > 20:
        raise Refused(f"an artifact lies below artifacts/, not at {path[:200]!r}")
    fds: list[int] = []
    try:
        fds.append(os.open(work_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        for part in parts[:-1]:
            fds.append(os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fds[-1]))
        fds.append(os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fds[-1]))
        status = os.fstat(fds[-1])
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_ARTIFACT_BYTES:
            raise Refused(f"{path[:200]!r} is no plain file of at most {MAX_ARTIFACT_BYTES} bytes")
        digest, count = hashlib.sha256(), 0
        while block := os.read(fds[-1], 1 << 20):
            digest.update(block)
            count += len(block)
    except OSError as error:
        raise Refused(f"artifact {path[:200]!r}: {error.strerror}") from error
    finally:
        for fd in fds:
            os.close(fd)
    return {"path": f"work/{path}", "bytes": count, "sha256": digest.hexdigest()}
