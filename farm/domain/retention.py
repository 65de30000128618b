"""How long series are kept: all of them while somebody may look, and those that verdicts read for as long as they may.

A verdict compares runs of weeks ago with those of today, and believes a figure only if the device was not throttled
meanwhile: it asks for the temperature and for clocks and their caps, and for nothing else.
"""

from __future__ import annotations

from datetime import datetime, timedelta

#: Every series is kept so long after it ended…
ALL_FOR = timedelta(days=30)
#: …and those that the gates of a verdict read so long.
GATES_FOR = timedelta(days=365)
#: Those: one by its own name, and groups (`cpu_cap/policy0`) by the name before the `/`.
GATED, GATED_GROUPS = ("temperature",), ("cpu_cap", "cpu_clock", "cooling")


def series_cutoffs(now: datetime) -> tuple[datetime, datetime]:
    """(all series that ended before, also those of the gates that ended before) are let go."""
    return now - ALL_FOR, now - GATES_FOR
