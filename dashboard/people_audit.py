"""The audit log, for admins: a page at a time, newest first."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from dashboard.house import MAX_ID, House
from farm.domain.words import facts
from farm.store import audit
from farm.store.people import Scope

PAGE = 60
Word = Annotated[str, Query(max_length=200)]


def add(routes: APIRouter, house: House) -> None:
    @routes.get("/audit", dependencies=[house.context.needs(Scope.ADMIN)])
    def page(
        request: Request,
        before: Annotated[int | None, Query(ge=1, le=MAX_ID)] = None,
        who: Word = "",
        action: Word = "",
        target: Word = "",
    ) -> Response:
        viewer = house.viewer(request)
        asked = {key: value.strip() for key, value in (("who", who), ("action", action), ("target", target))}
        with house.context.db.read() as session:
            found = audit.page(
                session, before=before, limit=PAGE, who=asked["who"], action=asked["action"], target=asked["target"]
            )  # fmt: skip
        kept = {key: value for key, value in asked.items() if value}
        data = {
            "lines": [(row, facts(row.detail)) for row in found.rows],
            "asked": asked,
            "filtered": bool(kept),
            "older": urlencode({**kept, "before": found.before}) if found.before else None,
            "newest": urlencode(kept),
            "first_page": before is None,
        }
        return house.page(request, "audit.html", data, viewer=viewer)
