"""What every route works with, put together by `farm.app` and kept at `app.state.farm`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from farm.store.audit import Note
from farm.store.people import Principal

if TYPE_CHECKING:
    from farm.store.artifacts import ArtifactStore
    from farm.store.db import Database


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Context:
    """The farm behind the routes; pages get the same one."""

    db: Database  # db.bus tells what changes
    artifacts: ArtifactStore
    state: Path  # the state folder: live logs are read from `attempts/<id>/`
    now: Callable[[], datetime] = utc_now
    secure_cookies: bool = False  # True behind https


def context(request: Request) -> Context:
    return cast(Context, request.app.state.farm)


def principal(connection: HTTPConnection) -> Principal:
    """Who makes the request; the auth middleware has put it there for every route that is not public."""
    return cast(Principal, connection.state.principal)


def noted(request: Request) -> Note:
    """The audit line of a route that declared what it does (`farm.api.auth.needs`)."""
    return cast(Note, request.state.audit)


# As dependencies they are coroutines: FastAPI sends every plain function to a thread of its own.
async def _context(request: Request) -> Context:
    return context(request)


async def _principal(connection: HTTPConnection) -> Principal:
    return principal(connection)


async def _noted(request: Request) -> Note:
    return noted(request)


Farm = Annotated[Context, Depends(_context)]
Who = Annotated[Principal, Depends(_principal)]
Audit = Annotated[Note, Depends(_noted)]
