"""Reservations: ask for a device, wait for it, give it back.

A device that is free is had in the answer to the question; otherwise the wish waits among the debug jobs, and
`GET …?wait_s=` answers as soon as something has become of it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from farm.api.auth import needs
from farm.api.context import Audit, Context, Farm, Who
from farm.api.errors import ApiError, not_found
from farm.api.hot import HotRoute
from farm.api.json import encode
from farm.domain.leases import LONGEST_ASKED, SHORTEST_ASKED
from farm.domain.selectors import MAX_TEXT, SelectorError, nearest, parse, words_of
from farm.store import devices, reservations
from farm.store.audit import Note
from farm.store.bus import Change
from farm.store.people import Principal, Scope
from farm.store.reads import leases as reads
from farm.store.reservations import Wish

router = APIRouter(prefix="/api/reservations", tags=["leases"])

MAX_ID = 2**63 - 1
ASK = "reservation.ask"
#: Longest wait of one question, and how many may wait at a time.
MAX_WAIT_S = 300.0
MAX_WAITERS = 512
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
    found = await _settled(request, farm, ident, wait_s, ready)
    if found is None:
        raise not_found(f"reservation {ident}", "GET /api/reservations")
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
            raise not_found(f"reservation {ident}", "GET /api/reservations")
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
    found = reads.device_id(session, ref)
    if found is None:
        raise ApiError(422, "unknown-device", f"there is no device {ref!r}: `farm devices` lists what there is")
    return found


def _check_queued(session: Session, who: Principal, wish: Wish) -> None:
    """What is to wait must match something, and may not be more than the quota. Raises ApiError."""
    full = reservations.too_many_waiting(session, who.team, who.name, who.quota.max_waiting)
    if full is not None:
        raise ApiError(429, "too-many-waiting", f"{full}: withdraw one, or wait until one has been served")
    if wish.device_id is not None:
        return
    known = devices.facts(session)
    wanted = parse(wish.selector)
    if not any(wanted.matches(device.facts()) for device in known):
        missed = nearest(wanted, known)[:3]
        words = words_of(missed) or "the farm has no device yet"
        detail = {"nearest": [{"device": miss.device.name, "why": miss.words()} for miss in missed]}
        raise ApiError(422, "no-match", f"no device matches {wish.selector!r}; nearest: {words}", detail)


async def _settled(
    request: Request, farm: Context, ident: int, wait_s: float, ready: bool
) -> reads.ReservationView | None:
    """The reservation once it waits no more; woken by the change itself, and by nothing else."""
    if wait_s <= 0:
        return await asyncio.to_thread(_read, farm, ident)
    waiters: set[object] = request.app.state.waiters
    if len(waiters) >= MAX_WAITERS:
        raise ApiError(503, "busy", f"{MAX_WAITERS} others wait already: ask again without wait_s")
    loop, changed, ref = asyncio.get_running_loop(), asyncio.Event(), str(ident)

    def heard(changes: Sequence[Change]) -> None:
        if any(change.topic == "reservation" and change.ref == ref for change in changes):
            loop.call_soon_threadsafe(changed.set)

    mark, until = object(), time.monotonic() + wait_s
    waiters.add(mark)
    await asyncio.to_thread(farm.db.bus.listen, heard)  # before the first look: what changes in between is heard
    stopped = asyncio.ensure_future(cast(asyncio.Event, request.app.state.stopping).wait())
    try:
        while True:
            found = await asyncio.to_thread(_read, farm, ident)
            left = until - time.monotonic()
            if found is None or left <= 0 or stopped.done() or not _waits(found, ready):
                return found
            told = asyncio.ensure_future(changed.wait())
            await asyncio.wait({told, stopped}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            told.cancel()
            changed.clear()
    finally:
        farm.db.bus.unlisten(heard)
        waiters.discard(mark)
        stopped.cancel()


def _read(farm: Context, ident: int) -> reads.ReservationView | None:
    with farm.db.read() as session:
        return reads.reservation(session, ident)


def _waits(found: reads.ReservationView, ready: bool) -> bool:
    preparing = ready and found.state == reservations.ACTIVE and found.ready_at is None
    return found.state == reservations.QUEUED or preparing
