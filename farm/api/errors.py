"""Every error has one shape: `{"error": {"code", "message", "detail"}}` and a right status.

`code` is for programs and never changes its meaning; `message` is one sentence for a person: what, where, what to do.
A fault of our own is logged whole under a short id, and the client is told that id alone.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from farm.store.naming import AmbiguousName
from farm.work.submit import Refused

log = logging.getLogger("farm.api")

#: Renders an error for a person's browser: (request, status, code, message, detail) -> response.
ErrorPage = Callable[[Request, int, str, str, Any], Response]

CODES = {
    400: "bad-request",
    401: "no-token",
    403: "not-allowed",
    404: "not-found",
    405: "method-not-allowed",
    408: "too-slow",
    413: "too-large",
    415: "wrong-media-type",
    422: "bad-input",
    429: "too-many",
    503: "busy",
}
#: Refusals that say "there is no such thing": their own status.
_NOT_FOUND = ("unknown-run", "no-such-run")


class ApiError(HTTPException):
    """Raised by routes: a status, a code for programs, a sentence for a person."""

    def __init__(
        self, status: int, code: str, message: str, detail: Any = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(status, message, headers)
        self.code = code
        self.more = detail


def not_found(what: str, where: str) -> ApiError:
    """404 for a thing that a list can be looked up for."""
    return ApiError(404, "not-found", f"There is no {what}. {where} lists what there is.")


def sentence(refusal: Exception) -> str:
    """What a rule says, as the beginning of a sentence."""
    text = str(refusal)
    return text[:1].upper() + text[1:]


def body(code: str, message: str, detail: Any = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "detail": detail}}


def wants_page(request: Request) -> bool:
    """Whether a person's browser asks for a page (and no program for JSON)."""
    return not request.url.path.startswith("/api/") and "text/html" in request.headers.get("accept", "")


def respond(
    request: Request,
    status: int,
    code: str,
    message: str,
    detail: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The error as a page for a person's browser, where the app has one, else as JSON."""
    page: ErrorPage | None = getattr(request.app.state, "error_page", None)
    if page is not None and wants_page(request):
        response = page(request, status, code, message, detail)
    else:
        response = JSONResponse(body(code, message, detail), status)
    response.headers.update(headers or {})
    return response


def answer(request: Request, error: HTTPException) -> Response:
    """What a client gets to see of `error`."""
    code = error.code if isinstance(error, ApiError) else CODES.get(error.status_code, "error")
    detail = error.more if isinstance(error, ApiError) else None
    return respond(request, error.status_code, code, str(error.detail), detail, error.headers)


def install(app: FastAPI, page: ErrorPage | None = None) -> None:
    """Give `app` its handlers; `page` renders errors of pages, JSON without it."""
    app.state.error_page = page

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        return answer(request, error)

    @app.exception_handler(RequestValidationError)
    async def bad_input(request: Request, error: RequestValidationError) -> Response:
        problems = [_problem(entry) for entry in error.errors()[:20]]
        return respond(request, 422, "bad-input", "; ".join(problems)[:2000] or "the input is not valid", problems)

    @app.exception_handler(AmbiguousName)
    async def ambiguous(request: Request, error: AmbiguousName) -> Response:
        return respond(request, 409, "ambiguous-name", f"{error}.", {"candidates": error.candidates})

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        status = 404 if error.code in _NOT_FOUND else 422
        return respond(request, status, error.code, error.message, error.detail)


class Faults:
    """Answers a fault of our own with 500, wherever it happens; an answer that has begun is cut off instead."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            ident = secrets.token_hex(4)
            log.error("fault %s in %s %s", ident, scope["method"], scope["path"], exc_info=error)
            if begun:
                raise
            message = f"The farm failed to answer this. Its log has the cause under {ident}."
            await respond(Request(scope), 500, "farm-fault", message, {"id": ident})(scope, receive, send)


def _problem(entry: dict[str, Any]) -> str:
    """One validation error as "body.suites: what is wrong", without echoing the input."""
    where = ".".join(str(part) for part in entry.get("loc", ()))
    return f"{where}: {entry.get('msg', 'not valid')}"
