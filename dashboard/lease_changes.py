"""What people do about leases and reservations in pages: make longer, give back, take away, withdraw."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Form, Path
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dashboard.errors import PageError, gone
from dashboard.house import MAX_ID, House
from farm.domain.leases import LONGEST, CannotExtend, Lease
from farm.store import leases, reservations
from farm.store.people import Principal, Scope
from farm.store.reads import leases as reads

BACK = ("/reservations", "back to the reservations")

Id = Annotated[int, Path(ge=1, le=MAX_ID)]
Reason = Annotated[str, Form(min_length=3, max_length=150)]
Hours = Annotated[float, Form(gt=0, le=LONGEST.total_seconds() / 3600)]


def is_own(who: Principal, user: str | None, team: str | None) -> bool:
    """Whether they may extend, give back or withdraw it: their own or their team's, or as an operator anybody's."""
    mine = user == who.name or (team is not None and team == who.team)
    return who.may(Scope.RESERVE) and (mine or who.may(Scope.OPERATE))


def _check(who: Principal, lease: Lease | None, ident: int) -> Lease:
    """The open lease of a reservation that is theirs to change. Raises PageError."""
    if lease is None:
        raise _over(ident)
    if not is_own(who, lease.user, lease.team):
        raise _strangers(lease.user or lease.who)
    if lease.reservation_id is None:
        raise PageError(409, "A run holds it", "Cancel the run, or let an operator take it away.", BACK)
    return lease


def _over(ident: int) -> PageError:
    return PageError(410, f"Lease {ident} is over", "Its device was given back or taken away already.", BACK)


def _strangers(whose: str) -> PageError:
    return PageError(403, "That is not yours", f"It is {whose}'s: ask them, or an operator.", BACK)


@contextmanager
def _refusals(ident: int) -> Iterator[None]:
    """A rule that says no, as a page."""
    try:
        yield
    except CannotExtend as error:
        why = str(error)
        raise PageError(409, "It was not made longer", f"{why[:1].upper()}{why[1:]}.", BACK) from None
    except leases.NoSuchLease:
        raise _over(ident) from None


def add(routes: APIRouter, house: House) -> None:
    db, needs, note_of, principal = house.context.db, house.context.needs, house.context.note, house.context.principal

    @routes.post("/ui/leases/{ident:int}/extend", dependencies=[needs(Scope.RESERVE, "lease.extend")])
    def extend(request: Request, ident: Id, hours: Hours) -> Response:
        by = timedelta(hours=hours)
        with _refusals(ident), db.session() as session:
            _check(principal(request), leases.of_id(session, ident), ident)
            leases.extend(session, ident, by, now := db.now(session))
            note_of(request).write(session, now, f"lease {ident}", by_s=by.total_seconds())
        return RedirectResponse("/reservations", 303)

    @routes.post("/ui/leases/{ident:int}/release", dependencies=[needs(Scope.RESERVE, "lease.release")])
    def release(request: Request, ident: Id) -> Response:
        who = principal(request)
        with db.session() as session:
            _check(who, leases.of_id(session, ident), ident)
            released = leases.release(session, ident, now := db.now(session), f"released by {who.name}")
            note_of(request).write(session, now, f"lease {ident}", released=released)
        return RedirectResponse("/reservations", 303)

    @routes.post("/ui/leases/{ident:int}/preempt", dependencies=[needs(Scope.OPERATE, "lease.preempt")])
    def preempt(request: Request, ident: Id, reason: Reason) -> Response:
        with _refusals(ident), db.session() as session:
            lease = leases.preempt(session, ident, principal(request).name, reason, now := db.now(session))
            told = {"reason": reason, "holder": lease.holder, "user": lease.user}
            note_of(request).write(session, now, f"lease {ident}", **told)
        return RedirectResponse("/reservations", 303)

    @routes.post("/ui/reservations/{ident:int}/withdraw", dependencies=[needs(Scope.RESERVE, "reservation.withdraw")])
    def withdraw(request: Request, ident: Id) -> Response:
        who = principal(request)
        with db.session() as session:
            found, now = reads.reservation(session, ident), db.now(session)
            if found is None:
                raise gone("reservation", ident, BACK)
            if not is_own(who, found.created_by, found.team):
                raise _strangers(found.created_by)
            ended = reservations.end(session, ident, now, f"withdrawn by {who.name}")
            note_of(request).write(session, now, f"reservation {ident}", ended=ended)
        return RedirectResponse("/reservations", 303)
