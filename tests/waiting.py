"""Bounded waiting for tests: poll a condition, never sleep for a guessed time.

Use `eventually` wherever something becomes true by itself (a process that starts, a row that appears). The limit is
generous because it is only ever reached by a failure: a loaded machine makes a test slower, not red.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class StillWaiting(AssertionError):
    """The condition did not become true within the limit; the message tells what was seen last."""


def eventually(
    condition: Callable[[], T],
    timeout: float = 60.0,
    *,
    interval: float = 0.05,
    what: str = "",
) -> T:
    """Poll `condition` until it returns something truthy, and return that.

    An `AssertionError` or `OSError` raised by the condition counts as "not yet". After `timeout` seconds
    `StillWaiting` names the condition (or `what`) and the last value or error.
    """
    deadline = time.monotonic() + timeout
    while True:
        last: object
        try:
            value = condition()
        except (AssertionError, OSError) as error:
            last = error
        else:
            if value:
                return value
            last = value
        if time.monotonic() >= deadline:
            raise _expired(condition, timeout, what, last)
        time.sleep(interval)


async def eventually_async(
    condition: Callable[[], T | Awaitable[T]],
    timeout: float = 60.0,
    *,
    interval: float = 0.05,
    what: str = "",
) -> T:
    """`eventually` for a coroutine: the condition may be a plain function or return an awaitable."""
    deadline = time.monotonic() + timeout
    while True:
        last: object
        try:
            value = condition()
            settled = await value if isinstance(value, Awaitable) else value
        except (AssertionError, OSError) as error:
            last = error
        else:
            if settled:
                return settled
            last = settled
        if time.monotonic() >= deadline:
            raise _expired(condition, timeout, what, last)
        await asyncio.sleep(interval)


def _expired(condition: Callable[[], object], timeout: float, what: str, last: object) -> StillWaiting:
    name = what or getattr(condition, "__qualname__", repr(condition))
    error = StillWaiting(f"{name}: not so after {timeout:g} s; last seen: {last!r}")
    error.__cause__ = last if isinstance(last, BaseException) else None
    return error
