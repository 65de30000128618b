"""Commands over a stream: `shell:` (v1), `shell,v2,…:` and `exec:`.

v2 frames are id (1 byte: 0 stdin, 1 stdout, 2 stderr, 3 exit, 4 close-stdin, 5 window size), little-endian length,
data. The service string carries options: `shell,v2,TERM=xterm-256color,pty:COMMAND`. An empty command is a login
shell. When the stream ends before the command does, its whole process group is killed; without v2 and without a
terminal the end of the stream is also the only end of input that the protocol has (`adb exec-in`), so the command
first gets what was sent, its end of input, and a while to finish.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import signal
import struct
import termios
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from farm.adb.wire.server import Payload, Stream, StreamClosed

CHUNK = 1 << 18
"""Bytes read from a command's output at once."""
F_SETPIPE_SZ = 1031
KILL_GRACE_S = 0.25
"""Between SIGHUP and SIGKILL for a command whose client went away."""
INPUT_TAKEN_S = 60.0
"""For a command without v2 to take the rest of its input after its client closed the stream."""
INPUT_ENDED_GRACE_S = 10.0
"""Then, for it to finish."""
_FRAME = struct.Struct("<BI")


class Frame(IntEnum):
    """Ids of shell v2 frames."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    EXIT = 3
    CLOSE_STDIN = 4
    WINDOW_SIZE = 5


class FrameReader:
    """Splits received bytes into (id, piece) without waiting for whole frames, so memory does not grow."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._id = 0
        self._left = 0

    def feed(self, data: Payload) -> Iterator[tuple[int, memoryview]]:
        """Pieces of frames in `data`; an empty frame gives one empty piece."""
        view = memoryview(data)
        while view:
            if self._left == 0:
                missing = _FRAME.size - len(self._head)
                self._head += view[:missing]
                view = view[missing:]
                if len(self._head) < _FRAME.size:
                    return
                self._id, self._left = _FRAME.unpack(self._head)
                self._head.clear()
                if self._left == 0:
                    yield self._id, memoryview(b"")
                continue
            piece, view = view[: self._left], view[self._left :]
            self._left -= len(piece)
            yield self._id, piece


@dataclass(frozen=True, slots=True)
class ShellRequest:
    """A parsed service string."""

    command: str
    protocol_v2: bool
    pty: bool
    term: str | None = None

    @classmethod
    def parse(cls, service: str) -> ShellRequest:
        """Reads `shell…` and `exec:` service strings; unknown options are ignored, as adbd does."""
        head, _, command = service.partition(":")
        word, *options = head.split(",")
        if word == "exec":
            return cls(command, protocol_v2=False, pty=False)
        pty = not command
        term = None
        for option in options:
            if option in ("pty", "raw"):
                pty = option == "pty"
            elif option.startswith("TERM="):
                term = re.sub(r"[^A-Za-z0-9._+-]", "", option[5:])[:64]
        return cls(command, "v2" in options, pty, term)


@dataclass(frozen=True, slots=True)
class Command:
    """What to start: argument vector, additions to the environment, and the three descriptors it gets.

    With `pty` the descriptors are one terminal, which becomes the controlling one.
    """

    argv: Sequence[str]
    environment: dict[str, str]
    stdin: int
    stdout: int
    stderr: int
    pty: bool


class Process(Protocol):
    """A started command; leader of its own session and process group."""

    @property
    def pid(self) -> int: ...

    async def wait(self) -> int:
        """Exit code, or minus the signal that ended it."""


class Spawner(Protocol):
    """Starts commands. Who owns it decides where they live (cgroup, tracer, user)."""

    async def spawn(self, command: Command) -> Process: ...


class LocalSpawner:
    """Starts commands as plain children of this process."""

    def __init__(self, environment: dict[str, str] | None = None, cwd: str = "/") -> None:
        self._environment = environment
        self._cwd = cwd

    async def spawn(self, command: Command) -> Process:
        """Starts it in a new session."""
        base = dict(os.environ) if self._environment is None else self._environment
        process = await asyncio.create_subprocess_exec(
            *command.argv,
            stdin=command.stdin,
            stdout=command.stdout,
            stderr=command.stderr,
            env=base | command.environment,
            cwd=self._cwd,
            start_new_session=True,
            preexec_fn=take_terminal if command.pty else None,
        )
        return process


def take_terminal() -> None:
    """Makes descriptor 0 the controlling terminal; for the child of a fork."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@dataclass(slots=True)
class _Pipes:
    """Both ends of a command's descriptors; ours are non-blocking."""

    stdin: int
    stdout: int
    stderr: int | None
    theirs: tuple[int, int, int]

    def close_theirs(self) -> None:
        for fd in set(self.theirs):
            os.close(fd)


def _open_pipes(request: ShellRequest) -> _Pipes:
    if request.pty:
        ours, theirs = os.openpty()
        os.set_blocking(ours, False)
        return _Pipes(ours, ours, None, (theirs, theirs, theirs))
    stdin_read, stdin_write = os.pipe()
    stdout_read, stdout_write = os.pipe()
    stderr_read, stderr_write = os.pipe() if request.protocol_v2 else (None, stdout_write)
    with contextlib.suppress(OSError):  # over the user's pipe allowance: the default size works too
        fcntl.fcntl(stdout_read, F_SETPIPE_SZ, 1 << 20)
    for fd in (stdin_write, stdout_read, stderr_read):
        if fd is not None:
            os.set_blocking(fd, False)
    return _Pipes(stdin_write, stdout_read, stderr_read, (stdin_read, stdout_write, stderr_write))


class ShellService:
    """Handler for `shell` and `exec`."""

    def __init__(self, spawner: Spawner, shell: str = "/bin/sh") -> None:
        self._spawner = spawner
        self._shell = shell

    async def __call__(self, stream: Stream, service: str) -> None:
        request = ShellRequest.parse(service)
        pipes = _open_pipes(request)
        argv = [self._shell, "-c", request.command] if request.command else [self._shell, "-"]
        environment = {"TERM": request.term} if request.term else {}
        try:
            process = await self._spawner.spawn(Command(argv, environment, *pipes.theirs, request.pty))
        except BaseException:
            for fd in {pipes.stdin, pipes.stdout} | ({pipes.stderr} if pipes.stderr is not None else set()):
                os.close(fd)
            raise
        finally:
            pipes.close_theirs()
        stream.accept()
        await _Session(stream, request, pipes, process).run()


class _Session:
    """One running command and its stream."""

    def __init__(self, stream: Stream, request: ShellRequest, pipes: _Pipes, process: Process) -> None:
        self._stream = stream
        self._request = request
        self._pipes = pipes
        self._process = process
        self._stdin_open = True
        self._closed: set[int] = set()

    async def run(self) -> None:
        outputs = [asyncio.create_task(self._pump(Frame.STDOUT, self._pipes.stdout))]
        if self._pipes.stderr is not None:
            outputs.append(asyncio.create_task(self._pump(Frame.STDERR, self._pipes.stderr)))
        feeder = asyncio.create_task(self._feed())
        gone = asyncio.create_task(self._stream.wait_closed())
        finished = asyncio.create_task(self._finish(outputs))
        try:
            await asyncio.wait({gone, finished}, return_when=asyncio.FIRST_COMPLETED)
            if not finished.done() and not (self._end_ends_input and await self._finishes_after_input(feeder, outputs)):
                await self._kill()
        except asyncio.CancelledError:
            self._signal(signal.SIGKILL)
            raise
        finally:
            tasks = [*outputs, feeder, gone, finished]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._close_stdin()
            self._close_outputs()

    async def _finish(self, outputs: list[asyncio.Task[None]]) -> None:
        # As adbd does: output ends when nobody holds the pipes any more, not when the first process exits.
        await asyncio.gather(*outputs)
        code = await self._process.wait()
        if self._request.protocol_v2:
            status = code if code >= 0 else 128 - code
            await self._stream.write(_FRAME.pack(Frame.EXIT, 1) + bytes([status & 0xFF]))

    @property
    def _end_ends_input(self) -> bool:
        return not self._request.protocol_v2 and not self._request.pty

    async def _finishes_after_input(self, feeder: asyncio.Task[None], outputs: list[asyncio.Task[None]]) -> bool:
        """Hand over what was received, end the input, and see whether the command ends by itself.

        Nobody reads its output any more: writing it fails, as in a pipe whose reader left.
        """
        for task in outputs:
            task.cancel()
        await asyncio.gather(*outputs, return_exceptions=True)
        self._close_outputs()
        try:
            async with asyncio.timeout(INPUT_TAKEN_S):
                await asyncio.shield(feeder)
            self._close_stdin()
            async with asyncio.timeout(INPUT_ENDED_GRACE_S):
                await asyncio.shield(self._process.wait())
        except TimeoutError:
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def _kill(self) -> None:
        """Ends the command's process group and waits for its leader."""
        for number in (signal.SIGHUP, signal.SIGCONT, signal.SIGKILL):
            self._signal(number)
            if number is signal.SIGCONT:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(asyncio.shield(self._process.wait()), KILL_GRACE_S)
        await self._process.wait()

    async def _pump(self, frame: Frame, fd: int) -> None:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(fd, readable.set)
        room = bytearray(_FRAME.size + CHUNK)
        offset = _FRAME.size if self._request.protocol_v2 else 0
        try:
            while True:
                try:
                    count = os.readv(fd, [memoryview(room)[offset : offset + CHUNK]])
                except BlockingIOError:
                    readable.clear()
                    await readable.wait()
                    continue
                except OSError:  # EIO: the last process closed the terminal
                    return
                if count == 0:
                    return
                if offset:
                    _FRAME.pack_into(room, 0, frame, count)
                await self._stream.write(memoryview(room)[: offset + count])
                room = bytearray(_FRAME.size + CHUNK)  # the transport may still hold the last one
        except StreamClosed:
            return
        finally:
            loop.remove_reader(fd)

    async def _feed(self) -> None:
        frames = FrameReader()
        while payload := await self._stream.read():
            if not self._request.protocol_v2:
                await self._write_stdin(payload)
                continue
            for kind, piece in frames.feed(payload):
                if kind == Frame.STDIN:
                    await self._write_stdin(piece)
                elif kind == Frame.CLOSE_STDIN:
                    self._close_stdin()
                elif kind == Frame.WINDOW_SIZE and self._request.pty:
                    self._resize(bytes(piece))

    async def _write_stdin(self, data: Payload) -> None:
        view = memoryview(data)
        loop = asyncio.get_running_loop()
        while view and self._stdin_open:
            try:
                view = view[os.write(self._pipes.stdin, view) :]
            except BlockingIOError:
                ready = asyncio.Event()
                loop.add_writer(self._pipes.stdin, ready.set)
                try:
                    await ready.wait()
                finally:
                    loop.remove_writer(self._pipes.stdin)
            except OSError:  # the command closed its input; the rest of it is thrown away, as by a pipe
                self._close_stdin()

    def _close_outputs(self) -> None:
        for fd in (self._pipes.stdout, self._pipes.stderr):
            if fd is not None and fd not in self._closed:
                self._closed.add(fd)
                os.close(fd)

    def _close_stdin(self) -> None:
        """Ends the command's input; a terminal stays open until the session ends."""
        if self._stdin_open and not self._request.pty:
            os.close(self._pipes.stdin)
            self._stdin_open = False

    def _resize(self, text: bytes) -> None:
        match = re.match(rb"(\d{1,4})x(\d{1,4}),(\d{1,5})x(\d{1,5})", text)
        if match:
            rows, columns, x_pixels, y_pixels = (int(number) for number in match.groups())
            size = struct.pack("HHHH", rows, columns, x_pixels & 0xFFFF, y_pixels & 0xFFFF)
            fcntl.ioctl(self._pipes.stdin, termios.TIOCSWINSZ, size)
