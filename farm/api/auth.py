"""Who is it, and may they: one ASGI middleware for every route, so that a new route cannot forget it.

Everything is closed unless `PUBLIC` names it. A request shows a bearer token (programs) or the session cookie
(browsers). Reading needs the scope `read`; a route that wants more says so with `needs`, and a write that says nothing
is the admin's alone (`default_deny`). `needs` also names what the route does, for the audit log: the middleware writes
the line before the answer leaves, unless the route has done so in its own transaction.
A write that comes with the cookie must come from our own pages (same origin), since a browser sends the cookie along
with whatever any site makes it send. Nothing here compares a secret byte by byte: the store looks up its hash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from anyio import to_thread
from fastapi import Request
from fastapi.params import Depends
from fastapi.responses import RedirectResponse, Response
from starlette.datastructures import Headers
from starlette.exceptions import WebSocketException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from farm.api.context import Context, principal
from farm.api.errors import ApiError, answer
from farm.store import people
from farm.store.audit import Note
from farm.store.people import Principal, Scope, TokenKind

COOKIE = "farm_session"
#: Paths that answer without a token; a trailing slash makes a prefix.
PUBLIC = (
    "/login",
    "/login/once/",
    "/login/oidc",
    "/login/oidc/back",
    "/healthz",
    "/static/",
    "/favicon.ico",
    "/api/channel",  # agents say who they are in their first frame (farm.api.channel)
)
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_MAX_HEADER = 4096


def is_public(path: str) -> bool:
    return any(path.startswith(entry) if entry.endswith("/") else path == entry for entry in PUBLIC)


def same_origin(headers: Headers) -> bool:
    """Whether a browser's write comes from our own pages.

    Sec-Fetch-Site is the browser's own word; older ones send Origin, and at least Referer. None of them: refused.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    source = headers.get("origin") or headers.get("referer")
    return source is not None and urlsplit(source).netloc.lower() == headers.get("host", "").lower() != ""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a route says of itself: the scope that it wants, and what it does (None: nothing to note)."""

    scope: Scope
    action: str | None


def needs(scope: Scope, action: str | None = None) -> Depends:
    """A dependency: the route wants `scope`, and does `action` (`run.submit`, `hold.place`, …).

    Every write route declares both; without an action it changes nothing that the audit log would tell.
    """

    async def check(connection: HTTPConnection) -> None:
        who = principal(connection)
        _require(connection, who, scope)
        if action is not None:
            connection.state.audit = Note(who, action, address_of(connection))

    check.__dict__["declared"] = Declared(scope, action)
    return Depends(check)


def declared(route: object) -> Declared | None:
    """What `needs` said of a route; None: it says nothing."""
    found = (getattr(entry.dependency, "declared", None) for entry in getattr(route, "dependencies", ()))
    return next((entry for entry in found if isinstance(entry, Declared)), None)


async def default_deny(connection: HTTPConnection) -> None:
    """A dependency of the whole application: a write whose route declares no scope is the admin's alone."""
    scope = connection.scope
    reads = scope["type"] == "http" and scope["method"] in SAFE_METHODS
    if not reads and not is_public(scope["path"]) and declared(scope.get("route")) is None:
        _require(connection, principal(connection), Scope.ADMIN)


def address_of(connection: HTTPConnection) -> str:
    return connection.client.host if connection.client else "unknown"


def _require(connection: HTTPConnection, who: Principal, scope: Scope) -> None:
    if who.may(scope):
        return
    message = f"This token lacks the scope {scope.value!r}; it has: {', '.join(sorted(who.scopes)) or 'none'}."
    if connection.scope["type"] == "websocket":
        raise WebSocketException(1008, message[:100])
    raise ApiError(403, "not-allowed", message)


class Auth:
    """Puts `state.principal` on every request that may pass, and sees to it that what it did is noted."""

    def __init__(self, app: ASGIApp, context: Callable[[], Context]) -> None:
        self._app = app
        self._context = context

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or is_public(scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            who = await self._admit(scope)
        except ApiError as refusal:
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008, "reason": str(refusal.detail)[:100]})
                return
            request = Request(scope)
            await (_to_login(request, refusal) or answer(request, refusal))(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["principal"] = who

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                note = state.get("audit")
                if isinstance(note, Note) and not note.done:
                    await to_thread.run_sync(self._write, note, scope)
            await send(message)

        await self._app(scope, receive, noted)

    def _write(self, note: Note, scope: AsgiScope) -> None:
        context = self._context()
        with context.db.session() as session:
            named = " ".join(str(value) for value in scope.get("path_params", {}).values())
            note.write(session, context.now(), note.target or named or scope["path"])

    async def _admit(self, scope: AsgiScope) -> Principal:
        """Who may go on. Raises ApiError 401 or 403."""
        headers = Headers(scope=scope)
        method = scope.get("method", "GET")
        secret, by_cookie = credentials(headers)
        who = await to_thread.run_sync(self._identify, secret, by_cookie) if secret else None
        if who is None:
            raise _no_token(bool(secret))
        # A websocket's handshake is a GET that any site may start: it is held to the rule for writes.
        if by_cookie and (method not in SAFE_METHODS or scope["type"] == "websocket") and not same_origin(headers):
            raise ApiError(403, "cross-origin", "This write does not come from one of the farm's own pages.")
        _require(HTTPConnection(scope), who, Scope.READ)
        return who

    def _identify(self, secret: str, by_cookie: bool) -> Principal | None:
        context = self._context()
        now = context.now()
        kinds = (TokenKind.SESSION,) if by_cookie else (TokenKind.TOKEN, TokenKind.LOCAL)
        with context.db.read() as session:
            who = people.identify(session, secret, now, kinds=kinds)
        if who is not None and who.use_unnoted:
            with context.db.session() as session:
                people.touch_token(session, who.token_id, now)
        return who


def credentials(headers: Headers) -> tuple[str, bool]:
    """(secret, whether it is the session cookie); an Authorization header goes before the cookie."""
    authorization = headers.get("authorization", "")[:_MAX_HEADER]
    scheme, _, value = authorization.partition(" ")
    if authorization:
        return (value.strip(), False) if scheme.lower() == "bearer" else ("", False)
    for pair in headers.get("cookie", "")[:_MAX_HEADER].split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE:
            return value, True
    return "", False


def _no_token(had_one: bool) -> ApiError:
    message = (
        "The token is unknown, expired or revoked: make a new one, or log in again."
        if had_one
        else "A token is needed: send `Authorization: Bearer …`, or log in at /login."
    )
    return ApiError(401, "no-token", message, headers={"WWW-Authenticate": "Bearer"})


def _to_login(request: Request, refusal: ApiError) -> Response | None:
    """A browser without a session is led to the login page; None: a program, which gets the error."""
    if refusal.status_code != 401 or request.url.path.startswith("/api/"):
        return None
    if request.headers.get("hx-request"):
        return Response(status_code=401, headers={"HX-Redirect": "/login", "WWW-Authenticate": "Bearer"})
    if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?next={quote(here, safe='')}", 303)
    return None
