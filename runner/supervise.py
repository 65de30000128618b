"""The loop round a sandbox: start it, look at it ten times a second, stop it when it must be stopped, say why."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from farm.adb.deadline import stalled_s
from farm.adb.device import Device
from farm.domain.causes import Cause
from farm.domain.journal import clip
from farm.domain.outcomes import Outcome
from runner import cgroup, sandbox
from runner.engines.process import stacks_of
from runner.output import OutputLog
from runner.service import Service
from runner.spec import AttemptSpec
from runner.stacks import waited_in
from runner.verdict import death
from runner.watch import Signs, Stop, Watch

TICK_S = 0.1
#: A suite whose device is gone may still tidy up for this long.
LOST_GRACE_S = 10.0
MAX_WORK_BYTES = 2 << 30
MAX_WORK_FILES = 50_000
_SLOW_LOOK_S = 2.0
#: How a sandbox ends whose pytest was killed: bubblewrap's own word for it, or its own death.
KILLED = (128 + signal.SIGKILL, -signal.SIGKILL)
OUT_OF_MEMORY = (
    f"the suite used more than {cgroup.MAX_MEMORY >> 30} GB of memory, the sandbox's limit for all its processes "
    "together, and the kernel ended it"
)


class Inside:
    """One pytest in one sandbox."""

    def __init__(
        self,
        folder: Path,
        spec: AttemptSpec,
        where: sandbox.Layout,
        service: Service,
        watch: Watch,
        suites: Mapping[str, str],
    ) -> None:
        self._folder, self._spec, self._where = folder, spec, where
        self._service, self._watch, self._suites = service, watch, suites
        self._next_slow_look = 0.0
        self._lost_at: float | None = None

    def run(self, command: list[str]) -> tuple[int | None, Stop | None, dict[str, str]]:
        """Run to the end: pytest's exit code, why it was stopped if it was, devices that were lost."""
        group = cgroup.make(f"farm-attempt-{self._spec.attempt}-{os.getpid()}")
        started = sandbox.start(self._where, command)
        log = OutputLog(started.stdout, self._folder / "runner.log")
        stop: Stop | None = None
        starved = False
        try:
            group.add(started.process.pid)
            group.add(started.child)
            started.go()
            while started.process.poll() is None:
                stop = self._look(started, log)
                if stop is not None:
                    stop = self._stop(started, log, stop)
                    break
                with contextlib.suppress(subprocess.TimeoutExpired):
                    started.process.wait(TICK_S)
        finally:
            kill(started)
            log.finish()
            starved = group.ran_out_of_memory()
            group.remove()
        exit_code = started.process.returncode
        if stop is None and self._service.suite_pid is None:
            stop = Stop(Outcome.INFRA_ERROR, f"the tests did not start in the sandbox: {log.tail(1000).strip()}")
        elif stop is None and (stop := self._broken()) is None and not self._service.lost:
            stop = self._ended_by_itself(exit_code, starved, log)
        return exit_code, stop, dict(self._service.lost)

    def _ended_by_itself(self, exit_code: int, starved: bool, log: OutputLog) -> Stop | None:
        """Whatever test was running did not come to its end: why. Only the kernel's hand on its memory is a stop."""
        if starved and exit_code in KILLED:
            stop = Stop(Outcome.FAILED, OUT_OF_MEMORY)
            self._service.end_running(stop.outcome.value, stop.reason, log.tail())
            self._service.incident("suite-killed", stop.reason, log.tail())
            return stop
        self._service.end_running(None, f"{death(exit_code)} in the middle of this test", log.tail())
        return None

    def _look(self, started: sandbox.Started, log: OutputLog) -> Stop | None:
        now = time.monotonic()
        signs = Signs(
            now=now,
            last_sign=max(self._service.last_sign, log.last_output),
            waits_for_turn=self._service.waiting_for_turn(),
            queued_s=self._service.queue_s(),
            suite=self._suite(),
            cancelled=(self._folder / "cancel").exists(),
            renewal=_text(self._folder / "renewed"),
            stalled_s=stalled_s(),
        )
        stop = self._broken() or self._watch.look(signs) or self._lost(now)
        if stop is None and now >= self._next_slow_look:
            self._next_slow_look = now + _SLOW_LOOK_S
            return self._greed(started, log)
        return stop

    def _suite(self) -> str | None:
        test = self._service.running_test()
        if test is None:
            return None
        at = max((path for path in self._suites if test.startswith(path)), key=len, default=None)
        return None if at is None else self._suites[at]

    def _broken(self) -> Stop | None:
        """A test whose end could not be written down would be missing, or run twice."""
        why = self._service.broken
        return None if why is None else Stop(Outcome.INFRA_ERROR, why, cause=Cause.HOST_DISK)

    def _lost(self, now: float) -> Stop | None:
        if not self._service.lost:
            return None
        self._lost_at = self._lost_at or now
        if now - self._lost_at < LOST_GRACE_S:
            return None
        device, why = next(iter(self._service.lost.items()))
        return Stop(Outcome.DEVICE_LOST, f"{device}: {why}")

    def _greed(self, started: sandbox.Started, log: OutputLog) -> Stop | None:
        """Bounds that no kernel limit holds for us."""
        if log.floods:
            return Stop(Outcome.FAILED, f"the suite printed more than {log.count >> 20} MB")
        tasks = cgroup.tasks_inside(started.child)
        if tasks > cgroup.MAX_TASKS:
            return Stop(Outcome.FAILED, f"the suite had {tasks} processes")
        if _too_much(self._where.work):
            return Stop(
                Outcome.FAILED, f"the suite wrote more than {MAX_WORK_BYTES >> 30} GB or {MAX_WORK_FILES} files"
            )
        return None

    def _stop(self, started: sandbox.Started, log: OutputLog, stop: Stop) -> Stop:
        """Stacks first where something hangs, then the kill, then the end of the running test; why, with where."""
        log.say(f"\nrunner: stopped: {stop.reason}")
        detail = self._stacks(log) if stop.takes_stacks else log.tail()
        kill(started)
        test = self._service.running_test()
        if stop.takes_stacks and test is not None:
            at = waited_in(detail)
            stop = replace(stop, reason=f"{stop.reason}, in {test}{f': it waited in {at}' if at else ''}")
        if stop.outcome in (Outcome.TIMED_OUT, Outcome.FAILED):
            self._service.end_running(stop.outcome.value, stop.reason, clip(detail))
            self._service.incident("suite-killed", stop.reason, detail)
        return stop

    def _stacks(self, log: OutputLog) -> str:
        """Where pytest and its engines stand: Python's stacks, then the device's."""
        parts = []
        before = log.count
        if self._service.suite_pid is not None:
            with contextlib.suppress(OSError):
                os.kill(self._service.suite_pid, signal.SIGUSR2)
            deadline = time.monotonic() + 3
            while time.monotonic() < deadline and (log.count == before or time.monotonic() - log.last_output < 0.2):
                time.sleep(0.05)
            parts.append(f"--- stacks of the suite\n{log.tail(12_000) if log.count > before else '(none came)'}")
        by_serial = {device.serial: device for device in self._spec.devices}
        for serial, pid in list(self._service.engines)[:4]:
            spec = by_serial[serial]
            device = Device(self._spec.adb_host, self._spec.adb_port, spec.address, serial=serial)
            parts.append(f"--- engine, process {pid} on {spec.name}\n{stacks_of(device, pid)}")
        return "\n".join(parts)


def kill(started: sandbox.Started) -> None:
    """End the sandbox: with its process 1 goes everything inside."""
    if started.process.poll() is not None:
        return
    for pid in (started.child, started.process.pid):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        started.process.wait(10)


def _text(path: Path) -> str | None:
    try:
        with path.open(errors="replace") as file:
            return file.read(200)
    except OSError:
        return None


def _too_much(folder: Path) -> bool:
    size = files = 0
    pending = [folder]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    files += 1
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(Path(entry.path))
                    else:
                        size += entry.stat(follow_symlinks=False).st_size
                    if files > MAX_WORK_FILES or size > MAX_WORK_BYTES:
                        return True
        except OSError:
            continue
    return False
