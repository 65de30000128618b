"""The suites run: a runner is started (or the one that outlived a restart is adopted) and its journal is followed.

This step does not judge: the journal's end record does. It starts a runner that died again (the tests that finished
stay finished), passes a cancel on, and ends whatever does not end by itself.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from farm.domain import jobs
from farm.domain.causes import Cause, cause_of
from farm.domain.jobs import TestEnd
from farm.domain.journal import Record
from farm.domain.leases import FENCE
from farm.domain.outcomes import Outcome, TestOutcome
from farm.store import bundles, runs, tables
from farm.work.deploy import device_dir
from farm.work.hold import lock_of
from farm.work.journal import JournalTail, Shipper
from farm.work.precheck import ensure_logcat
from farm.work.renewal import write_renewed
from farm.work.step import Cut, Step
from farm.work.supervisor import START_S, Supervisor

log = logging.getLogger(__name__)


def execute(step: Step) -> None:
    """Ends with Cut: the outcome that the runner found, or what kept it from finding one."""
    _Execution(step).run()


class _Execution:
    def __init__(self, step: Step) -> None:
        self.step = step
        self.settings = step.work.settings
        self.tail = JournalTail(step.folder / "journal.jsonl")
        self.shipper = Shipper(step.work, step.id, step.attempt.token, self.tail)
        self.runner = Supervisor(step.folder)
        self.ended: dict[str, TestEnd] = {}

    def run(self) -> None:
        self._follow()
        if self.step.attempt.outcome is not None:  # it has ended already: only make sure that nobody works on
            self.runner.kill()
            self._follow()
            return
        ensure_logcat(self.step)
        self._find_or_start()
        limit = self._limits()["attempt_s"] + 120.0
        began = time.monotonic()
        while not self._over():
            self._watch(time.monotonic() - began > limit)
        self._let_go()
        raise _cut_of(self.tail.end)

    def _over(self) -> bool:
        """Whether the journal has its end; a runner that died without one is started again."""
        self._follow()
        if self.tail.has_ended():
            return True
        if not self.runner.alive():
            self._follow()  # what it wrote between the last look and its death
            if self.tail.has_ended():
                return True
            self._restart()
        return False

    def _watch(self, overdue: bool) -> None:
        try:
            self.step.check()
        except Cut as cut:
            self._stop(cut)
            raise
        if overdue:
            late = Cut(Outcome.INFRA_ERROR, "the runner overran its own time limits and was ended")
            self._stop(late)
            raise late
        if self.tail.starts:
            self.step.say(self._waits())
        self.step.pause(self.settings.journal_poll_s)

    def _waits(self) -> str | None:
        """What the runner says that its test waits for; None while it works."""
        try:
            with (self.step.folder / "waiting").open(errors="replace") as file:
                return file.read(300).removeprefix("waits ") or None
        except OSError:
            return None

    def _follow(self) -> None:
        before = self.tail.starts
        while self.shipper.ship():
            pass
        if self.tail.starts != before:
            self.step.say(None)

    def _find_or_start(self) -> None:
        """Adopt a living runner; with none, and none just starting, begin one (unless the journal has its end)."""
        if self.tail.has_ended() or self.runner.alive():
            return
        self.step.check()
        lock, end = lock_of(self.step.work, self.step.device_row), time.monotonic() + START_S
        while not lock.try_acquire(f"attempt {self.step.id} of the farm in {self.step.work.state}"):
            words = f"{self.step.device_row.name} is held by {lock.holder()}"  # by our runner, which says so soon?
            if time.monotonic() >= end:
                raise Cut(Outcome.INFRA_ERROR, f"{words} for more than {START_S:g} s")
            self.step.say(f"its device: {words}")
            self.step.check()
            self.step.pause(0.2)
            if self.runner.alive():
                return
        lock.release()
        if not self.runner.alive():
            self._start()

    def _start(self) -> None:
        step = self.step
        step.wait_online(self.settings.online_wait_s)
        (step.folder / "work").mkdir(exist_ok=True)
        write_attempt(step, self._limits(), self._finished())
        write_renewed(step.folder)
        step.say("the runner to start")
        self.runner.start()

    def _restart(self) -> None:
        died = f"the runner {self.runner.death()} (start {max(self.tail.starts, 1)})"
        if self.tail.starts >= self.settings.runner_starts or self.tail.starts == 0:
            words = f"{died}; its last words: {self.runner.last_words()}"
            self.runner.note(f"{died}; the attempt ends")
            raise Cut(Outcome.INFRA_ERROR, words, Cause.RUNNER_DIED)
        log.warning("attempt %d: %s; starting it again", self.step.id, died)
        self.runner.note(f"{died}; it is started again, and tests that finished stay finished")
        self._start()

    def _stop(self, cut: Cut) -> None:
        """Ask the runner to end, so that it can write down how; then make sure."""
        self.runner.note(f"the runner is ended: {cut.reason}")
        if cut.outcome is Outcome.CANCELLED:
            (self.step.folder / "cancel").write_text(cut.reason)
            self.step.say("the runner to stop")
            self.runner.wait(self.settings.runner_exit_s)
        self.runner.kill()
        self._follow()

    def _let_go(self) -> None:
        """Its last record is written: it goes by itself, or it is made to."""
        if not self.runner.wait(self.settings.runner_exit_s):
            self.step.detail["runner"] = "it did not go after its end and was killed"
        self.runner.kill()

    def _limits(self) -> dict[str, float]:
        return jobs.limits_of(
            self.step.pack.manifest, self.step.job.suites, self.settings.suite_limit_s, self.settings.silence_limit_s
        )

    def _finished(self) -> list[str]:
        """Tests that ended for good: in earlier attempts that lost their device, and here before a runner died."""
        with self.step.work.db.read() as session:
            earlier = jobs.carried(runs.attempt_ends(session, self.step.job.id))
            own = session.query(tables.Test).filter_by(attempt_id=self.step.id)
            ends = [
                TestEnd(t.test_id, TestOutcome(t.outcome), Outcome(t.cause) if t.cause else None)
                for t in own
                if t.outcome
            ]
        return sorted({*earlier, *(t.test for t in ends if t.finished())})


def _cut_of(end: Record | None) -> Cut:
    if end is None:
        return Cut(Outcome.INFRA_ERROR, "the runner left no end", Cause.RUNNER_DIED)
    try:
        outcome = Outcome(end.fields["outcome"])
    except (KeyError, ValueError):
        return Cut(Outcome.INFRA_ERROR, f"the runner's end makes no sense: {str(end.fields)[:200]}")
    cause = end.fields.get("cause")
    return Cut(outcome, str(end.fields.get("reason") or ""), cause_of(cause if isinstance(cause, str) else None))


def write_attempt(step: Step, limits: dict[str, float], finished: list[str]) -> None:
    """`attempt.json`: everything that the runner is told. Whole or not there."""
    device, request = step.device_row, step.run.request
    env: dict[str, str] = {}
    for key in ("*", device.name, device.serial):
        env |= request.get("env", {}).get(key, {})
    body: dict[str, Any] = {
        "attempt": step.id,
        "run": step.run.id,
        "token": step.attempt.token,
        "devices": [
            {
                "id": device.id,
                "serial": device.serial,
                "name": device.name,
                "address": device.address,
                "abi": device.labels["abi"],
                "labels": {**device.labels, **{k: v for k, v in (("pool", device.pool), ("type", device.type)) if v}},
                "virtual": device.virtual,
                "temperature_c": device.temperature_c,
            }
        ],
        "adb": {"host": step.work.adb_host, "port": step.work.adb_port},
        "bundle": {
            "hash": step.bundle.hash,
            "name": step.bundle.name,
            "adapter": step.bundle.adapter,
            "entry": step.bundle.manifest["entry"],
            "manifest": step.bundle.manifest,
            "device_dir": device_dir(step.bundle.hash),
        },
        "pack_dir": str(_pack_dir(step)),
        "suites": step.job.suites,
        "tests": step.job.tests,
        "finished": finished,
        "env": {device.serial: env},
        "params": request.get("params", {}),
        "limits": limits,
        "locks_dir": str(step.work.locks_dir),
        "state_dir": str(step.work.state),
        "measure_slots": _measure_slots(step),
        "fence_s": FENCE.total_seconds(),
    }
    partial = step.folder / "attempt.json.part"
    partial.write_text(json.dumps(body, indent=1))
    partial.replace(step.folder / "attempt.json")


def _measure_slots(step: Step) -> int:
    """How many measuring tests may run at once on this host: as the inventory says, else as the settings do."""
    with step.work.db.read() as session:
        host = session.get_one(tables.Host, step.attempt.host)
        return int(host.info.get("measure_slots") or step.work.settings.measure_slots)


def _pack_dir(step: Step) -> Any:
    folder = step.work.pack_dir(step.pack.hash)
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            bundles.lay_out(step.work.artifacts, step.pack.manifest, folder)
        except OSError:
            if not folder.exists():  # another attempt was faster
                raise
    return folder
