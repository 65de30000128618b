"""The few writes that come hundreds of times a second, answered in one transaction and without the framework's way.

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
#: Requests at work at once where writers work beside each other; on SQLite they take turns anyway.
_THREADS = 16


@dataclass(frozen=True, slots=True)
class HotRoute:
    """A write of this kind. `work` does in the session what the route does: (status, JSON value), or ApiError."""

    path: re.Pattern[str]  # its one group, if any, is the id
    right: Right
    action: str
    body: type[BaseModel] | None
    work: Callable[[Session, Principal, Note, datetime, Any], tuple[int, Any]]


class Hot:
    """Answers `POST`s of the hot routes; what is not plain is handed on untouched."""

    def __init__(self, app: ASGIApp, context: Context, routes: tuple[HotRoute, ...]) -> None:
        self._app, self._context, self._routes = app, context, routes
        workers = 1 if context.db.is_sqlite else _THREADS
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="hot")
        self._known: OrderedDict[str, None] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._route(scope) if scope["type"] == "http" and scope["method"] == "POST" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        route, ident = found
        headers = Headers(scope=scope)
        secret, by_cookie = credentials(headers)
        plain = headers.get("content-type", "application/json") == "application/json"
        if by_cookie or not secret or not plain or len(secret) > people.MAX_SECRET:
            await self._app(scope, receive, send)
            return
        came, again = await _first(receive)
        asked = _read(route, ident, came)
        if asked is None:
            await self._app(scope, again, send)
            return
        client = scope.get("client")
        address = client[0] if client else "unknown"
        loop = asyncio.get_running_loop()
        try:
            made = await loop.run_in_executor(self._pool, self._work, route, secret, address, asked[0])
        except ApiError as error:
            await answer(Request(scope), error)(scope, again, send)
            return
        if made is None:
            await self._app(scope, again, send)
            return
        status, value = made
        data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        head = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": data})

    def _route(self, scope: Scope) -> tuple[HotRoute, str | None] | None:
        for route in self._routes:
            match = route.path.fullmatch(scope["path"])
            if match is not None:
                return route, match.group(1) if match.re.groups else None
        return None

    def _work(self, route: HotRoute, secret: str, address: str, asked: Any) -> tuple[int, Any] | None:
        """The answer; None: the ordinary way is to refuse it. Raises ApiError."""
        db, wanted = self._context.db, people.digest(secret)
        if wanted not in self._known:  # an unknown token never holds the writers up
            with db.read() as session:
                if self._who(session, route, secret) is None:
                    return None
            self._known[wanted] = None
            if len(self._known) > _KNOWN:
                self._known.popitem(last=False)
        with db.session() as session:
            who = self._who(session, route, secret)
            if who is None:
                self._known.pop(wanted, None)
                return None
            now = db.now(session)
            note = Note(who, route.action, address)
            made = route.work(session, who, note, now, asked)
            assert note.done, f"{route.action} is not noted"
        return made

    def _who(self, session: Session, route: HotRoute, secret: str) -> Principal | None:
        who = people.identify(session, secret, self._context.now())
        plain = who is not None and who.may(Right.READ) and who.may(route.right) and not who.use_unnoted
        return who if plain else None


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
