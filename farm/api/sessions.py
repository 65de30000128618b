"""Logging in and out in a browser: a token, or a one-time link, becomes a session cookie.

The cookie is HttpOnly (no script reads it) and SameSite=Lax (no other site's form sends it along). The page with the
form is the dashboard's; this answers what the form sends.
"""

from __future__ import annotations

import math
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Path, Request
from fastapi.responses import RedirectResponse, Response

from farm.api.auth import COOKIE, address_of, needs, same_origin
from farm.api.context import Audit, Context, Farm, Who
from farm.api.errors import ApiError
from farm.api.throttle import Throttle
from farm.store import audit, people
from farm.store.people import SESSION_LASTS, Principal, Scope, TokenKind


def local_path(target: str) -> str:
    """`target` when it is a path of this site, else `/`: a login must not send anybody elsewhere."""
    plain = target.startswith("/") and not target.startswith("//") and "\\" not in target and target.isprintable()
    return target if plain else "/"


def router(throttle: Throttle) -> APIRouter:
    routes = APIRouter(tags=["sessions"])

    @routes.post("/login", summary="Exchange a token for a session", status_code=303, response_class=RedirectResponse)
    def login(
        request: Request,
        farm: Farm,
        token: Annotated[str, Form(max_length=people.MAX_SECRET)],
        next: Annotated[str, Form(max_length=2000)] = "/",
    ) -> Response:
        """Sets the session cookie and redirects to `next`; a wrong token leads back to the form, which says so."""
        _refuse_other_sites(request)
        refuse_guessing(throttle, request)
        with farm.db.read() as session:
            who = people.identify(session, token.strip(), farm.now())
        if who is None:
            failed(farm, throttle, request, "token")
            return RedirectResponse("/login?" + urlencode({"error": "wrong-token", "next": local_path(next)}), 303)
        return begin(farm, request, who, local_path(next), "token")

    @routes.get(
        "/login/once/{code}", summary="Use a one-time login link", status_code=303, response_class=RedirectResponse
    )
    def login_once(request: Request, farm: Farm, code: Annotated[str, Path(max_length=people.MAX_SECRET)]) -> Response:
        """Works once and for ten minutes."""
        refuse_guessing(throttle, request)
        with farm.db.session() as session:
            who = people.redeem_login_code(session, code, farm.now())
        if who is None:
            failed(farm, throttle, request, "link")
            return RedirectResponse("/login?error=expired-link", 303)
        return begin(farm, request, who, "/", "link")

    @routes.post(
        "/logout",
        summary="End the session",
        status_code=303,
        response_class=RedirectResponse,
        dependencies=[needs(Scope.READ, "login.end")],
    )
    def logout(farm: Farm, who: Who, note: Audit) -> Response:
        """Revokes the session that the request came with and removes the cookie."""
        if who.kind == TokenKind.SESSION:
            with farm.db.session() as session:
                people.revoke(session, who.token_id, farm.now())
                note.write(session, farm.now(), f"user {who.name}", way="log out")
        note.done = True
        response = RedirectResponse("/login", 303)
        response.delete_cookie(COOKIE, path="/")
        return response

    return routes


def begin(farm: Context, request: Request, who: Principal, target: str, way: str) -> Response:
    """Log the browser in as `who`, note it, and send it to `target` of this site."""
    now = farm.now()
    with farm.db.session() as session:
        people.prune(session, now)
        secret, _ = people.derive_token(session, who, "browser", now, TokenKind.SESSION, SESSION_LASTS)
        audit.record(session, who, "login.succeed", f"user {who.name}", {"way": way}, address_of(request), now)
    response = RedirectResponse(target, 303)
    response.set_cookie(
        COOKIE,
        secret,
        max_age=int(SESSION_LASTS.total_seconds()),
        path="/",
        httponly=True,
        samesite="lax",
        secure=farm.secure_cookies,
    )
    return response


def failed(farm: Context, throttle: Throttle, request: Request, way: str, why: str = "") -> None:
    """Count a failed login against its address, and note it; what was tried is not kept."""
    address = address_of(request)
    throttle.failed(address)
    now = farm.now()
    with farm.db.session() as session:
        told = {"why": why or "it is unknown, used up or revoked"}
        audit.record(session, None, "login.fail", way, told, address, now)


def refuse_guessing(throttle: Throttle, request: Request) -> None:
    wait = math.ceil(throttle.wait_s(address_of(request)))
    if wait > 0:
        raise ApiError(
            429,
            "too-many",
            f"Too many failed logins from here: try again in {wait} s.",
            {"retry_after_s": wait},
            {"Retry-After": str(wait)},
        )


def _refuse_other_sites(request: Request) -> None:
    """A browser that says where the form stands must name us: nobody is logged in as somebody else unawares."""
    told = any(request.headers.get(name) for name in ("sec-fetch-site", "origin", "referer"))
    if told and not same_origin(request.headers):
        raise ApiError(403, "cross-origin", "This login does not come from the farm's own page.")
