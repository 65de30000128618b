"""Figures and times as a person reads them. Unknown is a word, never a dash or a zero.

A figure and its unit stand a narrow no-break space apart; changes and spreads carry their sign.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

NOT_MEASURED = "not measured"
THIN = "\u202f"
MINUS = "\u2212"


def figure(value: float) -> str:
    """Three significant digits, more only for whole numbers: 0.0412, 3.91, 21.4, 412, 11\u202f600."""
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return NOT_MEASURED
    size = math.floor(math.log10(abs(value)))
    digits = max(0, 2 - size)
    if digits > 6:
        text = f"{value:.2e}"
    else:
        text = f"{round(value, 2 - size if size < 2 else 0):,.{digits}f}".replace(",", THIN)
    return text.replace("-", MINUS)


def quantity(value: float | None, unit: str) -> str:
    """`21.4 tok/s`; "not measured" without a value."""
    if value is None or not math.isfinite(value):
        return NOT_MEASURED
    return f"{figure(value)}{THIN}{unit}" if unit else figure(value)


def between(low: float, high: float, unit: str) -> str:
    """A range with its unit once: `0.07 to 1.53 tasks`.

    Both ends have the decimals that the larger one needs for three digits, and up to three more to tell them apart.
    """
    largest = max(abs(low), abs(high))
    decimals = 2 - math.floor(math.log10(largest)) if largest else 0
    if decimals > 6:
        return f"{figure(low)} to {quantity(high, unit)}"
    for more in range(4):
        ends = [f"{end:,.{max(0, decimals) + more}f}" for end in (low, high)]
        if low == high or ends[0] != ends[1]:
            break
    text = " to ".join(end.replace(",", THIN).replace("-", MINUS) for end in ends)
    return f"{text}{THIN}{unit}" if unit else text


def celsius(value: float | None) -> str:
    """`41.2 °C`: always one decimal, so that a live figure does not jump."""
    return NOT_MEASURED if value is None else f"{value:.1f}{THIN}°C".replace("-", MINUS)


def percent(value: float | None) -> str:
    """A share of 1 as `66 %`, below ten with one decimal: `3.7 %`."""
    if value is None:
        return NOT_MEASURED
    share = value * 100
    return f"{share:.1f}{THIN}%" if abs(share) < 9.95 else f"{round(share)}{THIN}%"


def size(count: int) -> str:
    """Bytes in decimal units: `34.5 MB`."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{figure(value)}{THIN}{unit}"


def duration(seconds: float | None) -> str:
    """`41 ms`, `2.3 s`, `38 s`, `2 min 14 s`, `1 h 5 min`, `3 d 4 h`."""
    if seconds is None:
        return NOT_MEASURED
    seconds = max(0.0, seconds)
    if 0 < seconds < 0.9995:
        ms = seconds * 1000
        return f"{ms:.2g}{THIN}ms" if ms < 9.95 else f"{round(ms)}{THIN}ms"
    if seconds < 59.5:
        return f"{seconds:.1f}{THIN}s" if 0 < seconds < 9.95 else f"{round(seconds)}{THIN}s"
    whole = round(seconds)
    for unit, length, below, part in (("min", 60, "s", 1), ("h", 3600, "min", 60), ("d", 86400, "h", 3600)):
        if whole < length * {"min": 60, "h": 24, "d": math.inf}[unit]:
            rest = (whole % length) // part
            return f"{whole // length}{THIN}{unit}" + (f" {rest}{THIN}{below}" if rest else "")
    raise AssertionError("unreachable: days have no end")


def ago(at: datetime, now: datetime) -> str:
    """`just now`, `12 s ago`, `3 min ago`, `in 2 h`: the largest unit alone."""
    seconds = (now - at).total_seconds()
    size_ = abs(seconds)
    if size_ < 2:
        return "just now"
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if size_ >= length:
            text = f"{int(size_ // length)}{THIN}{unit}"
            return f"{text} ago" if seconds > 0 else f"in {text}"
    return "just now"


def exact(at: datetime) -> str:
    """`2026-11-29 14:02:11 UTC`."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def iso(at: datetime) -> str:
    """For the `datetime` attribute."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds")
