"""Apps that run: `am instrument`, their main threads under watch, and what the system logs when one does not answer.

An app's process is a real one, its main thread a real thread. The system sends it an input event every second; one that
stays unanswered for five seconds is an ANR: SIGQUIT makes the app write its own trace, which goes to /data/anr, and the
logs get the lines that ActivityManager writes. Sources: AOSP ActivityManagerService, ProcessErrorStateRecord,
EventLogTags.logtags, cmds/am Instrument.java.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from farm.adb.wire.shell import Command
from virtual.android.apks import Package
from virtual.android.spawner import ZygoteProcess

if TYPE_CHECKING:
    from virtual.android.system import Android

FOLDER = Path("/data/anr")
KEPT = 64
#: InputDispatcher's default limit for one event, and how often one is sent here.
INPUT_TIMEOUT_S, INPUT_EVERY_S = 5.0, 1.0
TRACE_S = 10.0
_LINE_MAX = 1 << 20


@dataclass
class App:
    """One process of a package."""

    package: Package
    process: ZygoteProcess
    trace: Path
    pending: dict[int, float] = field(default_factory=dict)  # event -> when it was sent
    reported: bool = False  # an ANR is told once, until the app answers again

    @property
    def pid(self) -> int:
        return self.process.pid


class Instrumentation:
    """One `am instrument -w`: starts the app, gives what it reports line by line, and watches its main thread."""

    def __init__(self, android: Android, package: Package, extras: list[tuple[str, str]]) -> None:
        self._android, self._package, self._extras = android, package, extras
        self.code: int | None = None  # what the app finished with; None: it did not
        self.exit: int | None = None

    async def run(self) -> AsyncGenerator[str, None]:
        """Lines of the app's standard output, until it has ended; whatever happens, it runs no longer afterwards."""
        (in_read, in_write), (out_read, out_write), (err_read, err_write) = os.pipe(), os.pipe(), os.pipe()
        trace = FOLDER / f".trace_{uuid.uuid4().hex[:12]}"
        words = [word for key, value in self._extras for word in ("-e", key, value)]
        argv = [str(self._package.program), "--package", self._package.name, "--trace", str(trace), *words]
        try:
            process = await self._android.spawner.spawn(Command(argv, {}, in_read, out_write, err_write, False))
        finally:
            for fd in (in_read, out_write, err_write):
                os.close(fd)
        app = App(self._package, process, trace)
        self._event("am_proc_start", f"[0,{app.pid},10123,{self._package.name},instrumentation,{{}}]")
        out, err = await _reader(out_read), await _reader(err_read)
        watch = [asyncio.create_task(self._acknowledge(app, err)), asyncio.create_task(self._events(app, in_write))]
        try:
            async for line in _lines(out):
                if line.startswith("@finish "):
                    self.code = int(line.split()[1])
                else:
                    yield line
            self.exit = await process.wait()
        finally:
            for task in watch:
                task.cancel()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(app.pid, signal.SIGKILL)
            os.close(in_write)
            for path in (trace, trace.with_name(trace.name + ".part"), trace.with_name(trace.name + ".slow")):
                path.unlink(missing_ok=True)
            self._ended(app)

    def _ended(self, app: App) -> None:
        if self.exit is not None and self.exit < 0 and self.exit != -signal.SIGKILL:
            name = signal.Signals(-self.exit).name
            self._event("am_crash", f"[0,{app.pid},{self._package.name},0,Native crash,{name},unknown,0]")
        self._event("am_proc_died", f"[0,{app.pid},{self._package.name},0,2]")

    async def _acknowledge(self, app: App, err: asyncio.StreamReader) -> None:
        async for line in _lines(err):
            if line.startswith("@ack ") and line[5:].isdigit():
                app.pending.pop(int(line[5:]), None)
                app.reported = False
            else:
                self._android.logd.write("E", "System.err", line, pid=app.pid, uid=10123)

    async def _events(self, app: App, fd: int) -> None:
        """Input for the app's window; like the dispatcher, no further event while one is unanswered."""
        number = 0
        while True:
            await asyncio.sleep(INPUT_EVERY_S)
            if not app.pending:
                number += 1
                app.pending[number] = time.monotonic()
                with contextlib.suppress(OSError):
                    os.write(fd, f"input {number}\n".encode())
            waited = max((time.monotonic() - sent for sent in app.pending.values()), default=0.0)
            if waited >= INPUT_TIMEOUT_S and not app.reported:
                app.reported = True
                await self._not_responding(app, waited)

    async def _not_responding(self, app: App, waited_s: float) -> None:
        name = self._package.name
        window = f"{name}/{name}.MainActivity"
        waited = f"Waited {round(waited_s * 1000)}ms for MotionEvent"
        reason = f"Input dispatching timed out ({uuid.uuid4().hex[:7]} {window} (server) is not responding. {waited})"
        self._event("am_anr", f"[0,{app.pid},{name},{0x38E8BE44},{reason}]")
        load = Path("/proc/loadavg").read_text().split()[:3]
        lines = [
            f"ANR in {name} ({window})",
            f"PID: {app.pid}",
            f"Reason: {reason}",
            f"Parent: {window}",
            f"ErrorId: {uuid.uuid4()}",
            "Frozen: false",
            f"Load: {' / '.join(load)}",
        ]
        kept = await self._trace(app)
        for line in lines:
            self._android.logd.write("E", "ActivityManager", line, buffer="system", pid=2)
        if kept is None:
            self._android.logd.write("W", "ActivityManager", "dumping the trace failed", buffer="system", pid=2)

    async def _trace(self, app: App) -> Path | None:
        """The app's own account of its threads, named as Android names it; None: it wrote none in time."""
        try:
            os.kill(app.pid, signal.SIGQUIT)
        except ProcessLookupError:
            return None
        end = time.monotonic() + TRACE_S
        while not app.trace.exists() and time.monotonic() < end:
            await asyncio.sleep(0.05)
        if not app.trace.exists():
            return None
        now = time.time()
        stamp = time.strftime("%Y-%m-%d-%H-%M-%S", time.gmtime(now))
        kept = FOLDER / f"anr_{stamp}-{int(now % 1 * 1000):03d}"
        app.trace.rename(kept)
        for old in sorted(FOLDER.glob("anr_*"))[:-KEPT]:
            old.unlink(missing_ok=True)
        return kept

    def _event(self, tag: str, text: str) -> None:
        self._android.logd.write("I", tag, text, buffer="events", pid=2)


async def _reader(fd: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=_LINE_MAX)
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(fd, "rb", 0))
    return reader


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    while True:
        try:
            line = await reader.readline()
        except ValueError:  # longer than the limit: what was read of it is dropped
            continue
        if not line:
            return
        yield line.decode("utf-8", "replace").rstrip("\n")
