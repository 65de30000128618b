"""One attempt: its tests, its logs as they grow, what it left behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dashboard import drawing, incidents, signs, words
from dashboard.errors import gone
from dashboard.house import MAX_ID, House
from dashboard.measured import facts, groups
from dashboard.render import HEADERS
from dashboard.run import attempt_sign
from dashboard.timeline import timeline
from farm.domain.deployments import WORDS, Deployment
from farm.store.reads import attempts as reads
from farm.store.reads.attempts import AttemptDetail
from farm.store.reads.shared import Series

AttemptId = Annotated[int, Path(ge=1, le=MAX_ID)]
Which = Annotated[Literal["runner", "logcat"], Query()]

#: Bytes of a log that a page starts with, and that one further piece brings.
TAIL = 64 * 1024
PIECE = 256 * 1024


#: How series begin of which a device may have dozens: they are shown when somebody asks.
_MANY = ("temperature/", "cooling/")


@dataclass(frozen=True, slots=True)
class SeriesView:
    series: Series
    line: drawing.Line
    reach: str  # from its lowest to its highest value; of a flat one that value
    last: str

    @property
    def flat(self) -> bool:
        return self.line.low == self.line.high


@dataclass(frozen=True, slots=True)
class Charts:
    """Series on one shared axis of time; `spans` are the tests on it: (x, width, short name).

    Those that did not change are `flat`: a word each, no curve. `more` are the many of one kind: each zone, each
    cooling device.
    """

    series: tuple[SeriesView, ...]
    flat: tuple[SeriesView, ...]
    more: tuple[SeriesView, ...]
    more_flat: tuple[SeriesView, ...]
    spans: tuple[tuple[float, float, str], ...]
    marks: tuple[tuple[float, str], ...]
    ticks: tuple[drawing.Tick, ...]


def charts(detail: AttemptDetail) -> Charts | None:
    """None when nothing was recorded."""
    attempt = detail.attempt
    axis = drawing.Axis(attempt.created_at, attempt.ended_at or detail.at)
    views = []
    for series in detail.series:
        drawn = drawing.line(series.points, axis, least_span=4.0 if series.unit == "°C" else 0.0)
        if drawn:
            last = words.quantity(drawn.last, series.unit)
            reach = last if drawn.low == drawn.high else words.between(drawn.low, drawn.high, series.unit)
            views.append(SeriesView(series, drawn, reach, last))
    if not views:
        return None
    spans = []
    for test in detail.tests:
        if test.began_at:
            x = axis.percent(test.began_at)
            spans.append((x, axis.percent(test.ended_at or attempt.ended_at or detail.at) - x, test.test_id))
    marks = tuple((axis.percent(i.at), i.klass) for i in detail.incidents)
    few = [view for view in views if not view.series.name.startswith(_MANY)]
    many = [view for view in views if view.series.name.startswith(_MANY)]
    return Charts(
        series=tuple(view for view in few if not view.flat),
        flat=tuple(view for view in few if view.flat),
        more=tuple(view for view in many if not view.flat),
        more_flat=tuple(view for view in many if view.flat),
        spans=tuple(spans),
        marks=marks,
        ticks=drawing.seconds_ticks(axis),
    )


def deployed_words(word: str | None) -> str | None:
    """How deploy and load ended, for people; a word of a newer farm as it is."""
    if word is None:
        return None
    return WORDS[Deployment(word)] if word in set(Deployment) else word


def view(detail: AttemptDetail) -> dict[str, object]:
    attempt = detail.attempt
    heat = next((s for s in detail.series if s.name == "temperature"), None)
    return {
        "detail": detail,
        "incidents": incidents.groups(detail.incidents),
        "run": detail.run,
        "attempt": attempt,
        "device": attempt.device,
        "sign": attempt_sign(attempt),
        "live": attempt.ended_at is None,
        "deployed": deployed_words(detail.deployment),
        "refused": any(check.get("ok") is False for check in detail.checks),
        "tests": [(t, signs.of_test(t.state, t.outcome, t.cause)) for t in detail.tests],
        "groups": groups(detail.measurements),
        "facts": facts(detail.measurements),
        "charts": charts(detail),
        "sampled": next((reason for name, reason in detail.absent if name == "sampler"), None),
        "absent": [(name, reason) for name, reason in detail.absent if name != "sampler"],
        "timeline": timeline([attempt], {attempt.id: heat} if heat else {}, detail.at),
        "later": next(((id_, number) for id_, number, _ in detail.siblings if number > attempt.number), None),
        "siblings": [
            (id_, number, signs.of_outcome(outcome) if outcome else signs.RUNNING)
            for id_, number, outcome in detail.siblings
        ],
    }


def add(routes: APIRouter, house: House) -> None:
    def find(request: Request, attempt_id: int) -> AttemptDetail:
        with house.context.db.read() as session:
            found = reads.attempt(session, attempt_id, house.context.clock())
        if found is None:
            raise gone("attempt", attempt_id, ("/runs", "to the runs"))
        return found

    @routes.get("/attempts/{attempt_id:int}")
    def page(request: Request, attempt_id: AttemptId, log: Which = "runner") -> Response:
        viewer = house.viewer(request)
        data = view(find(request, attempt_id))
        chunk = house.context.read_log(attempt_id, log, -TAIL, TAIL)
        return house.page(request, "attempt.html", {**data, "which": log, "log": chunk}, viewer=viewer)

    @routes.get("/ui/attempts/{attempt_id:int}")
    def piece(request: Request, attempt_id: AttemptId) -> Response:
        viewer = house.viewer(request)
        return house.page(request, "attempt_live.html", view(find(request, attempt_id)), viewer=viewer)

    @routes.get("/ui/attempts/{attempt_id:int}/log")
    def more(
        request: Request,
        attempt_id: AttemptId,
        which: Which = "runner",
        offset: Annotated[int, Query(ge=-PIECE, le=MAX_ID)] = 0,
        until: Annotated[int, Query(ge=0, le=MAX_ID)] = 0,
    ) -> Response:
        """The next piece as JSON {text, offset, next, live}; up to byte `until` when that is given."""
        house.viewer(request)
        limit = min(PIECE, until - offset) if until > offset else PIECE
        chunk = house.context.read_log(attempt_id, which, offset, limit)
        if chunk is None:
            body: dict[str, object] = {"text": "", "offset": 0, "next": 0, "live": True, "exists": False}
        else:
            body = {"text": chunk.text, "offset": chunk.offset, "next": chunk.next_offset, "live": chunk.live}
            body["exists"] = True
        return JSONResponse(body, headers=HEADERS)
