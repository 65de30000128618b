"""The pages put together: one router for the application."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dashboard import (
    attempt,
    device,
    failures,
    fleet,
    holds,
    job,
    people,
    people_audit,
    people_tokens,
    queue,
    reservations,
    reserve,
    run,
    runs,
)
from dashboard.context import Context, Viewer
from dashboard.errors import NobodyLoggedIn, PageError, route_class
from dashboard.house import House
from dashboard.render import HEADERS, Renderer, Static

#: What the form is told, in the words that the session routes use → what a person reads.
_LOGIN_ERRORS = {
    "wrong-token": "That token is not known, has expired or was revoked.",
    "oidc-state": "That login took too long, was used already, or began in another browser: begin again.",
    "oidc-refused": "The identity provider did not let you through.",
    "oidc-provider": "The identity provider could not be used; the farm's log says why. A token still works.",
    "oidc-not-admitted": "The identity provider knows you, but this farm does not let you in: ask its admin.",
    "expired-link": "That login link was used already or is older than ten minutes: print a new one with `farm login`.",
}


def router(context: Context) -> APIRouter:
    """Every page, fragment (/ui/…) and static file (/static/…); static files and /login alone need no session."""
    static = Static()
    render = Renderer(context, static)

    def viewer(request: Request) -> Viewer:
        found = context.viewer(request)
        if found is None:
            raise NobodyLoggedIn
        return found

    def show(request: Request, error: PageError) -> Response:
        return error_page(render, request, error, context.viewer(request))

    house = House(context, render, viewer)
    routes = APIRouter(include_in_schema=False, route_class=route_class(show))
    places = (fleet, holds, runs, queue, run, job, attempt, device, reservations, reserve, failures)
    for page in (*places, people_tokens, people, people_audit):
        page.add(routes, house)
    _add_login(routes, context, render)
    _add_static(routes, static)
    return routes


def error_page(render: Renderer, request: Request, error: PageError, viewer: Viewer | None) -> Response:
    """The whole page, or the same words as a piece for a page that is already there."""
    template = "error_piece.html" if request.headers.get("hx-request") else "error.html"
    return render.page(request, template, {"error": error}, viewer=viewer, status=error.status)


def _add_login(routes: APIRouter, context: Context, render: Renderer) -> None:
    @routes.get("/login")
    def login(
        request: Request,
        next: Annotated[str, Query(max_length=2000)] = "/",
        error: Annotated[str, Query(max_length=40)] = "",
    ) -> Response:
        if context.viewer(request) is not None:
            return RedirectResponse("/", 303)
        data = {"next": next, "trouble": _LOGIN_ERRORS.get(error), "provider": context.provider}
        return render.page(request, "login.html", data, viewer=None)


def _add_static(routes: APIRouter, static: Static) -> None:
    @routes.get("/static/{name:path}")
    def file(name: str, v: Annotated[str, Query(max_length=40)] = "") -> Response:
        found = static.find(name)
        if found is None:
            return Response("no such file\n", 404, media_type="text/plain")
        body, media_type = found
        keep = "public, max-age=31536000, immutable" if v == static.version else "no-cache"
        return Response(body, media_type=media_type, headers={**HEADERS, "Cache-Control": keep})

    @routes.get("/favicon.ico")
    def favicon() -> Response:
        return file("favicon.svg")
