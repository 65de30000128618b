"""What every page module is handed to add its routes with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from dashboard.context import Context, Viewer
from dashboard.render import Renderer

#: Largest id that a database holds.
MAX_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class House:
    """`viewer(request)` is who looks; it raises `NobodyLoggedIn`, which every route turns into the login page."""

    context: Context
    render: Renderer
    viewer: Callable[[Request], Viewer]

    def page(
        self, request: Request, template: str, data: dict[str, Any], *, viewer: Viewer, status: int = 200
    ) -> Response:
        return self.render.page(request, template, data, viewer=viewer, status=status)

    def may_submit(self, viewer: Viewer) -> bool:
        return "submit" in viewer.scopes or "admin" in viewer.scopes
