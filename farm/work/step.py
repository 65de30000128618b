"""What every step of an attempt does first and last: the attempt's row and its token decide, the workflow re-enters.

A step that was done is passed over, one that was interrupted begins again from its start, so each must be idempotent.
An attempt that has its outcome goes straight on to collect and clean. The first cause of an end wins; a later truth is
kept beside it.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.exc import InterfaceError, InternalError, OperationalError
from sqlalchemy.orm import Session

from farm.adb import errors
from farm.adb.device import Device
from farm.domain import readiness
from farm.domain.causes import Cause, disk_cause, fits, ruling
from farm.domain.journal import clip
from farm.domain.outcomes import Outcome, Phase
from farm.store import clusters, devices, leases, tables
from farm.store.bus import touch
from farm.store.locks import hold_attempt
from farm.work.context import Work

log = logging.getLogger(__name__)


class Stopping(BaseException):
    """The farm is being stopped: the step is left as it is and entered again after the next start.

    No Exception, so that nothing on the way records it as the step's result.
    """


class Cut(Exception):
    """The attempt ends here, with this outcome; `cause` says whose it is where the outcome alone does not."""

    def __init__(self, outcome: Outcome, reason: str, cause: Cause | None = None) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason
        self.cause = cause


@dataclass(slots=True)
class Step:
    """One step under way: the attempt's facts as they were at its start, and the ways to speak and to be stopped."""

    work: Work
    phase: Phase
    attempt: tables.Attempt
    job: tables.Job
    run: tables.Run
    device_row: tables.Device
    bundle: tables.Bundle
    pack: tables.SuitePack
    detail: dict[str, Any] = field(default_factory=dict)  # kept with the phase, shown in the timeline
    _said: tuple[float, str | None] = (0.0, None)

    @property
    def id(self) -> int:
        return self.attempt.id

    @property
    def folder(self) -> Any:
        return self.work.attempt_dir(self.attempt.id)

    def device(self) -> Device:
        """The leased device; every connection makes sure that it is this very one."""
        address = self.device_row.address or self.device_row.serial
        return Device(self.work.adb_host, self.work.adb_port, address, serial=self.device_row.serial)

    def say(self, waiting_for: str | None) -> None:
        """Show what the step waits for; often repeated words reach the database twice a second at most."""
        at, last = self._said
        if waiting_for == last or (waiting_for and last and time.monotonic() - at < 0.5):
            return
        self._said = (time.monotonic(), waiting_for)
        with self.work.db.session() as session:
            session.get_one(tables.Attempt, self.id).waiting_for = waiting_for
            self.touch(session)

    def touch(self, session: Session) -> None:
        now = self.work.db.now(session)
        touch(session, "attempt", self.id, at=now, run_id=self.run.id, device_id=self.attempt.device_id)

    def note_temperature(self, celsius: float | None) -> None:
        """What the step measured belongs to the device's curve too; None ("not measured") changes nothing."""
        if celsius is None:
            return
        with self.work.db.session() as session:
            row = session.get_one(tables.Device, self.attempt.device_id)
            now = self.work.db.now(session)
            devices.note_temperature(session, row, celsius, now)
            touch(session, "device", row.id, at=now, run_id=self.run.id, device_id=row.id)

    def check(self) -> None:
        """Raise Stopping, or Cut when a cancel was asked for or the lease is no longer ours."""
        if self.work.stopping.is_set():
            raise Stopping
        with self.work.db.read() as session:
            attempt = session.get_one(tables.Attempt, self.id)
            if attempt.cancel_at is not None:
                raise Cut(Outcome.CANCELLED, f"cancelled during {self.phase.value}")
            lease = leases.of_attempt(session, self.id, attempt.token)
            if lease is None or lease.released_at is not None:
                raise _lease_lost(session, attempt, lease is not None)
            device = session.get_one(tables.Device, attempt.device_id)
            if self.phase in _FORWARD and readiness.is_held_hot(device.hot_since, self.work.db.now(session)):
                words = readiness.heat_words(device.temperature_c, device.has_battery)
                raise Cut(Outcome.INFRA_ERROR, f"{device.name} is {words}", Cause.TOO_HOT)

    def pause(self, seconds: float) -> None:
        """Sleep a little, waking at once when the farm stops."""
        if self.work.stopping.wait(seconds):
            raise Stopping

    def wait_online(self, limit_s: float, *, checked: bool = True) -> None:
        """Wait until adb lists the device as online. Raises Cut: device-lost."""
        end = time.monotonic() + limit_s
        while True:
            with self.work.db.read() as session:
                row = session.get_one(tables.Device, self.attempt.device_id)
            if row.connection == "device":
                self.device_row = row
                return
            if time.monotonic() >= end:
                raise Cut(Outcome.DEVICE_LOST, f"adb says {row.connection!r} for {limit_s:g} s", _lost(row.connection))
            self.say(f"{row.name} to come back (adb says {row.connection})")
            if checked:
                self.check()
            self.pause(0.25)


def _lease_lost(session: Session, attempt: tables.Attempt, released: bool) -> Cut:
    row = session.query(tables.Lease).filter_by(attempt_id=attempt.id).order_by(tables.Lease.id.desc()).first()
    why = row.end_reason if row is not None and row.end_reason else "it was ended by somebody else"
    if released and row is not None and row.ends_at <= (row.released_at or row.ends_at):
        return Cut(Outcome.TIMED_OUT, f"the lease reached its hard end during {attempt.phase}", Cause.LEASE_END)
    taken = row is not None and row.preempted_by is not None
    cause = Cause.PREEMPTED if taken else Cause.LEASE_LOST
    return Cut(Outcome.INFRA_ERROR, f"the attempt lost its lease: {why}", cause)


def _lost(connection: str) -> Cause:
    """The cause of a loss in adb's own word."""
    known = {
        "offline": Cause.OFFLINE,
        "unauthorized": Cause.UNAUTHORIZED,
        "duplicate": Cause.DUPLICATE_SERIAL,
    }
    return known.get(connection, Cause.GONE)


Body = Callable[[Step], None]
#: Steps that an attempt with an outcome passes over.
_FORWARD = (Phase.PRECHECK, Phase.DEPLOY, Phase.SETTLE, Phase.EXECUTE)
#: How often a step is entered again after the adb server died under it, and the pause before.
_ADB_TRIES = 5
_ADB_PAUSE_S = 2.0
_NO_ADB_SERVER = "the adb server of its host, which is being started again"
_NOT_LISTED_YET = "the new adb server of its host to find the device again"


#: The database is away, or gave up on a transaction that waited for another: neither is the step's fault.
AWAY = (OperationalError, InterfaceError, InternalError)
_AGAIN_S = 1.0


def is_away(work: Work, error: Exception) -> bool:
    """Whether the database is away: the step is entered again. A file never is: something is wrong with it."""
    return isinstance(error, AWAY) and not work.db.is_sqlite


def run_step(work: Work, attempt_id: int, phase: Phase, body: Body) -> None:
    """Enter a step, unless the attempt is past it, and note how it went. Never raises but Stopping.

    While the database is away the step is entered again and again: what may be done then is for its row to say. The
    runner goes on meanwhile, until it fences itself.
    """
    work.entered.add(attempt_id)
    try:
        while not _tried(work, attempt_id, phase, body):
            if work.stopping.wait(_AGAIN_S):
                raise Stopping
    finally:
        work.entered.discard(attempt_id)


def _tried(work: Work, attempt_id: int, phase: Phase, body: Body) -> bool:
    """Whether the step was entered and left, or passed over; False: the database is away."""
    try:
        _run_step(work, attempt_id, phase, body)
        return True
    except AWAY as error:
        if not is_away(work, error):
            raise
        log.warning("attempt %d: %s waits for the database: %s", attempt_id, phase.value, error)
        return False


def _run_step(work: Work, attempt_id: int, phase: Phase, body: Body) -> None:
    if work.stopping.is_set():
        raise Stopping
    step = _enter(work, attempt_id, phase)
    if step is None:
        return
    try:
        if phase in _FORWARD and phase is not Phase.EXECUTE:
            step.check()
        _enter_body(step, body)
        cut = None
    except Cut as raised:
        cut = raised
    except errors.AdbError as error:
        cut = adb_cut(phase, error)
    except Exception as error:
        if is_away(work, error):
            raise
        log.exception("attempt %d: %s failed", attempt_id, phase.value)
        cause = disk_cause(error) or Cause.FARM_BUG
        cut = Cut(Outcome.INFRA_ERROR, f"{phase.value} failed: {type(error).__name__}: {error}", cause)
        if cause is Cause.FARM_BUG:  # the host's full disk is no bug: its reason says it all
            _note_incident(step, cut.reason, traceback.format_exc())
    _leave(step, cut)


def _enter_body(step: Step, body: Body) -> None:
    """A step that the death of the adb server interrupted is entered again once the new server has its devices: what it
    does not list yet, or only connects to, is not gone.

    Steps are idempotent; a suite that runs is not, and ends as the runner says.
    """
    again = _FORWARD if step.phase is not Phase.EXECUTE else ()
    for tries_left in range(_ADB_TRIES, -1, -1):
        try:
            return body(step)
        except (errors.AdbServerGone, errors.DeviceGone, errors.DeviceOffline) as error:
            missing = not isinstance(error, errors.AdbServerGone)
            if step.phase not in again or not tries_left or (missing and step.work.adb_steady()):
                raise
            log.warning("attempt %d: %s; entering %s again", step.id, error, step.phase.value)
            step.say(_NOT_LISTED_YET if missing else _NO_ADB_SERVER)
            step.pause(_ADB_PAUSE_S)
            step.check()


def adb_cut(phase: Phase, error: errors.AdbError) -> Cut:
    """What an error of the adb room means for the attempt."""
    words = f"{error} ({error.remedy})"
    cause = next((found for kind, found in _CAUSES if isinstance(error, kind)), None)
    if isinstance(error, errors.AdbServerGone):
        return Cut(Outcome.INFRA_ERROR, words, cause)
    if isinstance(error, errors.DeviceUnavailable):
        return Cut(Outcome.DEVICE_LOST, words, cause)
    if isinstance(error, errors.Cancelled):
        return Cut(Outcome.CANCELLED, f"cancelled during {phase.value}")
    outcome = Outcome.DEPLOY_FAILED if phase is Phase.DEPLOY else Outcome.INFRA_ERROR
    return Cut(outcome, words, cause if fits(outcome, cause) else None)


#: What an error of the adb room says about the culprit; the first kind that fits.
_CAUSES: tuple[tuple[type[errors.AdbError], Cause], ...] = (
    (errors.AdbServerGone, Cause.ADB_SERVER),
    (errors.Unauthorized, Cause.UNAUTHORIZED),
    (errors.DeviceOffline, Cause.OFFLINE),
    (errors.AmbiguousDevice, Cause.DUPLICATE_SERIAL),
    (errors.IdentityMismatch, Cause.OTHER_DEVICE),
    (errors.DeviceUnavailable, Cause.GONE),
    (errors.NoSpace, Cause.STORAGE_FULL),
    (errors.WrongContent, Cause.WRONG_CONTENT),
    (errors.ShellTimeout, Cause.DEVICE_SLOW),
    (errors.RemoteError, Cause.TRANSFER_BROKE),
)


def set_outcome(attempt: tables.Attempt, outcome: Outcome, reason: str, cause: Cause | None = None) -> None:
    """The first cause wins; another one that comes later is shown beside it."""
    reason = clip(reason, 4000)
    if attempt.outcome is None:
        attempt.outcome, attempt.reason = outcome.value, reason
        attempt.cause = cause.value if cause is not None and fits(outcome, cause) else None
        attempt.blame = ruling(outcome, cause).blame.value
    elif attempt.outcome != outcome.value and attempt.late_outcome is None:
        attempt.late_outcome, attempt.late_reason = outcome.value, reason


def _enter(work: Work, attempt_id: int, phase: Phase) -> Step | None:
    with work.db.session() as session:
        attempt = hold_attempt(session, attempt_id)
        at = Phase(attempt.phase)
        if at is Phase.DONE or phase.before(at):
            return None
        live = phase is Phase.EXECUTE and at is Phase.EXECUTE  # its runner may still be there and must be ended
        if attempt.outcome is not None and phase in _FORWARD and not live:
            return None
        now = work.db.now(session)
        attempt.phase, attempt.waiting_for = phase.value, None
        attempt.started_at = attempt.started_at or now
        if session.get(tables.AttemptPhase, (attempt_id, phase.value)) is None:
            session.add(tables.AttemptPhase(attempt_id=attempt_id, phase=phase.value, began_at=now, detail={}))
        job = session.get_one(tables.Job, attempt.job_id)
        run = session.get_one(tables.Run, job.run_id)
        step = Step(
            work,
            phase,
            attempt,
            job,
            run,
            session.get_one(tables.Device, attempt.device_id),
            session.get_one(tables.Bundle, run.bundle_hash),
            session.get_one(tables.SuitePack, run.pack_hash),
        )
        step.touch(session)
        return step


def _leave(step: Step, cut: Cut | None) -> None:
    with step.work.db.session() as session:
        attempt = hold_attempt(session, step.id)
        if cut is not None:
            set_outcome(attempt, cut.outcome, cut.reason, cut.cause)
        attempt.waiting_for = None
        row = session.get(tables.AttemptPhase, (step.id, step.phase.value))
        if row is not None:
            row.ended_at = step.work.db.now(session)
            row.detail = {**row.detail, **step.detail}
        step.touch(session)


def _note_incident(step: Step, summary: str, evidence: str) -> None:
    with step.work.db.session() as session:
        row = tables.Incident(
            attempt_id=step.id,
            seq=None,
            device_id=step.attempt.device_id,
            at=step.work.db.now(session),
            klass="farm-error",
            summary=clip(summary, 4000),
            evidence=clip(evidence),
        )
        session.add(row)
        clusters.sign(session, row)
