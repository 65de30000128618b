"""What a page says when it cannot be shown: what, why, what now. One shape for every cause."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import quote

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from farm.store.naming import AmbiguousName

log = logging.getLogger("farm.pages")


class PageError(Exception):
    """Shown as a page of its own: `what` happened in a few words, `why`, and where to go on."""

    def __init__(self, status: int, what: str, why: str, link: tuple[str, str] = ("/", "to the fleet")) -> None:
        super().__init__(what)
        self.status = status
        self.what = what
        self.why = why
        self.link = link


class NobodyLoggedIn(Exception):
    """The request comes without a session."""


def gone(noun: str, name: object, link: tuple[str, str]) -> PageError:
    return PageError(404, f"No {noun} {name}", "It may never have existed, or it was removed.", link)


def to_login(request: Request) -> Response:
    """A person is sent to the login page and comes back here; a program gets 401."""
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    where = f"/login?next={quote(target, safe='/')}"
    if request.headers.get("hx-request"):
        return Response(status_code=401, headers={"HX-Redirect": "/login"})
    if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(where, status_code=303)
    return Response("401: a session or a token is needed; log in at /login\n", 401, media_type="text/plain")


Show = Callable[[Request, PageError], Response]


def route_class(show: Show) -> type[APIRoute]:
    """Routes whose errors become pages."""

    class PageRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def guarded(request: Request) -> Response:
                try:
                    return await handle(request)
                except NobodyLoggedIn:
                    return to_login(request)
                except PageError as error:
                    return show(request, error)
                except AmbiguousName as error:
                    why = str(error)
                    return show(request, PageError(409, "Which of them?", f"{why[:1].upper()}{why[1:]}."))
                except RequestValidationError as error:
                    return show(request, _invalid(error))
                except HTTPException:
                    raise
                except Exception:
                    mark = secrets.token_hex(4)
                    log.exception("page %s failed, mark %s", request.url.path, mark)
                    why = f"This is the farm's own fault. Its log has the cause under {mark}; loading again may help."
                    return show(request, PageError(500, "The page could not be made", why))

            return guarded

    return PageRoute


def _invalid(error: RequestValidationError) -> PageError:
    parts = [f"{'.'.join(str(p) for p in e['loc'][1:])}: {e['msg']}" for e in error.errors()[:3]]
    return PageError(422, "That address or form cannot be read", "; ".join(parts))
