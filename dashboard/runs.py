"""The list of runs, newest first, a page at a time; the search box of every page ends here."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query
from sqlalchemy.orm import Session
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dashboard import signs
from dashboard.house import MAX_ID, House
from farm.domain.devices import DeviceFacts
from farm.store import teams
from farm.store.reads import devices as device_reads
from farm.store.reads import runs as reads
from farm.store.reads.runs import RunRow

PAGE = 40
#: What the list may be narrowed to; "" is all of it.
STATES = ("", "queued", "running", "ended")

StateQuery = Annotated[Literal["", "queued", "running", "ended"], Query()]
BeforeQuery = Annotated[int | None, Query(ge=1, le=MAX_ID)]
TextQuery = Annotated[str, Query(max_length=200)]
TeamQuery = Annotated[str, Query(max_length=100)]


def devices_words(run: RunRow) -> str:
    """`3 of 3 passed`, `1 of 3 done`."""
    jobs = run.jobs
    if not jobs.total:
        return "no device"
    if jobs.ended < jobs.total:
        return f"{jobs.ended} of {jobs.total} done"
    return f"{jobs.outcomes.get('passed', 0)} of {jobs.total} passed"


def _devices_like(session: Session, text: str) -> list[DeviceFacts]:
    """Devices whose name, serial number or model has `text` in it."""
    wanted = text.casefold()
    return [
        facts
        for facts in device_reads.facts_of(session)
        if any(wanted in part.casefold() for part in (facts.name, facts.serial, facts.labels.get("model", "")))
    ]


def _straight_to(session: Session, text: str) -> str | None:
    """Where a search that names one thing exactly leads: a run's number, a device's name or serial number."""
    if text.isascii() and text.isdigit() and len(text) < 16:
        found = reads.runs(session, before=int(text) + 1, limit=1).rows
        return f"/runs/{found[0].id}" if found and found[0].id == int(text) else None
    exact = [facts for facts in _devices_like(session, text) if text in (facts.name, facts.serial)]
    return f"/devices/{quote(exact[0].name, safe='')}" if len(exact) == 1 else None


def add(routes: APIRouter, house: House) -> None:
    def show(request: Request, template: str, state: str, before: int | None, q: str, team: str) -> Response:
        viewer = house.viewer(request)
        text = q.strip()
        with house.context.db.read() as session:
            found = reads.runs(
                session, state=state or None, before=before, limit=PAGE, text=text or None, team=team or None
            )
            several = len(teams.teams(session)) > 1
            devices = _devices_like(session, text)[:20] if text else []
        kept = {k: v for k, v in (("state", state), ("team", team), ("q", q)) if v}
        data = {
            "rows": [
                (row, signs.of_run(row.state, row.outcome, row.cancel_at is not None), devices_words(row))
                for row in found.rows
            ],
            "searched": reads.SEARCHED,
            "devices": devices,
            "state": state,
            "q": q,
            "team": team,
            "tabs_kept": urlencode({k: v for k, v in kept.items() if k != "q"}),
            "several_teams": several,
            "all_teams": urlencode({k: v for k, v in kept.items() if k != "team"}),
            "of_team": lambda name: urlencode({**{k: v for k, v in kept.items() if k != "q"}, "team": name}),
            "older": urlencode({**kept, "before": found.before}) if found.before else None,
            "tabs": {s: urlencode({k: v for k, v in (("state", s), ("team", team), ("q", q)) if v}) for s in STATES},
            "here": urlencode({**kept, **({"before": before} if before else {})}),
            "first_page": before is None,
        }
        return house.page(request, template, data, viewer=viewer)

    @routes.get("/runs")
    def page(
        request: Request, state: StateQuery = "", before: BeforeQuery = None, q: TextQuery = "", team: TeamQuery = ""
    ) -> Response:
        if q.strip():
            house.viewer(request)
            with house.context.db.read() as session:
                target = _straight_to(session, q.strip())
            if target:
                return RedirectResponse(target, 303)
        return show(request, "runs.html", state, before, q, team)

    @routes.get("/ui/runs")
    def piece(
        request: Request, state: StateQuery = "", before: BeforeQuery = None, q: TextQuery = "", team: TeamQuery = ""
    ) -> Response:
        answer = show(request, "runs_live.html", state, before, q, team)
        if request.headers.get("hx-trigger") == "search":  # typed: the address follows, so that it can be kept
            kept = urlencode({k: v for k, v in (("state", state), ("team", team), ("q", q.strip())) if v})
            answer.headers["HX-Replace-Url"] = f"/runs?{kept}" if kept else "/runs"
        return answer
