"""Who holds which device until when, and who waits for one; given back, made longer or taken away by right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter
from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.requests import Request
from starlette.responses import Response

from dashboard import lease_changes, signs
from dashboard.house import House
from dashboard.signs import Sign
from farm.domain.devices import Availability
from farm.domain.leases import ATTEMPT, RESERVATION
from farm.store import reservations, tables
from farm.store.people import Principal, Scope
from farm.store.reads import leases as reads
from farm.store.reads.leases import LeaseView, ReservationView


@dataclass(frozen=True, slots=True)
class Held:
    """An open lease and what this viewer may do about it. `href` leads to the run whose attempt holds it."""

    lease: LeaseView
    sign: Sign
    by: str | None
    team: str | None
    what: str
    href: str | None
    may_keep: bool  # extend, give back
    may_take: bool  # preempt


@dataclass(frozen=True, slots=True)
class Waits:
    """A reservation that no device has been found for yet."""

    wish: ReservationView
    may_withdraw: bool


def _held(lease: LeaseView, who: Principal, run: tables.Run | None, wish: ReservationView | None) -> Held:
    kind, _, number = lease.holder.partition(":")
    word = Availability.RESERVED if lease.holder.startswith(RESERVATION) else Availability.RUNNING
    stands = lease.released_at is None
    return Held(
        lease=lease,
        sign=signs.of_device(word if stands else Availability.CLEANING),
        by=lease.user or (run.created_by if run else None),
        team=lease.team or (run.team if run else None),
        what=f"run {run.id}" if run else (wish.purpose if wish else None) or f"{kind} {number}",
        href=f"/attempts/{number}" if run else None,
        may_keep=stands and word is Availability.RESERVED and lease_changes.is_own(who, lease.user, lease.team),
        may_take=stands and who.may(Scope.OPERATE),
    )


def _runs_of(session: Session, held: Sequence[LeaseView]) -> dict[str, tables.Run]:
    """The run of every attempt that holds a device, by the lease's holder."""
    attempts = [int(lease.holder.removeprefix(ATTEMPT)) for lease in held if lease.holder.startswith(ATTEMPT)]
    job, attempt, run = tables.Job, tables.Attempt, tables.Run
    query = select(attempt.id, run).join(job, job.id == attempt.job_id).join(run, run.id == job.run_id)
    found = session.execute(query.where(attempt.id.in_(attempts)))
    return {f"{ATTEMPT}{ident}": row for ident, row in found}


def view(session: Session, who: Principal) -> dict[str, object]:
    open_leases, wishes = reads.open_leases(session), reads.reservations(session)
    served = {wish.lease.id: wish for wish in wishes if wish.lease is not None}
    runs = _runs_of(session, open_leases)
    held = [_held(lease, who, runs.get(lease.holder), served.get(lease.id)) for lease in open_leases]
    waiting = [wish for wish in wishes if wish.state == reservations.QUEUED]
    return {
        "held": held,
        "waiting": [Waits(w, lease_changes.is_own(who, w.created_by, w.team)) for w in reversed(waiting)],
        "people": sum(1 for row in held if row.lease.holder.startswith(RESERVATION) and row.lease.released_at is None),
        "runs": sum(1 for row in held if row.lease.holder.startswith(ATTEMPT) and row.lease.released_at is None),
        "cleaning": sum(1 for row in held if row.lease.released_at is not None),
    }


def add(routes: APIRouter, house: House) -> None:
    lease_changes.add(routes, house)

    def show(request: Request, template: str) -> Response:
        viewer = house.viewer(request)
        with house.context.db.read() as session:
            data = view(session, house.context.principal(request))
        return house.page(request, template, data, viewer=viewer)

    @routes.get("/reservations")
    def page(request: Request) -> Response:
        return show(request, "reservations.html")

    @routes.get("/ui/reservations")
    def piece(request: Request) -> Response:
        return show(request, "reservations_live.html")
