"""What goes wrong in the farm: incidents gathered by what they are, and how often bundles do not get onto devices."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Form, Path, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dashboard import incidents
from dashboard.errors import PageError
from dashboard.house import MAX_ID, House
from farm.domain.deployments import WORDS, Deployment
from farm.domain.rates import Rate
from farm.store import clusters, tables
from farm.store.people import Scope
from farm.store.reads import clusters as reads
from farm.store.reads import deployments

BACK = ("/failures", "back to the failures")
#: Days that the deployments' page offers to look back on.
SPANS = (7, 30, 90)

Ident = Annotated[int, Path(ge=1, le=MAX_ID)]


@dataclass(frozen=True, slots=True)
class Share:
    """A rate for a page: its words, and the bar with its interval in percent of the widest end of all rows."""

    name: str
    key: str
    words: str
    counts: str
    value: float | None
    low: float | None
    high: float | None


def percent(rate: Rate) -> str:
    """`4.0 %`, `not measured`."""
    return "not measured" if rate.value is None else f"{100 * rate.value:.1f} %"


def interval(rate: Rate) -> str:
    return "" if rate.low is None or rate.high is None else f"{100 * rate.low:.1f} to {100 * rate.high:.1f} %"


def shares(rows: list[tuple[str, str, Rate]]) -> list[Share]:
    """On one scale, so that bars below each other can be compared."""
    top = max((rate.high or 0.0 for _, _, rate in rows), default=0.0) or 1.0

    def at(value: float | None) -> float | None:
        return None if value is None else 100 * value / top

    return [
        Share(name, key, percent(rate), f"{rate.hits} of {rate.total}", at(rate.value), at(rate.low), at(rate.high))
        for name, key, rate in rows
    ]


def view(found: deployments.Deployments) -> dict[str, object]:
    """The lists of the deployments' page."""
    causes = [(WORDS[Deployment(one.cause)], one.cause, one.rate) for one in found.causes]
    return {
        "found": found,
        "causes": shares(causes),
        "bundles": shares([(group.name, group.key, group.rate) for group in found.bundles]),
        "models": shares([(group.name, group.key, group.rate) for group in found.models]),
        "days": shares([(group.name, group.key, group.rate) for group in found.days]),
    }


def add(routes: APIRouter, house: House) -> None:
    db, needs, note_of, principal = house.context.db, house.context.needs, house.context.note, house.context.principal

    @routes.get("/failures")
    def faults(request: Request, muted: bool = False) -> Response:
        viewer = house.viewer(request)
        with db.read() as session:
            rows = reads.clusters(session, db.now(session), muted=muted)
        data = {"rows": rows, "muted": muted, "percent": percent, "interval": interval}
        return house.page(request, "failures.html", data, viewer=viewer)

    @routes.get("/failures/deployments")
    def deployed(
        request: Request,
        days: Annotated[int, Query(ge=1, le=366)] = 30,
        bundle: Annotated[str, Query(max_length=200)] = "",
    ) -> Response:
        viewer = house.viewer(request)
        with db.read() as session:
            found = deployments.deployments(session, db.now(session), timedelta(days=days), bundle.strip() or None)
        data = {
            **view(found),
            "asked": days,
            "spans": SPANS,
            "bundle": bundle,
            "percent": percent,
            "interval": interval,
        }
        return house.page(request, "deployments.html", data, viewer=viewer)

    @routes.get("/failures/signatures/{key}")
    def by_signature(request: Request, key: Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]) -> Response:
        """An incident knows its signature; the cluster may change."""
        house.viewer(request)
        with db.read() as session:
            row = session.get(tables.Signature, key)
        if row is None:
            raise PageError(404, "There is no such incident", "It may have been forgotten.", BACK)
        return RedirectResponse(f"/failures/{row.cluster_id}", 303)

    @routes.get("/failures/{cluster_id}")
    def one(request: Request, cluster_id: Ident) -> Response:
        viewer = house.viewer(request)
        with db.read() as session:
            found = reads.cluster(session, cluster_id, db.now(session))
        if found is None:
            raise _gone()
        data = {
            "detail": found,
            "incidents": incidents.groups(found.incidents),
            "percent": percent,
            "interval": interval,
        }
        return house.page(request, "cluster.html", data, viewer=viewer)

    @routes.post("/ui/failures/{cluster_id}/name", dependencies=[needs(Scope.SUBMIT, "cluster.name")])
    def rename(request: Request, cluster_id: Ident, name: Annotated[str, Form(max_length=200)] = "") -> Response:
        with db.session() as session:
            now = db.now(session)
            try:
                clusters.rename(session, cluster_id, name.strip() or None, principal(request).name, now)
            except clusters.NoSuchCluster:
                raise _gone() from None
            note_of(request).write(session, now, f"cluster {cluster_id}", name=name.strip() or None)
        return RedirectResponse(f"/failures/{cluster_id}", 303)

    @routes.post("/ui/failures/{cluster_id}/mute", dependencies=[needs(Scope.SUBMIT, "cluster.mute")])
    def mute(request: Request, cluster_id: Ident, reason: Annotated[str, Form(max_length=300)] = "") -> Response:
        """With a reason: out of the list from now on. Without: shown again."""
        why = reason.strip()
        with db.session() as session:
            now = db.now(session)
            try:
                if why:
                    clusters.mute(session, cluster_id, why, principal(request).name, now)
                else:
                    clusters.unmute(session, cluster_id, now)
            except clusters.NoSuchCluster:
                raise _gone() from None
            note_of(request).write(session, now, f"cluster {cluster_id}", muted=bool(why), reason=why or None)
        return RedirectResponse(f"/failures/{cluster_id}", 303)


def _gone() -> PageError:
    return PageError(404, "There is no such fault", "It may have been gathered into another one.", BACK)
