"""Spans of time as people type them: `90s`, `10m`, `1h30m`, `2d`."""

from __future__ import annotations

import re

import click

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PIECE = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def seconds(text: str) -> float:
    """The span's length. Raises click.BadParameter."""
    lower = text.strip().lower()
    pieces = _PIECE.findall(lower)
    if not pieces or "".join(number + unit for number, unit in pieces) != lower or len(lower) > 40:
        raise click.BadParameter(f"{text!r} is no span of time: write it as 90s, 10m, 1h30m or 2d")
    return sum(float(number) * _UNITS[unit] for number, unit in pieces)


def span(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    """For `callback=` of an option: its text in seconds."""
    return None if text is None else seconds(text)
