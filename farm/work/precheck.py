"""The first step: can this attempt work on this device at all? And what the device looks like before it is touched."""

from __future__ import annotations

import json
import time

from farm.adb import clean, health
from farm.adb import precheck as looks
from farm.adb.logcat import LogcatStream
from farm.adb.push_cache import BUNDLES_DIR
from farm.domain import precheck as rules
from farm.domain import readiness
from farm.domain.causes import Cause
from farm.domain.outcomes import Outcome
from farm.store import peaks
from farm.work.hold import held
from farm.work.step import Cut, Step, adb_cut


def precheck(step: Step) -> None:
    """Device there and fit, a file for its ABI; logcat runs from here on, a snapshot tells clean what to restore."""
    step.folder.mkdir(parents=True, exist_ok=True)
    abi = step.device_row.labels.get("abi", "")
    if abi not in step.bundle.manifest["files"]:
        have = ", ".join(step.bundle.manifest["files"])
        words = f"the bundle has files for {have}, {step.device_row.name} is {abi or 'unknown'}"
        raise Cut(Outcome.REFUSED, words, Cause.WRONG_ABI)
    step.wait_online(step.work.settings.online_wait_s)
    with held(step):
        _look(step)


def _look(step: Step) -> None:
    ensure_logcat(step)
    report = _fit(step)
    step.note_temperature(report.temperature_c)
    step.detail["health"] = {
        "boot_id": report.boot_id,
        "temperature_c": report.temperature_c,
        "battery_pct": report.battery_pct,
        "free_bytes": report.free_bytes,
        "clock_skew_s": report.clock_skew_s,
    }
    take_snapshot(step)
    _checks(step)


def _checks(step: Step) -> None:
    """The list of `farm.domain.precheck`, kept with the phase; the first check that failed ends the attempt."""
    device, manifest = step.device_row, step.bundle.manifest
    with step.work.db.read() as session:
        reached = peaks.of_bundle(session, step.bundle.hash)
    state = looks.look(step.device(), device.labels.get("abi"), f"{BUNDLES_DIR}/{step.bundle.hash[:16]}")
    found = rules.checks(state, manifest, looks.models_of(manifest, local_models(step)), reached)
    step.detail["checks"] = rules.to_json(found)
    wrong = rules.failed(found)
    if wrong is not None:
        outcome = Outcome.DEPLOY_FAILED if wrong.cause is Cause.STORAGE_FULL else Outcome.REFUSED
        raise Cut(outcome, f"{wrong.name}: {wrong.figure} on {device.name}; {wrong.remedy}", wrong.cause)


def local_models(step: Step) -> dict[str, str | None]:
    """Models of the bundle on this host; one that the store has lost is told by the deploy."""
    found: dict[str, str | None] = {}
    for path in step.bundle.manifest["models"].values():
        try:
            found[path] = str(step.work.artifacts.local_path(step.bundle.manifest["content"][path]["sha256"]))
        except FileNotFoundError:
            found[path] = None
    return found


def ensure_logcat(step: Step) -> None:
    """The device's log streams into the attempt's folder; after a restart of the farm it goes on there."""
    if step.id not in step.work.logcats:
        stream = LogcatStream(step.device(), step.folder / "logcat.zst")
        stream.start()
        step.work.logcats[step.id] = stream


def take_snapshot(step: Step) -> None:
    """Once per attempt: after a re-entry the device may be touched already, and the first look counts."""
    path = step.folder / "snapshot.json"
    if path.exists():
        return
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(clean.snapshot(step.device()).to_json()))
    partial.replace(path)


def cause_of(report: health.HealthReport) -> Cause:
    """Whose fault an unfit device is."""
    if not report.ill and readiness.is_full(report.free_bytes):
        return Cause.STORAGE_FULL
    return Cause.DEVICE_UNFIT


def _fit(step: Step) -> health.HealthReport:
    """A health report without problems; one that has some is looked at again until the wait is over."""
    end = time.monotonic() + step.work.settings.online_wait_s
    while True:
        report = health.check(step.device())
        if report.ok:
            return report
        words = "; ".join(report.problems) or "it did not answer"
        if time.monotonic() >= end:
            if report.error is not None:  # lost, or silent: that is not "unfit"
                raise adb_cut(step.phase, report.error)
            raise Cut(Outcome.INFRA_ERROR, f"{step.device_row.name} is not fit for work: {words}", cause_of(report))
        step.say(f"{step.device_row.name} to become fit: {words}")
        step.check()
        step.pause(0.5)
