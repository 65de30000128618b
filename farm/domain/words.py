"""Words that people read and that are the same everywhere: how many of what, and what time it is."""

from __future__ import annotations

from datetime import UTC, datetime


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 device`, `3 devices`; `plural` where an s is not enough."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def are(number: int) -> str:
    """`is` or `are`, for the word behind a count."""
    return "is" if number == 1 else "are"


def clock(at: datetime, now: datetime) -> str:
    """`14:05 UTC`; with its day where that is not the day of `now`: `Dec 2, 14:05 UTC`."""
    at, now = at.astimezone(UTC), now.astimezone(UTC)
    day = "" if at.date() == now.date() else f"{at:%b} {at.day}, "
    return f"{day}{at:%H:%M} UTC"
