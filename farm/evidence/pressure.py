"""Was a machine busy with other things? Pressure stall information and idle time, between two readings.

`/proc/pressure/cpu` (Linux 4.20 and newer):

    some avg10=0.00 avg60=0.12 avg300=0.05 total=9159455

`total` counts microseconds in which at least one task was ready to run and did not. A task that its control group's
quota holds back counts too (the kernel cannot tell), so that pressure alone proves nothing where CPU quotas are used:
only together with a machine that had no idle time left does it say that others were in the way.

`/proc/stat`, first line: ticks spent in user, nice, system, idle, iowait, irq, softirq, steal, … by all CPUs together.
"""

from __future__ import annotations

import re

_CPU = re.compile(r"^cpu +((?:\d+ ?){4,10})", re.MULTILINE)
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


def fair_s(seconds: float, stalled_s: float | None, stretch: float) -> float:
    """How much of a limit `seconds` have used up when somebody waited for a CPU in `stalled_s` of them.

    A second of waiting counts for a part of one, so that a limit lasts at most `stretch` times as long; unknown: fully.
    """
    stalled = min(max(0.0, stalled_s or 0.0), seconds)
    return seconds - stalled * (1 - 1 / stretch)


def ticks(stat: str) -> tuple[int, int] | None:
    """(idle, all) ticks of all CPUs since boot, from `/proc/stat`; waiting for the disk counts as idle."""
    match = _CPU.search(stat[:4096])
    if match is None:
        return None
    fields = [int(field) for field in match[1].split()[:8]]
    return fields[3] + (fields[4] if len(fields) > 4 else 0), sum(fields)


def idle_share(before: tuple[int, int] | None, after: tuple[int, int] | None) -> float | None:
    """Share of the CPUs' time that was idle between two readings; None when it is not known."""
    if before is None or after is None or after[1] <= before[1]:
        return None
    return max(0.0, min(1.0, (after[0] - before[0]) / (after[1] - before[1])))
