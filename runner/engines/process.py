"""An engine's process on a device: started, watched to its end, and asked what happened when it did not end well.

Silence is a hang: first the stacks (`debuggerd -b`, else what /proc shows), then the kill. Death by a signal is a
crash, and the evidence is whatever the engine, the crash log or the tombstone say about this very process. SIGKILL is
the system's doing: the low-memory killer's line names it.
"""

from __future__ import annotations

import re
import shlex
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from farm.adb.device import Device, Process
from farm.adb.errors import AdbError, DeviceUnavailable, ShellTimeout
from farm.evidence import crash
from runner.engines.base import EngineCrashed, EngineExit, EngineFailure, EngineHung, EngineKilled
from runner.reporter import Reporter

TAIL_LINES = 200
TAIL_CHARS = 24_000
#: How long the device may take to write its own account of a crash.
EVIDENCE_WAIT_S = 6.0
#: How often an engine that speaks is told to whoever watches the suite, seconds.
SIGN_EVERY_S = 1.0
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_ENDED_FROM_OUTSIDE = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE}
_START = 'cd "$1" && shift && exec "$@"'


class Tail:
    """The last lines of a stream, bounded in lines and characters."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=TAIL_LINES)

    def add(self, line: str) -> None:
        self._lines.append(line[:2000])

    def text(self) -> str:
        return "\n".join(self._lines)[-TAIL_CHARS:]


@dataclass(slots=True)
class Ended:
    """A process that ended by itself."""

    command: str
    pid: int | None
    exit_code: int
    seconds: float
    stdout: Tail = field(default_factory=Tail)
    stderr: Tail = field(default_factory=Tail)


@dataclass(frozen=True, slots=True)
class Runner:
    """Starts engine processes on one device. `env` goes to the engine alone, quoted."""

    device: Device
    serial: str
    reporter: Reporter
    directory: str
    env: Mapping[str, str]

    def argv(self, program: str, arguments: Sequence[str]) -> list[str]:
        """The whole command; the engine is the process itself, so that its pid is the one that adb tells."""
        bad = [name for name in self.env if not _ENV_NAME.fullmatch(name)]
        if bad:
            raise EngineExit(f"{bad[0]!r} is no name of an environment variable")
        settings = [f"{name}={value}" for name, value in sorted(self.env.items())]
        before = ["env", *settings] if settings else []
        return ["sh", "-c", _START, "sh", self.directory, *before, program, *arguments]

    def run(
        self,
        program: str,
        arguments: Sequence[str],
        *,
        silence_s: float,
        timeout_s: float,
        on_stdout: Callable[[str], None],
        on_stderr: Callable[[str], None] | None = None,
        doing: Callable[[], str | None] = lambda: None,
    ) -> Ended:
        """Run to the end. `doing` names the engine's stage for messages. Raises EngineFailure, AdbError."""
        began = time.monotonic()
        command = self.argv(program, arguments)
        process = self.device.spawn(command)
        ended = Ended(_shown(program, arguments), None, 0, 0.0)
        try:
            ended.pid = process.wait_pid(min(30.0, timeout_s))
            self.reporter.engine(self.serial, ended.pid, True)
            self._read(process, ended, began, silence_s, timeout_s, on_stdout, on_stderr)
        except ShellTimeout:
            raise self._hung(process, ended, began, silence_s, timeout_s, doing()) from None
        finally:
            process.kill()  # nothing for one that has ended; an interrupted test leaves no engine behind
            self.reporter.engine(self.serial, ended.pid, False)
        ended.seconds = time.monotonic() - began
        if process.exit_code is None:
            raise DeviceUnavailable(f"{self.serial}: the engine's connection ended without an exit code")
        ended.exit_code = process.exit_code
        if ended.exit_code > 128 and ended.exit_code <= 128 + 64:
            raise self._died(ended, ended.exit_code - 128, doing())
        return ended

    def _read(
        self,
        process: Process,
        ended: Ended,
        began: float,
        silence_s: float,
        timeout_s: float,
        on_stdout: Callable[[str], None],
        on_stderr: Callable[[str], None] | None,
    ) -> None:
        told = began
        while True:
            left = timeout_s - (time.monotonic() - began)
            line = process.read_line(max(0.0, min(silence_s, left)))
            if line is None:
                return
            if time.monotonic() - told >= SIGN_EVERY_S:  # a suite that waits for a busy engine is not silent
                told = time.monotonic()
                self.reporter.engine(self.serial, ended.pid, True)
            if line.stream == "stdout":
                ended.stdout.add(line.text)
                on_stdout(line.text)
            else:
                ended.stderr.add(line.text)
                if on_stderr is not None:
                    on_stderr(line.text)

    def _hung(
        self, process: Process, ended: Ended, began: float, silence_s: float, timeout_s: float, stage: str | None
    ) -> EngineFailure:
        where = f" in stage {stage}" if stage else ""
        over = time.monotonic() - began >= timeout_s
        what = f"not done after {timeout_s:g} s" if over else f"silent for {silence_s:g} s"
        stacks = stacks_of(self.device, ended.pid)
        process.kill()
        parts = (f"$ {ended.command}", stacks, section("last output", ended.stdout), section("stderr", ended.stderr))
        return EngineHung(f"the engine was {what}{where}", evidence=join(parts), details={"stage": stage})

    def _died(self, ended: Ended, number: int, stage: str | None) -> EngineFailure:
        name = _signal_name(number)
        where = f" in stage {stage}" if stage else ""
        if number == signal.SIGKILL:
            return self._killed(ended, where)
        parts = [f"$ {ended.command}", section("stderr", ended.stderr)]
        if number in _ENDED_FROM_OUTSIDE:
            return EngineExit(f"the engine was ended by {name}{where}", evidence=join(parts))
        said = crash.crashes(ended.stderr.text())
        account = self.account(ended.pid)
        crashes = said + crash.crashes(account)
        words = crashes[0].words() if crashes else name
        parts += [f"--- the device's own account\n{account}"] if account else []
        return EngineCrashed(f"the engine crashed{where}: {words}", evidence=join(parts), details={"signal": number})

    def _killed(self, ended: Ended, where: str) -> EngineFailure:
        lines = self._poll(lambda: self.kill_lines(ended.pid))
        why = lines[-1].strip() if lines else "no line of the low-memory killer was found"
        parts = ("\n".join(lines), f"$ {ended.command}", section("stderr", ended.stderr))
        return EngineKilled(f"the engine was killed by the system{where}: {why[:300]}", evidence=join(parts))

    def kill_lines(self, pid: int | None) -> list[str]:
        """What the low-memory killer says of this process."""
        text = self._ask("logcat -d -v threadtime -b main,system -t 2000 2>/dev/null; dmesg 2>/dev/null | tail -n 200")
        return [kill.line for kill in crash.low_memory_kills(text) if pid is None or kill.pid == pid]

    def account(self, pid: int | None) -> str:
        """What crash log and tombstone say about this process; empty when the device says nothing."""
        if pid is None:
            return ""
        found = self._poll(lambda: crash.about(self._ask("logcat -d -v threadtime -b crash -t 1000").splitlines(), pid))
        newest = self._ask(f"grep -l -E 'pid: {pid},' /data/tombstones/tombstone_* 2>/dev/null | tail -n 1 | xargs cat")
        log = "\n".join(found)
        return f"{log}\n{newest}"[:TAIL_CHARS] if newest.strip() else log[:TAIL_CHARS]

    def _poll(self, look: Callable[[], list[str]]) -> list[str]:
        deadline = time.monotonic() + EVIDENCE_WAIT_S
        while True:
            found = look()
            if found or time.monotonic() > deadline:
                return found
            time.sleep(0.2)

    def _ask(self, command: str) -> str:
        try:
            return self.device.shell(command, timeout_s=15, max_output=512 * 1024).stdout
        except AdbError as error:
            return f"(not to be had: {error})"


def stacks_of(device: Device, pid: int | None) -> str:
    """Where the process stands: the stacks of its threads, by whatever this device offers. Never raises."""
    if pid is None:
        return "(no stacks: the engine's process id is not known)"
    proc = (
        f"for t in /proc/{pid}/task/*; do echo; echo $t; cat $t/comm $t/wchan $t/syscall $t/stack 2>/dev/null; "
        "grep -E '^State' $t/status; done"
    )
    for command, title in ((f"debuggerd -b {pid}", "debuggerd -b"), (proc, "/proc")):
        try:
            result = device.shell(command, timeout_s=20, max_output=256 * 1024)
        except AdbError as error:
            return f"(no stacks: {error})"
        if result.exit_code == 0 and result.stdout.strip():
            return f"--- stacks by {title}\n{result.stdout[:TAIL_CHARS]}"
    return f"(no stacks: {result.stderr.strip()[:300] or 'the process is gone'})"


def section(title: str, tail: Tail) -> str:
    text = tail.text()
    return f"--- {title}\n{text}" if text else ""


def join(parts: Sequence[str]) -> str:
    return "\n".join(part for part in parts if part)


def _shown(program: str, arguments: Sequence[str]) -> str:
    return shlex.join([program, *arguments])[:2000]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
