"""Commands on a device: to their end, or line by line, never longer or more than asked for."""

from __future__ import annotations

import select
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from farm.adb import shell_protocol as protocol
from farm.adb.deadline import Deadline, Patience
from farm.adb.errors import AdbError, ShellTimeout, last_words, seconds
from farm.adb.link import SERVICE_TIMEOUT_S, Link, Pulse

#: Output of one command that is kept by default, stdout and stderr each. What comes after is read and dropped.
MAX_OUTPUT = 4 << 20
_CHUNK = 256 << 10
_ERRORS = select.POLLERR | select.POLLHUP | select.POLLNVAL


@dataclass(frozen=True, slots=True)
class ShellResult:
    """How a command ended. `exit_code` is the shell's: 128 + n after signal n."""

    exit_code: int
    stdout_bytes: bytes
    stderr_bytes: bytes
    truncated: bool

    @property
    def stdout(self) -> str:
        """Standard output as text; bytes that are no UTF-8 become U+FFFD."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class ProcessLine:
    stream: str  # "stdout" or "stderr"
    text: str


class ShellStream:
    """A command under way: what it writes, as it comes. Not to be read by two threads; `kill` may come from any."""

    def __init__(self, link: Link, command: str | Sequence[str], timeout_s: float = SERVICE_TIMEOUT_S) -> None:
        self._link = link
        announced = protocol.Announced.of(command)
        self._connection = link.service(f"shell,v2,raw:{announced.line}", timeout_s)
        self._sock = self._connection.sock
        self._sock.settimeout(0)
        self._decoder = protocol.Decoder()
        self._pid = protocol.PidFilter(announced.nonce)
        self._pulse = Pulse(link)
        self._killed = False
        self.ended = False
        self.exit_code: int | None = None

    @property
    def pid(self) -> int | None:
        """The command's process on the device and the leader of its group; None until the shell has told it."""
        return self._pid.pid

    def receive(self, limit: Deadline, outgoing: bytes | memoryview = b"") -> tuple[list[tuple[int, bytes]], int]:
        """What came next (maybe nothing; see `ended`), and how much of `outgoing` was taken.

        Raises ShellTimeout at `limit`, DeviceGone or AdbServerGone when the connection is lost.
        """
        while not self.ended:
            events = self._poll(limit, want_out=bool(outgoing))
            if events & (select.POLLIN | _ERRORS):
                return self._read(), 0
            elif events & select.POLLOUT:
                try:
                    return [], self._sock.send(outgoing)
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise self._lost() from error
            elif limit.expired:
                raise ShellTimeout(f"{self._link.address}: no end, or no more output, within the limit")
        return [], 0

    def _poll(self, limit: Deadline, want_out: bool) -> int:
        poll = select.poll()
        poll.register(self._sock, select.POLLIN | (select.POLLOUT if want_out else 0))
        if self._pulse.probe is not None:
            poll.register(self._pulse.probe.sock, select.POLLIN)
        wait = limit.remaining(self._pulse.due_in())
        ready = dict(poll.poll(None if wait is None else wait * 1000 + 1))
        events = ready.pop(self._sock.fileno(), 0)
        if not events:
            self._pulse.check(answered=bool(ready))
        return events

    def _read(self) -> list[tuple[int, bytes]]:
        try:
            data = self._sock.recv(_CHUNK)
        except BlockingIOError:
            return []
        except OSError as error:
            if self._killed:
                return self._end()
            raise self._lost() from error
        if not data:
            if self._killed:
                return self._end()
            raise self._lost()
        self._pulse.heard()
        pieces: list[tuple[int, bytes]] = []
        for kind, piece in self._decoder.feed(data):
            if kind == protocol.STDERR:
                piece = self._pid.feed(piece)
            if kind in (protocol.STDOUT, protocol.STDERR) and piece:
                pieces.append((kind, piece))
            elif kind == protocol.EXIT:
                self.exit_code = piece[0]
                return pieces + self._end()
        return pieces

    def _end(self) -> list[tuple[int, bytes]]:
        self.ended = True
        self.close()
        rest = self._pid.end()
        return [(protocol.STDERR, rest)] if rest else []

    def _lost(self) -> AdbError:
        self.ended = True
        self.close()
        return self._link.lost("running a command")

    def write(self, data: bytes, timeout_s: float) -> None:
        """Raw protocol bytes to the device, from the thread that does not read."""
        limit, view = Patience(timeout_s), memoryview(data)
        poll = select.poll()
        try:
            poll.register(self._sock, select.POLLOUT)
        except ValueError as error:  # the thread that reads has seen its end, and closed it
            raise self._link.lost("writing to a command") from error
        while view:
            if limit.expired:
                raise ShellTimeout(f"{self._link.address}: the command takes no input for {seconds(timeout_s)}")
            if poll.poll((limit.remaining() or 0) * 1000 + 1):
                try:
                    view = view[self._sock.send(view) :]
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise self._link.lost("writing to a command") from error

    def kill(self) -> None:
        """SIGKILL to the command's group on the device, then end the connection. Silent when the device is away."""
        if self.ended:
            return
        self._killed = True
        if self.pid is not None:
            try:
                self._link.output(f"kill -9 -{self.pid} {self.pid} 2>/dev/null", timeout_s=5)
            except AdbError:
                pass  # the device is away or stuck: closing is all that can be done
        try:
            self._sock.shutdown(2)  # wakes the reader; adbd then ends what is left of the group
        except OSError:
            pass

    def close(self) -> None:
        self._pulse.close()
        self._connection.close()


class Process:
    """A running command. Killing it, or losing the connection, ends its whole process group on the device."""

    def __init__(self, link: Link, command: str | Sequence[str]) -> None:
        self._stream = ShellStream(link, command)
        self._ready: deque[ProcessLine] = deque()
        self._rest = {protocol.STDOUT: protocol.Lines(), protocol.STDERR: protocol.Lines()}
        self._writing = threading.Lock()

    @property
    def pid(self) -> int | None:
        """On the device; the command itself when it was given as a sequence. None until the first output."""
        return self._stream.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs, and for good when it was lost; a killed command has 137, or None."""
        return self._stream.exit_code

    def wait_pid(self, timeout_s: float = 30.0) -> int | None:
        """The pid, as soon as the device has told it; None when the command ended without."""
        limit = Patience(timeout_s)
        while self._stream.pid is None and not self._stream.ended:
            self._receive(limit)
        return self._stream.pid

    def read_line(self, timeout_s: float | None = None) -> ProcessLine | None:
        """The next line; None once the command has ended.

        ShellTimeout after `timeout_s` of silence: the command goes on, and so may the caller, or it calls `kill`.
        DeviceGone or AdbServerGone when the connection is lost.
        """
        limit = Patience(timeout_s)
        while not self._ready:
            if self._stream.ended:
                return None
            self._receive(limit)
        return self._ready.popleft()

    def lines(self, timeout_s: float | None = None) -> Iterator[ProcessLine]:
        """Lines as they come, until the end; `timeout_s` limits the silence before each (see `read_line`)."""
        while (line := self.read_line(timeout_s)) is not None:
            yield line

    def write(self, data: bytes, timeout_s: float = 30.0) -> None:
        """Send to its standard input; ShellTimeout when the command does not take it."""
        with self._writing:
            for frame in protocol.stdin_frames(data):
                self._stream.write(frame, timeout_s)

    def close_stdin(self, timeout_s: float = 30.0) -> None:
        with self._writing:
            self._stream.write(protocol.frame(protocol.CLOSE_STDIN), timeout_s)

    def kill(self) -> None:
        """End the command's process group on the device, and the connection. Any thread may call it."""
        self._stream.kill()

    def _receive(self, limit: Deadline) -> None:
        pieces, _ = self._stream.receive(limit)
        for kind, data in pieces:
            self._emit(kind, self._rest[kind].feed(data))
        if self._stream.ended:
            for kind, rest in self._rest.items():
                self._emit(kind, rest.end())

    def _emit(self, kind: int, lines: Iterator[str]) -> None:
        name = "stdout" if kind == protocol.STDOUT else "stderr"
        self._ready.extend(ProcessLine(name, text) for text in lines)


def run(
    link: Link, command: str | Sequence[str], timeout_s: float, stdin: bytes | None, max_output: int = MAX_OUTPUT
) -> ShellResult:
    """Run a command to its end; at `timeout_s` (see `Patience`) its group is killed and ShellTimeout raised."""
    limit = Patience(timeout_s)
    stream = ShellStream(link, command, min(timeout_s, SERVICE_TIMEOUT_S))
    kept = {protocol.STDOUT: bytearray(), protocol.STDERR: bytearray()}
    truncated = False
    frames = _input(stdin)
    outgoing = memoryview(next(frames))
    try:
        while not stream.ended:
            pieces, taken = stream.receive(limit, outgoing)
            outgoing = outgoing[taken:] or memoryview(next(frames, b""))
            for kind, data in pieces:
                room = max_output - len(kept[kind])
                truncated = truncated or len(data) > room
                kept[kind] += data[: max(0, room)]
    except ShellTimeout:
        stream.kill()
        raise ShellTimeout(
            f"{link.address}: {_short(command)} did not end within {limit.words}; "
            f"its last words: {last_words(bytes(kept[protocol.STDERR] or kept[protocol.STDOUT]))}"
        ) from None
    finally:
        stream.close()
    code = stream.exit_code
    assert code is not None, "a command that was not killed ended with an exit code"
    return ShellResult(code, bytes(kept[protocol.STDOUT]), bytes(kept[protocol.STDERR]), truncated)


def _input(stdin: bytes | None) -> Iterator[bytes]:
    yield from protocol.stdin_frames(stdin or b"")
    yield protocol.frame(protocol.CLOSE_STDIN)


def _short(command: str | Sequence[str]) -> str:
    text = command if isinstance(command, str) else " ".join(command)
    return repr(text if len(text) <= 80 else text[:77] + "…")
