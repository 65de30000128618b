"""Logging in through an identity provider: the way there, and the way back.

The browser leaves with a state that its cookie repeats, so that nobody is logged in by a link that somebody else
began; the farm keeps the other half (`farm.store.logins`), once. Where the person ends up afterwards is a path of
this site, whatever they asked for.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy.exc import IntegrityError

from farm.api.context import Context, Farm
from farm.api.errors import ApiError
from farm.api.provider import Provider, ProviderError
from farm.api.sessions import begin, failed, local_path, refuse_guessing
from farm.api.throttle import Throttle
from farm.oidc_settings import Oidc
from farm.store import logins, people
from farm.store.logins import NotAdmitted
from farm.store.people import Principal

log = logging.getLogger("farm.login")

STATE_COOKIE = "farm_oidc"
START, BACK = "/login/oidc", "/login/oidc/back"

Word = Annotated[str, Query(max_length=4096)]


def router(oidc: Oidc, throttle: Throttle, public_url: str) -> APIRouter:
    """`public_url` empty: the address that the request names."""
    provider = Provider(oidc)
    routes = APIRouter(tags=["sessions"])

    def redirect_uri(request: Request) -> str:
        return (public_url or str(request.base_url).rstrip("/")) + BACK

    @routes.get(START, summary="Log in through the identity provider", status_code=303, response_class=RedirectResponse)
    def leave(request: Request, farm: Farm, next: Annotated[str, Query(max_length=2000)] = "/") -> Response:
        """Sends the browser to the provider; it comes back to `/login/oidc/back`."""
        refuse_guessing(throttle, request)
        with farm.db.session() as session:
            begun = logins.begin(session, local_path(next), farm.now())
        if begun is None:
            raise ApiError(503, "busy", "Too many logins are on their way at once: try again in some minutes.")
        try:
            response = RedirectResponse(provider.way_there(begun, redirect_uri(request)), 303)
        except ProviderError as error:
            return _refused(farm, throttle, request, "provider", str(error))
        response.set_cookie(
            STATE_COOKIE,
            begun.state,
            max_age=int(logins.LASTS.total_seconds()),
            path=START,
            httponly=True,
            samesite="lax",
            secure=farm.secure_cookies,
        )
        return response

    @routes.get(BACK, summary="Back from the identity provider", status_code=303, response_class=RedirectResponse)
    def back(
        request: Request,
        farm: Farm,
        state: Word = "",
        code: Word = "",
        error: Annotated[str, Query(max_length=200)] = "",
    ) -> Response:
        """Checks state, code and ID token; makes the user at their first login; begins a session."""
        refuse_guessing(throttle, request)
        cookie = request.cookies.get(STATE_COOKIE, "")
        with farm.db.session() as session:
            begun = logins.take(session, state, farm.now()) if state else None
        if begun is None or not hmac.compare_digest(cookie.encode(), state.encode()):
            return _refused(farm, throttle, request, "state", "the state is unknown, used, or another browser's")
        if error or not code:
            return _refused(farm, throttle, request, "refused", f"the provider said: {error or 'no code'}")
        try:
            claims = provider.redeem(code, begun, redirect_uri(request))
            who = _admit(farm, oidc, claims)
        except ProviderError as wrong:
            return _refused(farm, throttle, request, "provider", str(wrong))
        except NotAdmitted as wrong:
            return _refused(farm, throttle, request, "not-admitted", str(wrong))
        response = begin(farm, request, who, begun.target, "oidc")
        response.delete_cookie(STATE_COOKIE, path=START)
        return response

    return routes


def _admit(farm: Context, oidc: Oidc, claims: Mapping[str, Any]) -> Principal:
    """Whom the claims speak of. Of two first logins at once one makes the user, and the other one finds it."""
    try:
        with farm.db.session() as session:
            return people.without_token(logins.admit(session, oidc, claims, farm.now()), "oidc")
    except IntegrityError:
        with farm.db.session() as session:
            return people.without_token(logins.admit(session, oidc, claims, farm.now()), "oidc")


def _refused(farm: Context, throttle: Throttle, request: Request, code: str, why: str) -> Response:
    log.warning("login through the identity provider failed: %s", why)
    failed(farm, throttle, request, "oidc", why)
    response = RedirectResponse("/login?" + urlencode({"error": f"oidc-{code}"}), 303)
    response.delete_cookie(STATE_COOKIE, path=START)
    return response
