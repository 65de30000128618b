"""Reserve a device: which, for how long, what for; what the selector picks is shown while it is typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Annotated

from fastapi import APIRouter, Form, Query
from sqlalchemy.orm import Session
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dashboard.house import House
from dashboard.queue import MAX_SELECTOR, Text, chips, preview_view
from farm.domain import spans
from farm.domain.leases import LONGEST_ASKED, SHORTEST_ASKED, hours
from farm.domain.selectors import SelectorError, parse, words_of
from farm.store import reservations
from farm.store.people import Principal, Scope
from farm.store.reads import devices as device_reads
from farm.store.reservations import TooMany, Wish
from farm.work import submit

#: No wish waits longer.
LONGEST_WAIT = timedelta(days=30)
Span = Annotated[str, Form(max_length=40)]
Purpose = Annotated[str, Form(max_length=300)]


@dataclass(frozen=True, slots=True)
class Draft:
    """What stands in the form."""

    selector: str = ""
    lasts: str = "1h"
    purpose: str = ""
    wait: str = ""


class Refused(Exception):
    """Why there is no reservation, by the field that it is said beside; `all`: beside none."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(errors.values()))
        self.errors = dict(errors)


def _span(text: str, least: timedelta, most: timedelta) -> timedelta:
    """Raises ValueError, which says what would be right."""
    asked = spans.seconds(text)
    if not least.total_seconds() <= asked <= most.total_seconds():
        raise ValueError(f"from {hours(least)} to {hours(most)} can be had")
    return timedelta(seconds=asked)


def _wish(draft: Draft, who: Principal, now: datetime) -> Wish:
    """Raises Refused with every mistake of the form."""
    errors: dict[str, str] = {}
    selector, lasts, wait = "*", timedelta(), None
    try:
        selector = parse(draft.selector.strip() or "*").text
    except SelectorError as error:
        errors["selector"] = str(error)
    try:
        lasts = _span(draft.lasts, SHORTEST_ASKED, LONGEST_ASKED)
    except ValueError as error:
        errors["lasts"] = str(error)
    try:
        wait = _span(draft.wait, SHORTEST_ASKED, LONGEST_WAIT) if draft.wait.strip() else None
    except ValueError as error:
        errors["wait"] = str(error)
    if errors:
        raise Refused(errors)
    return Wish(
        selector=selector,
        lasts=lasts,
        created_by=who.name,
        team=who.team,
        token_id=who.root_id,
        purpose=draft.purpose.strip() or None,
        wait_until=None if wait is None else now + wait,
    )


def _asked(session: Session, wish: Wish, who: Principal, now: datetime) -> tuple[int, int | None]:
    """The reservation, and its lease where a device is had at once. Raises Refused."""
    ident, lease = reservations.request(session, wish, now)
    why = reservations.may_not_wait(session, wish, who.quota.max_waiting) if lease is None else None
    if isinstance(why, TooMany):
        raise Refused({"all": f"{why.words}: withdraw one, or wait until one has been served."})
    if why is not None:
        raise Refused({"selector": f"no device matches; nearest: {words_of(why.nearest) or 'there is none at all'}"})
    return ident, None if lease is None else lease.id


def add(routes: APIRouter, house: House) -> None:
    db, needs, note_of = house.context.db, house.context.needs, house.context.note

    def form(request: Request, draft: Draft, errors: Mapping[str, str] = MappingProxyType({})) -> Response:
        viewer = house.viewer(request)
        with db.read() as session:
            facts = device_reads.facts_of(session)
        data = {
            "draft": draft,
            "errors": errors,
            "chips": chips(facts),
            "any_device": bool(facts),
            "preview": preview_view(submit.preview(db, draft.selector.strip() or "*")),
            "longest": hours(LONGEST_ASKED),
            "may": house.context.principal(request).may(Scope.RESERVE),
        }
        return house.page(request, "reserve.html", data, viewer=viewer, status=422 if errors else 200)

    @routes.get("/reservations/new")
    def page(request: Request, on: Annotated[str, Query(max_length=MAX_SELECTOR)] = "") -> Response:
        """An empty form; `on` fills in a selector."""
        return form(request, Draft(selector=on))

    @routes.post("/ui/reservations", dependencies=[needs(Scope.RESERVE, "reservation.ask")])
    def ask(
        request: Request, selector: Text = "", lasts: Span = "", purpose: Purpose = "", wait: Span = ""
    ) -> Response:
        draft, who = Draft(selector, lasts, purpose, wait), house.context.principal(request)
        try:
            with db.session() as session:
                now = db.now(session)
                wish = _wish(draft, who, now)
                ident, lease_id = _asked(session, wish, who, now)
                told = {"selector": wish.selector, "for_s": wish.lasts.total_seconds(), "purpose": wish.purpose}
                note_of(request).write(session, now, f"reservation {ident}", **told)
        except Refused as refusal:
            return form(request, draft, refusal.errors)
        at = f"reservation-{ident}" if lease_id is None else f"lease-{lease_id}"
        return RedirectResponse(f"/reservations#{at}", 303)
