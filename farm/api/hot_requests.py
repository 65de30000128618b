"""What is plain enough to be answered at once (`farm.api.hot`): the routes, and how their requests are read."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ValidationError
from sqlalchemy.orm import Session
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

from farm.api.auth import credentials
from farm.api.waiters import MAX_WAIT_S
from farm.store import people
from farm.store.audit import Note
from farm.store.people import Principal
from farm.store.people import Scope as Right

#: Larger bodies go the ordinary way.
MAX_BODY = 16 * 1024
#: A body that does not come goes the ordinary way, which waits longer and says so; seconds.
BODY_S = 5.0
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
class Asked:
    """A question that waits, as it came."""

    route: HotWait
    ident: int
    wait_s: float
    ready: bool


def route_of(routes: Iterable[HotRoute], scope: Scope) -> tuple[HotRoute, str | None] | None:
    """(the write that a path asks for, the id in it)."""
    for route in routes:
        match = route.path.fullmatch(scope["path"])
        if match is not None:
            return route, match.group(1) if match.re.groups else None
    return None


def wait_of(routes: Iterable[HotWait], scope: Scope) -> Asked | None:
    """The question that waits, where path and query are one."""
    for route in routes:
        match = route.path.fullmatch(scope["path"])
        query = _WAIT.fullmatch(scope["query_string"]) if match is not None else None
        if match is not None and query is not None and float(query[1]) <= MAX_WAIT_S:
            return Asked(route, int(match[1]), float(query[1]), query[2] is not None)
    return None


def secret_of(scope: Scope) -> str | None:
    """The bearer token of a plain request; None: it goes the ordinary way."""
    headers = Headers(scope=scope)
    secret, by_cookie = credentials(headers)
    plain = headers.get("content-type", "application/json") == "application/json"
    return None if by_cookie or not secret or not plain or len(secret) > people.MAX_SECRET else secret


async def first_piece(receive: Receive) -> tuple[Message | None, Receive]:
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


def read_body(route: HotRoute, ident: str | None, came: Message | None) -> tuple[Any] | None:
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
