"""Paused devices, hosts and pools on the fleet's page: by whom, why, until when; paused and resumed by operators."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dashboard.errors import PageError
from dashboard.house import House
from farm.domain import spans
from farm.domain.devices import DeviceFacts
from farm.domain.holds import Hold, holding
from farm.store import holds
from farm.store.people import Scope
from farm.store.reads.holds import Standing

BACK = ("/", "back to the fleet")

Kind = Annotated[Literal["device", "host", "pool", "farm"], Form()]
Name = Annotated[str, Form(max_length=200)]
Reason = Annotated[str, Form(min_length=3, max_length=300)]
Span = Annotated[str, Form(max_length=40)]
LONGEST = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class Paused:
    """A hold in force. `what`: in words; `name`: as a form names it; `busy`: whose work there still goes on."""

    hold: Hold
    what: str
    name: str
    devices: int
    busy: tuple[str, ...]


def paused(standing: Collection[Standing]) -> list[Paused]:
    """Holds as the page lists them."""
    return [Paused(one.hold, one.hold.what, one.hold.ref, one.devices, one.busy) for one in standing]


def hold_on(standing: Collection[Standing], facts: DeviceFacts) -> Hold | None:
    """What keeps this device from new work."""
    return holding((one.hold for one in standing), facts.serial, facts.host, facts.pool)


def _lasts(text: str) -> timedelta | None:
    """None: left empty, until somebody resumes it. Raises PageError."""
    if not text.strip():
        return None
    try:
        asked_s = spans.seconds(text)
    except ValueError as error:
        why = str(error)
        raise PageError(422, "Nothing was paused", f"{why[:1].upper()}{why[1:]}, or leave it empty.", BACK) from None
    if not 0 < asked_s <= LONGEST.total_seconds():
        why = f"A pause lasts longer than nothing and at most {LONGEST.days} days."
        raise PageError(422, "Nothing was paused", why, BACK)
    return timedelta(seconds=asked_s)


def add(routes: APIRouter, house: House) -> None:
    db, needs, note_of, principal = house.context.db, house.context.needs, house.context.note, house.context.principal

    @routes.post("/ui/holds", dependencies=[needs(Scope.OPERATE, "hold.place")])
    def place(request: Request, scope: Kind, reason: Reason, name: Name = "", lasts: Span = "") -> Response:
        asked = _lasts(lasts)
        with db.session() as session:
            now = db.now(session)
            try:
                ref = holds.target(session, scope, name.strip())
            except holds.UnknownTarget as error:
                why = str(error)
                raise PageError(404, "Nothing was paused", f"{why[:1].upper()}{why[1:]}.", BACK) from None
            until = now + asked if asked else None
            hold = holds.place(session, scope, ref, reason, principal(request).name, now, until)
            for_s = asked.total_seconds() if asked else None
            note_of(request).write(session, now, hold.what, reason=reason, for_s=for_s)
        return RedirectResponse("/", 303)

    @routes.post("/ui/holds/lift", dependencies=[needs(Scope.OPERATE, "hold.lift")])
    def lift(request: Request, scope: Kind, name: Name = "") -> Response:
        """Ends every hold on exactly this, also when what it named is no longer known."""
        with db.session() as session:
            now = db.now(session)
            ended = holds.lift(session, scope, name, principal(request).name, now)
            note = note_of(request)
            if ended:
                note.write(session, now, ended[0].what, lifted=[f"{one.reason} (by {one.by})" for one in ended])
            note.done = True
        return RedirectResponse("/", 303)
