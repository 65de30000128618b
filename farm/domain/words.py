"""Words that people read and that are the same everywhere: how many of what, small facts, what time it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 device`, `3 devices`; `plural` where an s is not enough."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def size(count: float) -> str:
    """Bytes with the unit that fits, decimal: `43 B`, `1.5 GB`."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f} B"


def facts(detail: Mapping[str, Any]) -> str:
    """`team vision · scopes read, submit`: a line's small facts; what says nothing is left out."""
    return " · ".join(
        f"{key.replace('_', ' ')} {_plain(value)}" for key, value in detail.items() if value not in (None, "", [], {})
    )


def _plain(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(str(part) for part in value)
    return value if isinstance(value, str) else json.dumps(value)


def clock(at: datetime, now: datetime) -> str:
    """`14:05 UTC`; with its day where that is not the day of `now`: `Dec 2, 14:05 UTC`."""
    at, now = at.astimezone(UTC), now.astimezone(UTC)
    day = "" if at.date() == now.date() else f"{at:%b} {at.day}, "
    return f"{day}{at:%H:%M} UTC"
