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
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastapi import Request
from sqlalchemy.orm import Session
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from farm.api.context import Context
from farm.api.errors import ApiError, answer
from farm.api.hot_requests import Asked, HotRoute, HotWait, first_piece, read_body, route_of, secret_of, wait_of
from farm.api.json import encode
from farm.api.lane import Lane
from farm.api.waiters import Waiters
from farm.store import people
from farm.store.audit import Note
from farm.store.people import Principal
from farm.store.people import Scope as Right

#: Tokens that were good lately: only they are let into a write transaction before they are looked up again.
_KNOWN = 1000
#: Requests at work at once where writers work beside each other; on SQLite they take turns (`farm.api.lane`).
_THREADS = 16
#: Those who read wait for no writer.
_READERS = 4


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
        if method == "POST" and (found := route_of(self._routes, scope)) and (secret := secret_of(scope)):
            await self._post(scope, receive, send, secret, *found)
        elif method == "GET" and (wait := wait_of(self._waits, scope)) and (secret := secret_of(scope)):
            if not await self._get(scope, send, secret, wait):
                await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _post(
        self, scope: Scope, receive: Receive, send: Send, secret: str, route: HotRoute, ident: str | None
    ) -> None:
        came, again = await first_piece(receive)
        asked = read_body(route, ident, came)
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

    async def _get(self, scope: Scope, send: Send, secret: str, asked: Asked) -> bool:
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


async def _answer(send: Send, status: int, value: Any) -> None:
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": data})


async def _nothing() -> Message:
    """A `receive` for an answer that asks for no body."""
    return {"type": "http.request", "body": b"", "more_body": False}
