"""What the pages are given: nothing here is made by the pages themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from fastapi.params import Depends
from starlette.requests import Request

if TYPE_CHECKING:
    from farm.store.audit import Note
    from farm.store.db import Database
    from farm.store.people import Principal, Scope


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks. `scopes`: read, submit, reserve, operate, admin."""

    name: str
    team: str
    scopes: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A piece of a log from byte `offset`; ask for `next_offset` next. `live`: more may come."""

    text: str
    offset: int
    next_offset: int
    live: bool


class LogReader(Protocol):
    """Reads at most `limit` bytes of an attempt's log ("runner" or "logcat"); a negative offset counts from its end.

    None when there is no such log (yet).
    """

    def __call__(self, attempt_id: int, which: str, offset: int, limit: int) -> LogChunk | None: ...


class Needs(Protocol):
    """Declares what a route wants and does: a dependency that lets nobody else through and opens the audit line."""

    def __call__(self, scope: Scope, action: str | None = None) -> Depends: ...


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Context:
    """Handed to `dashboard.pages.router`.

    `viewer` tells who makes a request by its session cookie or token, None for nobody; the pages then send a person to
    /login and answer 401 to everything else. Every route that writes declares itself with `needs`; `note` is then the
    audit line of its request, and `principal` who makes it.
    """

    db: Database
    viewer: Callable[[Request], Viewer | None]
    read_log: LogReader
    clock: Callable[[], datetime] = utc_now
    version: str = ""
    _: KW_ONLY
    needs: Needs
    principal: Callable[[Request], Principal]
    note: Callable[[Request], Note]
    provider: str | None = None  # the identity provider that people may log in through, by its name
