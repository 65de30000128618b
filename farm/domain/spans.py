"""Spans of time as people type them, on a page or in a command: `90s`, `10m`, `1h30m`, `2d`."""

from __future__ import annotations

import re

#: How such a span is written, for whoever wrote it otherwise.
EXAMPLES = "90s, 10m, 1h30m or 2d"
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PIECE = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_MOST = 40


def seconds(text: str) -> float:
    """The span's length. Raises ValueError, which says how a span is written."""
    lower = "".join(text.lower().split())
    pieces = _PIECE.findall(lower) if len(lower) <= _MOST else []
    if not pieces or "".join(number + unit for number, unit in pieces) != lower:
        raise ValueError(f"{text[:_MOST]!r} is no span of time: write it as {EXAMPLES}")
    return sum(float(number) * _UNITS[unit] for number, unit in pieces)
