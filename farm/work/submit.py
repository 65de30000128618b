"""The front door of the work: submit, preview, cancel, run again. API and pages call nothing else in this room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.domain.devices import DeviceFacts, availability
from farm.domain.outcomes import Outcome, State
from farm.domain.selectors import Mismatch, SelectorError, nearest, parse
from farm.store import devices, quotas, runs, shards, tables
from farm.store.bus import touch
from farm.store.db import Database
from farm.store.locks import hold_run
from farm.work.admission import Admitted, admit, by_abi, check, needs_of, selector_of
from farm.work.request import Refused, RunRequest

__all__ = [
    "Matching", "Mismatch", "Preview", "Refused", "RunRequest", "SelectorError", "cancel", "check_run", "preview",
    "rerun_failed", "submit",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Matching:
    """A device that a selector picks, and whether it could start now."""

    device_id: int
    name: str
    serial: str
    virtual: bool
    availability: str
    why: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What a selector would pick. `error` is set when it cannot be read; then nothing matches.

    `refusal`: a run of the bundle on these devices would be refused, though `matching` could run it.
    """

    matching: list[Matching]
    nearest: list[Mismatch]
    error: SelectorError | None = None
    refusal: Refused | None = None


def submit(db: Database, request: RunRequest, now: datetime | None = None) -> int:
    """Check and queue a run; returns its id. Raises Refused.

    The same `idempotency_key` of the same team again is the same run: nothing is queued twice.
    """
    with db.session() as session:
        now = now or db.now(session)
        known = _by_key(session, request)
        if known is not None:
            return known
        admitted = admit(session, request, now)
        return _queue(session, request, admitted, now)


def check_run(db: Database, request: RunRequest, abis: Sequence[str]) -> list[str]:
    """The devices that a run of a bundle would get which the farm does not have yet. Raises Refused.

    `request.bundle` is what the bundle is called, `abis` what it has files for: asked before it is sent.
    """
    with db.read() as session:
        _, working, _ = check(session, request, request.bundle, abis, db.now(session))
        return [device.name for device in working]


def preview(
    db: Database, selector: str, bundle: str | None = None, pack: str | None = None, suites: Sequence[str] = ()
) -> Preview:
    """What `selector` picks now, and for what it does not pick, what differs.

    With a bundle its ABIs count too, by `submit`'s rule; with suites (of `pack`, else the farm's own) what they need.
    """
    with db.read() as session:
        now = db.now(session)
        known = devices.facts(session)
        found = runs.find_bundle(session, bundle) if bundle else None
        of = runs.find_pack(session, pack) if suites else None
        try:
            wants = [parse(selector), *(needs_of(suites, of) if of is not None else ())]
        except SelectorError as error:
            return Preview([], [], error)
    fits, missed = known, list[Mismatch]()
    for wanted in wants:
        missed = nearest(wanted, fits) + missed  # what is left out last comes first
        fits = [d for d in fits if wanted.matches(d.facts())]
    if found is None:
        return Preview([_matching(d, now) for d in fits], missed[:5])
    abis = list(found.manifest["files"])
    served = by_abi(found.name, abis, fits, wants)
    missed = nearest(selector_of("abi", abis), fits) + missed
    return Preview([_matching(d, now) for d in served.fits], missed[:5], refusal=served.refusal)


def cancel(db: Database, run_id: int, by: str | None) -> None:
    """Ask a run to end: waiting jobs end at once, running ones after collecting and cleaning. Raises Refused."""
    with db.session() as session:
        run = hold_run(session, _run(session, run_id).id)
        if run.state == State.ENDED.value:
            raise Refused("already-ended", f"run {run_id} has ended already ({run.outcome})", {"outcome": run.outcome})
        runs.request_cancel(session, run, by, db.now(session))


def rerun_failed(db: Database, run_id: int, by: str | None) -> int:
    """A new run of the jobs that did not pass. Raises Refused when there is none or the run has not ended."""
    with db.session() as session:
        now = db.now(session)
        old = _run(session, run_id)
        if old.state != State.ENDED.value:
            raise Refused("not-ended", f"run {run_id} has not ended yet: wait for it, or cancel it")
        jobs = session.scalars(
            select(tables.Job)
            .where(
                tables.Job.run_id == run_id,
                tables.Job.outcome != Outcome.PASSED.value,
                tables.Job.confirms_job_id.is_(None),
            )
            .order_by(tables.Job.ordinal)
        ).all()
        if not jobs:
            raise Refused("nothing-failed", f"every job of run {run_id} passed: there is nothing to run again")
        _within_quota(session, old.team, None, len(jobs))
        run = tables.Run(
            title=f"{old.title} (again)"[:300],
            klass=old.klass,
            team=old.team,
            created_by=by,
            created_at=now,
            bundle_hash=old.bundle_hash,
            pack_hash=old.pack_hash,
            suites=old.suites,
            selector=old.selector,
            request={**old.request, "rerun_of": run_id, "left_out": []},
        )
        session.add(run)
        session.flush()
        for ordinal, job in enumerate(jobs):
            again = _job(run, ordinal, job.device_id, job.selector, job.tests, now)
            again.shard = job.shard
            session.add(again)
        touch(session, "run", run.id, at=now, run_id=run.id)
        return run.id


def _by_key(session: Session, request: RunRequest) -> int | None:
    if request.idempotency_key is None:
        return None
    return session.scalar(
        select(tables.Run.id).where(
            tables.Run.team == request.team, tables.Run.idempotency_key == request.idempotency_key
        )
    )


def _queue(session: Session, request: RunRequest, admitted: Admitted, now: datetime) -> int:
    bundle = admitted.bundle
    slots = _slots(session, request, admitted)
    _within_quota(session, request.team, request.token_id, len(slots))
    run = tables.Run(
        title=(request.title or f"{bundle.name} {bundle.version}: {', '.join(request.suites)}")[:300],
        klass=request.klass,
        team=request.team,
        created_by=request.created_by,
        created_at=now,
        bundle_hash=bundle.hash,
        pack_hash=admitted.pack.hash,
        suites=list(request.suites),
        selector=request.selector,
        idempotency_key=request.idempotency_key,
        token_id=request.token_id,
        request={
            "mode": request.mode,
            "shards": request.shards if request.mode == "shard" else None,
            "tests": None if request.tests is None else list(request.tests),
            "env": {device: dict(variables) for device, variables in request.env.items()},
            "params": dict(request.params),
            "confirm": request.confirm,
            "left_out": admitted.left_out,  # devices that match and cannot work now, with why
        },
    )
    session.add(run)
    session.flush()
    for ordinal, (device_id, tests, shard) in enumerate(slots):
        job = _job(run, ordinal, device_id, request.selector, tests, now)
        job.shard = shard
        session.add(job)
    touch(session, "run", run.id, at=now, run_id=run.id)
    return run.id


def _slots(
    session: Session, request: RunRequest, admitted: Admitted
) -> list[tuple[int | None, list[Any] | None, int | None]]:
    """The run's jobs: (the one device, the tests, which part). Raises Refused."""
    tests = None if request.tests is None else list(request.tests)
    if request.mode == "each":
        return [(device.id, tests, None) for device in admitted.devices]
    if request.mode == "any":
        return [(None, tests, None)]
    pack = admitted.pack
    known = tests or shards.known_tests(session, pack.hash, pack.manifest, request.suites)
    if not known:
        what = f"{', '.join(request.suites)} of this pack"
        raise Refused(
            "no-tests-known", f"{what} never ran whole, so its tests are not known: run it once without shards"
        )
    parts = shards.parts(session, known, admitted.bundle.name, request.shards)
    return [(None, list(part), n) for n, part in enumerate(parts)]


def _within_quota(session: Session, team: str, token_id: int | None, more: int) -> None:
    over = quotas.too_many_waiting(session, team, token_id, more)
    if over is not None:
        raise Refused("over-quota", f"{over}; wait until some have started, or cancel some (`farm runs`)")


def _job(
    run: tables.Run, ordinal: int, device_id: int | None, selector: str, tests: list[Any] | None, now: datetime
) -> tables.Job:
    return tables.Job(
        run_id=run.id,
        ordinal=ordinal,
        selector=selector,
        device_id=device_id,
        suites=run.suites,
        tests=tests,
        klass=run.klass,
        queued_at=now,
        avoid=[],
        wait_reason="waits for the planner",
    )


def _run(session: Session, run_id: int) -> tables.Run:
    run = session.get(tables.Run, run_id)
    if run is None:
        raise Refused("unknown-run", f"there is no run {run_id}")
    return run


def _matching(device: DeviceFacts, now: datetime) -> Matching:
    state, why = availability(device, now)
    return Matching(device.id, device.name, device.serial, device.virtual, state.value, why)
