"""The device is given back as it was taken, verified; or it goes into quarantine. Only then does its lease end."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from farm.adb import clean, errors
from farm.adb.device import Device
from farm.adb.push_cache import BUNDLES_DIR, CAS_DIR
from farm.domain.devices import Health
from farm.domain.names import safe
from farm.store import devices, handover, leases, tables
from farm.work.context import Work
from farm.work.hold import held
from farm.work.step import Cut, Step, is_away
from farm.work.supervisor import Supervisor

log = logging.getLogger(__name__)

#: Stays on the device: what was pushed, by content, and the bundles that link to it.
KEPT = (CAS_DIR, BUNDLES_DIR)
_LOCK_S = 20.0
#: Why a lease ended whose device was given back as it was taken.
_CLEANED = "cleaned"


def clean_device(step: Step) -> None:
    """Nobody works on, the device is as before, its lease ends. What cannot be cleaned is quarantined, with why.

    Where the lease has ended already (the farm died between that and its note of it), the device may be somebody
    else's by now: it is not touched again.
    """
    if (ended := _lease_ended(step)) is not None:
        Supervisor(step.folder).kill()
        step.detail["clean"] = ended
        return
    problem = None
    try:
        problem = _clean(step)
    except Cut as cut:
        problem = cut.reason
    except errors.AdbError as error:
        problem = f"{error} ({error.remedy})"
    except Exception as error:
        if is_away(step.work, error):
            raise
        log.exception("attempt %d: cleaning failed", step.id)
        problem = f"cleaning failed: {type(error).__name__}: {error}"
    step.detail["clean"] = problem or "verified"
    _end_lease(step, problem)


def _lease_ended(step: Step) -> str | None:
    """How the attempt's lease ended, in the words of this step; None while it is open."""
    with step.work.db.read() as session:
        if leases.of_attempt(session, step.id, step.attempt.token) is not None:
            return None
        row = session.query(tables.Lease).filter_by(attempt_id=step.id, token=step.attempt.token).one_or_none()
        reason = row.end_reason if row is not None else None
        return "verified" if reason == _CLEANED else f"not touched, its lease is over: {reason or 'nobody says why'}"


def _clean(step: Step) -> str | None:
    """What is wrong with the device now, None when it is clean."""
    if not Supervisor(step.folder).kill():
        return "its runner cannot be killed"
    with held(step, _LOCK_S, checked=False):
        before = step.folder / "snapshot.json"
        if not before.exists():
            return None  # it was never touched
        step.wait_online(step.work.settings.clean_wait_s, checked=False)
        step.say(f"{step.device_row.name} to be cleaned")
        report = restore(step.device(), before, step.work.settings.clean_limit_s)
    step.detail.update(killed=report.killed[:50], removed=report.removed[:50])
    return None if report.ok else f"not clean: {'; '.join(report.differences[:5])}"


def restore(device: Device, before: Path, limit_s: float) -> clean.CleanReport:
    """Back to what `before` (a snapshot file) says, the push cache aside."""
    snapshot = clean.Snapshot.from_json(json.loads(before.read_text()))
    return clean.restore(device, snapshot, keep=KEPT, deadline_s=limit_s)


def dirty_file(work: Work, serial: str) -> Path:
    """There while a device waits to be cleaned: the snapshot of what it should be."""
    return work.state / "dirty" / f"{safe(serial)}.json"


def _end_lease(step: Step, problem: str | None) -> None:
    before = step.folder / "snapshot.json"
    known = problem is not None and remember(step.work, step.device_row.serial, before)
    with step.work.db.session() as session:
        now = step.work.db.now(session)
        if problem is not None:
            words = f"not cleaned after attempt {step.id}: {problem}"
            health = Health.BAD if known else Health.SUSPECT  # never touched: looked at is enough
            devices.set_health(session, step.attempt.device_id, health, words, "clean", now)
        lease = leases.of_attempt(session, step.id, step.attempt.token)
        if lease is not None:
            handover.free(session, lease.id, now, _CLEANED if problem is None else f"quarantined: {problem}")


def remember(work: Work, serial: str, before: Path) -> bool:
    """Keep the snapshot where the agent finds it once the device can be reached again; False when there is none."""
    if not before.exists():
        return False
    target = dirty_file(work, serial)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".part")
    partial.write_bytes(before.read_bytes())
    partial.replace(target)
    return True
