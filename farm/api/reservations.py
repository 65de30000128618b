"""Reservations: ask for a device, wait for it, give it back.

A device that is free is had in the answer to the question; otherwise the wish waits among the debug jobs, and
`GET …?wait_s=` answers as soon as something has become of it.
"""

from __future__ import annotations

import asyncio
import re
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from farm.api.auth import needs
from farm.api.context import Audit, Context, Farm, Who
from farm.api.errors import ApiError, not_found
from farm.api.hot_requests import HotRoute, HotWait
from farm.api.json import encode
from farm.api.waiters import MAX_WAIT_S, Waiters
from farm.domain.leases import LONGEST_ASKED, SHORTEST_ASKED
from farm.domain.selectors import MAX_TEXT, SelectorError, parse, words_of
from farm.store import naming, reservations
from farm.store.audit import Note
from farm.store.people import Principal, Scope
from farm.store.reads import leases as reads
from farm.store.reservations import Wish

router = APIRouter(prefix="/api/reservations", tags=["leases"])

MAX_ID = 2**63 - 1
ASK = "reservation.ask"
Id = Annotated[int, Path(ge=1, le=MAX_ID)]


class NewReservation(BaseModel):
    """A device to debug on: one that `selector` picks, or the very one that `device` names."""

    model_config = ConfigDict(extra="forbid")
    selector: str = Field(default="*", max_length=MAX_TEXT)
    device: str | None = Field(default=None, max_length=200, description="its name, serial number or id")
    for_s: float = Field(
        ge=SHORTEST_ASKED.total_seconds(), le=LONGEST_ASKED.total_seconds(), description="how long, in seconds"
    )
    wait_s: float | None = Field(default=None, ge=0, le=30 * 86400, description="gives up then; null: waits for ever")
    purpose: str | None = Field(default=None, max_length=300, description="shown to others who wait")


@router.post(
    "",
    summary="Ask for a device",
    status_code=201,
    response_model=None,
    dependencies=[needs(Scope.RESERVE, ASK)],
)
def ask(farm: Farm, who: Who, note: Audit, new: NewReservation) -> JSONResponse:
    """The reservation: `active` with its lease when a device is free, else `queued`. Refused when nothing matches."""
    with farm.db.session() as session:
        status, made = _ask(session, who, note, farm.db.now(session), new)
    return JSONResponse(made, status)


def _ask(session: Session, who: Principal, note: Note, now: datetime, new: NewReservation) -> tuple[int, Any]:
    wish = Wish(
        selector=_selector(new.selector),
        lasts=timedelta(seconds=new.for_s),
        created_by=who.name,
        team=who.team,
        device_id=_device(session, new.device),
        token_id=who.root_id,
        purpose=new.purpose,
        wait_until=None if new.wait_s is None else now + timedelta(seconds=new.wait_s),
    )
    ident, lease = reservations.request(session, wish, now)
    if lease is None:
        _check_queued(session, who, wish)
        if new.wait_s == 0:
            reservations.end(session, ident, now, "no device was free, and it was not to wait")
    note.write(session, now, f"reservation {ident}", selector=new.selector, device=new.device, for_s=new.for_s)
    if lease is None:
        session.flush()
        return 201, encode(reads.reservation(session, ident))
    shown = encode(reads.lease_view(session, lease))
    return 201, {"id": ident, "state": reservations.ACTIVE, "ready_at": None, "lease": shown}


#: The same, for those who ask often (`farm.api.hot`).
HOT = HotRoute(re.compile("/api/reservations"), Scope.RESERVE, ASK, NewReservation, _ask)


@router.get("", summary="Reservations")
def list_reservations(
    farm: Farm,
    who: Who,
    state: Literal["queued", "active", "ended"] | None = None,
    mine: Annotated[bool, Query(description="only your own")] = False,
) -> dict[str, Any]:
    """Newest first; those that have not ended when no state is named."""
    with farm.db.read() as session:
        found = reads.reservations(session, state=state, user=who.name if mine else None)
    return {"reservations": encode(found)}


@router.get("/{ident}", summary="One reservation")
async def show(
    request: Request,
    farm: Farm,
    ident: Id,
    wait_s: Annotated[float, Query(ge=0, le=MAX_WAIT_S, description="wait so long while it is queued")] = 0.0,
    ready: Annotated[bool, Query(description="wait until the device is prepared, too")] = False,
) -> dict[str, Any]:
    """As it is now; with `wait_s`, as soon as it waits no more, or when that time is over."""
    waiters: Waiters = request.app.state.waiters
    found = await waiters.settled(
        ident, wait_s, lambda: asyncio.to_thread(_read, farm, ident), lambda one: _waits(one, ready)
    )
    if found is None:
        raise not_found(f"reservation {ident}", "`farm lease list`")
    return dict(encode(found))


@router.delete(
    "/{ident}", summary="Withdraw a reservation", dependencies=[needs(Scope.RESERVE, "reservation.withdraw")]
)
def withdraw(farm: Farm, who: Who, note: Audit, ident: Id) -> dict[str, Any]:
    """A wish is taken back, a device given back. Yours, your team's, or anybody's as an operator."""
    with farm.db.session() as session:
        now = farm.db.now(session)
        found = reads.reservation(session, ident)
        if found is None:
            raise not_found(f"reservation {ident}", "`farm lease list`")
        if who.name != found.created_by and who.team != found.team and not who.may(Scope.OPERATE):
            raise ApiError(403, "not-yours", f"Reservation {ident} is {found.created_by}'s: ask them, or an operator.")
        ended = reservations.end(session, ident, now, f"withdrawn by {who.name}")
        note.write(session, now, f"reservation {ident}", ended=ended)
    return {"id": ident, "ended": ended}


@lru_cache(maxsize=1024)
def _read_selector(text: str) -> str:
    return parse(text).text


def _selector(text: str) -> str:
    try:
        return _read_selector(text)
    except SelectorError as error:
        detail = {"position": error.position, "suggestion": error.suggestion}
        raise ApiError(422, "bad-selector", f"the selector cannot be read: {error}", detail) from None


def _device(session: Session, ref: str | None) -> int | None:
    if ref is None:
        return None
    found = naming.device_id(session, ref)
    if found is None:
        raise ApiError(422, "unknown-device", f"there is no device {ref!r}: `farm devices` lists what there is")
    return found


def _check_queued(session: Session, who: Principal, wish: Wish) -> None:
    """What is to wait must match something, and may not be more than the quota. Raises ApiError."""
    why = reservations.may_not_wait(session, wish, who.quota.max_waiting)
    if isinstance(why, reservations.TooMany):
        raise ApiError(429, "too-many-waiting", f"{why.words}: withdraw one, or wait until one has been served")
    if why is not None:
        words = words_of(why.nearest) or "the farm has no device yet"
        detail = {"nearest": [{"device": miss.device.name, "why": miss.words()} for miss in why.nearest]}
        raise ApiError(422, "no-match", f"no device matches {wish.selector!r}; nearest: {words}", detail)


def _read(farm: Context, ident: int) -> reads.ReservationView | None:
    with farm.db.read() as session:
        return reads.reservation(session, ident)


def _waits(found: reads.ReservationView | None, ready: bool) -> bool:
    if found is None:
        return False
    preparing = ready and found.state == reservations.ACTIVE and found.ready_at is None
    return found.state == reservations.QUEUED or preparing


#: `show`, for those who wait.
HOT_SHOW = HotWait(re.compile("/api/reservations/([1-9][0-9]{0,17})"), reads.reservation, _waits)
