"""The few requests that come hundreds of times a second, answered in one transaction and without the framework's way.

An ASGI middleware inside the safe headers and outside authentication. It takes a request only when all is plain: a
bearer token that stands and has the scope that the route declares, a small whole body that is valid. Everything else
(a cookie, an unknown token, a missing scope, bad input) goes the ordinary way, which is the one that refuses; the
routes themselves stay what the schema and the walk over all routes see. Who asks is looked up in the very transaction
that does the work, so a revoked token does nothing here either.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fastapi import Request
from pydantic import BaseModel, ValidationError
from sqlalchemy.orm import Session
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from farm.api.auth import credentials
from farm.api.context import Context
from farm.api.errors import ApiError, answer
from farm.api.json import encode
from farm.api.lane import Lane
from farm.api.waiters import MAX_WAIT_S, Waiters
from farm.store import people
from farm.store.audit import Note
from farm.store.people import Principal
from farm.store.people import Scope as Right

#: Larger bodies go the ordinary way.
MAX_BODY = 16 * 1024
#: A body that does not come goes the ordinary way, which waits longer and says so; seconds.
BODY_S = 5.0
#: Tokens that were good lately: only they are let into a write transaction before they are looked up again.
_KNOWN = 1000
#: Requests at work at once where writers work beside each other; on SQLite they take turns (`farm.api.lane`).
_THREADS = 16
#: Those who read wait for no writer.
_READERS = 4


#: The query of a question that waits, as the command line and programs send it.
_WAIT = re.compile(rb"wait_s=([0-9]{1,3}(?:\.[0-9]{1,6})?)(&ready=true)?")


@dataclass(frozen=True, slots=True)
class HotWait:
    """A `GET` that waits: `look` finds the thing of this id (None: there is none), `waits(it, ready)` whether it is to
    be waited on."""

    path: re.Pattern[str]  # its one group is the id
    look: Callable[[Session, int], Any]
    waits: Callable[[Any, bool], bool]


@dataclass(frozen=True, slots=True)
class HotRoute:
    """A write of this kind. `work` does in the session what the route does: (status, JSON value), or ApiError."""

    path: re.Pattern[str]  # its one group, if any, is the id
    right: Right
    action: str
    body: type[BaseModel] | None
    work: Callable[[Session, Principal, Note, datetime, Any], tuple[int, Any]]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question that waits, as it came."""

    route: HotWait
    ident: int
    wait_s: float
    ready: bool


class Hot:
    """Answers the hot routes; what is not plain is handed on untouched."""

    def __init__(
        self,
        app: ASGIApp,
        context: Context,
        routes: tuple[HotRoute, ...],
        waits: tuple[HotWait, ...],
        waiters: Waiters,
    ) -> None:
        self._app, self._context, self._routes = app, context, routes
        self._waits, self._waiters = waits, waiters
        self._lane = Lane(context.db) if context.db.is_sqlite else None
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="hot")
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="hot read")
        self._known: OrderedDict[str, None] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"] if scope["type"] == "http" else ""
        if method == "POST" and (found := self._route(scope)) and (secret := _secret(scope)):
            await self._post(scope, receive, send, secret, *found)
        elif method == "GET" and (wait := self._wait(scope)) and (secret := _secret(scope)):
            if not await self._get(scope, send, secret, wait):
                await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _post(
        self, scope: Scope, receive: Receive, send: Send, secret: str, route: HotRoute, ident: str | None
    ) -> None:
        came, again = await _first(receive)
        asked = _read(route, ident, came)
        if asked is None:
            await self._app(scope, again, send)
            return
        client = scope.get("client")
        try:
            made = await self._done(route, secret, client[0] if client else "unknown", asked[0])
        except ApiError as error:
            await answer(Request(scope), error)(scope, again, send)
            return
        if made is None:
            await self._app(scope, again, send)
            return
        await _answer(send, *made)

    async def _get(self, scope: Scope, send: Send, secret: str, asked: _Asked) -> bool:
        """Whether it was answered here: there is such a thing, and the token may see it."""
        route, ident, admitted = asked.route, asked.ident, False
        loop = asyncio.get_running_loop()

        async def look() -> Any:
            nonlocal admitted
            who = None if admitted else secret  # who was let in may wait to the end
            admitted = True
            return await loop.run_in_executor(self._readers, self._look, route, who, ident)

        try:
            one = await self._waiters.settled(ident, asked.wait_s, look, lambda one: route.waits(one, asked.ready))
        except ApiError as error:
            await answer(Request(scope), error)(scope, _nothing, send)
            return True
        if one is None:
            return False
        await _answer(send, 200, encode(one))
        return True

    def _look(self, route: HotWait, secret: str | None, ident: int) -> Any:
        """The thing; None where the ordinary way is to refuse it, or to say that there is none."""
        with self._context.db.read() as session:
            if secret is not None and self._who(session, Right.READ, secret) is None:
                return None
            return route.look(session, ident)

    def _route(self, scope: Scope) -> tuple[HotRoute, str | None] | None:
        for route in self._routes:
            match = route.path.fullmatch(scope["path"])
            if match is not None:
                return route, match.group(1) if match.re.groups else None
        return None

    def _wait(self, scope: Scope) -> _Asked | None:
        for route in self._waits:
            match = route.path.fullmatch(scope["path"])
            query = _WAIT.fullmatch(scope["query_string"]) if match is not None else None
            if match is not None and query is not None and float(query[1]) <= MAX_WAIT_S:
                return _Asked(route, int(match[1]), float(query[1]), query[2] is not None)
        return None

    async def _done(self, route: HotRoute, secret: str, address: str, asked: Any) -> tuple[int, Any] | None:
        """The answer, once what it tells is committed; None: the ordinary way is to refuse it. Raises ApiError."""
        loop, wanted = asyncio.get_running_loop(), people.digest(secret)
        if wanted not in self._known:  # an unknown token never holds the writers up
            if not await loop.run_in_executor(self._readers, self._admits, route.right, secret):
                return None
            self._known[wanted] = None
            if len(self._known) > _KNOWN:
                self._known.popitem(last=False)

        def work(session: Session) -> tuple[int, Any] | None:
            return self._work(session, route, secret, address, asked)

        def alone() -> tuple[int, Any] | None:
            with self._context.db.session() as session:
                return work(session)

        made: tuple[int, Any] | None
        made = await (self._lane.run(work) if self._lane is not None else loop.run_in_executor(self._pool, alone))
        if made is None:
            self._known.pop(wanted, None)
        return made

    def _work(self, session: Session, route: HotRoute, secret: str, address: str, asked: Any) -> tuple[int, Any] | None:
        who = self._who(session, route.right, secret)
        if who is None:
            return None
        note = Note(who, route.action, address)
        made = route.work(session, who, note, self._context.db.now(session), asked)
        assert note.done, f"{route.action} is not noted"
        return made

    def _admits(self, right: Right, secret: str) -> bool:
        with self._context.db.read() as session:
            return self._who(session, right, secret) is not None

    def _who(self, session: Session, right: Right, secret: str) -> Principal | None:
        who = people.identify(session, secret, self._context.now())
        plain = who is not None and who.may(Right.READ) and who.may(right) and not who.use_unnoted
        return who if plain else None


def _secret(scope: Scope) -> str | None:
    """The bearer token of a plain request; None: it goes the ordinary way."""
    headers = Headers(scope=scope)
    secret, by_cookie = credentials(headers)
    plain = headers.get("content-type", "application/json") == "application/json"
    return None if by_cookie or not secret or not plain or len(secret) > people.MAX_SECRET else secret


async def _answer(send: Send, status: int, value: Any) -> None:
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": data})


async def _nothing() -> Message:
    """A `receive` for an answer that asks for no body."""
    return {"type": "http.request", "body": b"", "more_body": False}


async def _first(receive: Receive) -> tuple[Message | None, Receive]:
    """The first piece of the body, and a `receive` that gives it (again) and what follows."""
    message: Message | None = None
    task = asyncio.ensure_future(receive())
    done, _ = await asyncio.wait({task}, timeout=BODY_S)
    if done:
        message = task.result()
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return await task

    return message, again


def _read(route: HotRoute, ident: str | None, came: Message | None) -> tuple[Any] | None:
    """What is asked for, in a tuple; None where that is not plain to see."""
    if came is None or came["type"] != "http.request" or came.get("more_body", False):
        return None
    body = came.get("body", b"")
    if len(body) > MAX_BODY:
        return None
    if route.body is None:
        return (int(ident),) if ident is not None and len(ident) <= 18 and int(ident) >= 1 else None
    try:
        json.loads(body)  # as strict about JSON as the ordinary way is
        return (route.body.model_validate_json(body),)
    except (ValidationError, ValueError, RecursionError):
        return None
