"""Pressure stall information: for how long somebody on a machine had to wait for the CPU.

`/proc/pressure/cpu` (Linux 4.20 and newer):

    some avg10=0.00 avg60=0.12 avg300=0.05 total=9159455

`total` counts microseconds in which at least one task was ready to run and did not. Between two readings its share of
the time says whether others disturbed what ran meanwhile.
"""

from __future__ import annotations

import re

_SOME = re.compile(r"^some .*\btotal=(\d+)", re.MULTILINE)


def stalled_us(text: str) -> int | None:
    """`total` of the `some` line in µs; None when the text has none."""
    match = _SOME.search(text[:4096])
    return int(match[1]) if match else None


def share(before_us: int | None, after_us: int | None, seconds: float) -> float | None:
    """Share of `seconds` in which somebody waited, 0 to 1; None when it is not known."""
    if before_us is None or after_us is None or seconds <= 0 or after_us < before_us:
        return None
    return min(1.0, (after_us - before_us) / 1e6 / seconds)
