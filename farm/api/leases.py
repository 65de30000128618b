"""Leases: who holds what until when; kept alive, made longer, given back, taken away."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from farm.api.auth import needs
from farm.api.context import Audit, Farm, Who
from farm.api.errors import ApiError
from farm.api.hot_requests import HotRoute
from farm.api.json import encode
from farm.domain.leases import HEARTBEAT, LONGEST, CannotExtend, Lease
from farm.store import leases
from farm.store.audit import Note
from farm.store.people import Principal, Scope
from farm.store.reads import leases as reads
from farm.store.reservations import QUEUED

router = APIRouter(prefix="/api/leases", tags=["leases"])

Id = Annotated[int, Path(ge=1, le=2**63 - 1)]

RELEASE = "lease.release"
#: What was taken away from its holder is shown to them for so long.
TAKEN_SHOWN = timedelta(days=1)


class Longer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    by_s: float = Field(gt=0, le=LONGEST.total_seconds(), description="seconds that the lease is to last longer")


class Because(BaseModel):
    model_config = ConfigDict(extra="forbid")
    reason: str = Field(min_length=3, max_length=150, description="its holder is shown this")


@router.get("", summary="Open leases")
def list_leases(
    farm: Farm, who: Who, mine: Annotated[bool, Query(description="only your own")] = False
) -> dict[str, Any]:
    """Every device that is held or being cleaned, by whom, until when.

    `waiting`: the reservations in the queue; `taken`: what was lately preempted of yours.
    """
    user = who.name if mine else None
    with farm.db.read() as session:
        since = farm.db.now(session) - TAKEN_SHOWN
        return {
            "leases": encode(reads.open_leases(session, user=user)),
            "waiting": encode(reads.reservations(session, state=QUEUED, user=user)),
            "taken": encode(reads.taken(session, who.name, since)),
        }


@router.post("/{lease_id}/heartbeat", summary="Keep a lease alive", dependencies=[needs(Scope.RESERVE)])
def heartbeat(farm: Farm, who: Who, lease_id: Id) -> dict[str, Any]:
    """The holder lives: the heartbeat deadline moves. 410 when the lease is over."""
    with farm.db.session() as session:
        lease = _mine(session, who, lease_id)
        now = farm.db.now(session)
        if not leases.renew(session, [lease.id], now):
            raise _over(session, lease_id)
        return {"id": lease_id, "heartbeat_by": encode(now + HEARTBEAT), "ends_at": encode(lease.ends_at)}


@router.post("/{lease_id}/extend", summary="Make a lease longer", dependencies=[needs(Scope.RESERVE, "lease.extend")])
def extend(farm: Farm, who: Who, note: Audit, lease_id: Id, longer: Longer) -> dict[str, Any]:
    """The end moves, up to the longest that any lease lasts."""
    with farm.db.session() as session:
        _mine(session, who, lease_id)
        now = farm.db.now(session)
        try:
            lease = leases.extend(session, lease_id, timedelta(seconds=longer.by_s), now)
        except CannotExtend as error:
            told = _told(session, lease_id)
            words = f"{error} ({told['end_reason']})" if told and told["end_reason"] else str(error)
            raise ApiError(409, "cannot-extend", words, told) from None
        note.write(session, now, f"lease {lease_id}", by_s=longer.by_s)
        return dict(encode(reads.lease_view(session, lease)))


@router.post("/{lease_id}/release", summary="Give a device back", dependencies=[needs(Scope.RESERVE, RELEASE)])
def release(farm: Farm, who: Who, note: Audit, lease_id: Id) -> dict[str, Any]:
    """The holder is cut off at once; the device is free when it has been cleaned. A second time changes nothing."""
    with farm.db.session() as session:
        _, made = _release(session, who, note, farm.db.now(session), lease_id)
    return made


def _release(session: Session, who: Principal, note: Note, now: datetime, lease_id: int) -> tuple[int, dict[str, Any]]:
    lease = _mine(session, who, lease_id)
    if lease.reservation_id is None:
        view = reads.open_lease(session, lease_id)
        run = "" if view is None or view.run_id is None else f" {view.run_id}"
        words = f"lease {lease_id} is held by run{run}: `farm cancel{run or ' RUN'}` ends it, or an operator preempts"
        raise ApiError(409, "an-attempts", words)
    released = leases.release(session, lease_id, now, f"released by {who.name}")
    note.write(session, now, f"lease {lease_id}", released=released)
    return 200, {"id": lease_id, "released": released} | ({} if released else _told(session, lease_id) or {})


#: The same, for those who ask often (`farm.api.hot`).
HOT = HotRoute(re.compile("/api/leases/([1-9][0-9]{0,17})/release"), Scope.RESERVE, RELEASE, None, _release)


@router.post("/{lease_id}/preempt", summary="Take a device away", dependencies=[needs(Scope.OPERATE, "lease.preempt")])
def preempt(farm: Farm, who: Who, note: Audit, lease_id: Id, because: Because) -> dict[str, Any]:
    """The holder sees who and why. A job that loses its device so is tried again at its old place in the queue."""
    with farm.db.session() as session:
        now = farm.db.now(session)
        try:
            lease = leases.preempt(session, lease_id, who.name, because.reason, now)
        except leases.NoSuchLease:
            raise _over(session, lease_id) from None
        note.write(session, now, f"lease {lease_id}", reason=because.reason, holder=lease.holder, user=lease.user)
    return {"id": lease_id, "holder": lease.holder, "user": lease.user}


def _mine(session: Session, who: Principal, lease_id: int) -> Lease:
    """The open lease, when it is of this user or team, or an operator asks. Raises ApiError."""
    lease = leases.of_id(session, lease_id)
    if lease is None:
        raise _over(session, lease_id)
    if not lease.is_of(who.name, who.team) and not who.may(Scope.OPERATE):
        raise ApiError(
            403,
            "not-yours",
            f"Lease {lease_id} is {lease.user or lease.who}'s: ask them, or an operator to preempt.",
        )
    return lease


def _told(session: Session, lease_id: int) -> dict[str, Any] | None:
    """Why a lease is over and who took it away; None: it is not over, or there is none."""
    found = leases.why_over(session, lease_id)
    return None if found is None else {"end_reason": found[0], "preempted_by": found[1]}


def _over(session: Session, lease_id: int) -> ApiError:
    told = _told(session, lease_id)
    words = f"There is no lease {lease_id}." if told is None else f"Lease {lease_id} is over"
    if told is not None:
        words += f": {told['end_reason']}." if told["end_reason"] else "."
    return ApiError(410, "lease-over", f"{words} `farm lease list` lists the open ones.", told)
