"""When what waits will start: the same plan, played forward with what is expected of those who hold devices now."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush

from farm.domain.devices import Availability
from farm.domain.scheduling import order
from farm.domain.scheduling.decide import decide
from farm.domain.scheduling.index import Index
from farm.domain.scheduling.values import DeviceSeen, Key, TimePassed

#: Nothing is foretold beyond this.
HORIZON = timedelta(days=7)
#: A device is cleaned and looked at between two holders for so long, seconds.
TURNAROUND_S = 5.0


def estimated_starts(
    index: Index, wanted: Collection[Key] | None = None, *, steps: int = 20_000
) -> dict[Key, datetime]:
    """When each of `wanted` (None: everything) is expected to start; who is missing cannot be foretold.

    Devices that are away or held are taken to stay so, and nothing new to arrive. `steps` bounds the work.
    """
    ahead = index.copy()
    missing = set(ahead.jobs if wanted is None else wanted) & set(ahead.jobs)
    busy = [
        (max(device.until, index.now), device.id)
        for device in ahead.fleet.devices.values()
        if device.holder is not None and device.until is not None and device.usable
    ]
    heapify(busy)
    found: dict[Key, datetime] = {}
    end = index.now + HORIZON
    for _ in range(steps):
        for grant in _decide(ahead, index, busy):
            if grant in missing:
                found[grant] = ahead.now
                missing.discard(grant)
        if not missing or not _next(ahead, busy, end):
            break
    return found


def _decide(ahead: Index, index: Index, busy: list[tuple[datetime, int]]) -> list[Key]:
    grants = decide(ahead, HORIZON * 2).grants  # nobody gives up while we look ahead
    for grant in grants:
        job = index.jobs[grant.key]
        takes = timedelta(milliseconds=order.estimate_ms(job.estimate_s)) + timedelta(seconds=TURNAROUND_S)
        heappush(busy, (ahead.now + takes, grant.device_id))
    return [grant.key for grant in grants]


def _next(ahead: Index, busy: list[tuple[datetime, int]], end: datetime) -> bool:
    """Go to the next moment at which something can change; False when there is none."""
    due = [busy[0][0]] if busy else []
    if ahead.later:
        due.append(ahead.jobs[ahead.later[0][1]].not_before or end)
    if not due or min(due) > end:
        return False
    now = min(due)
    ahead.update(TimePassed(), now)
    while busy and busy[0][0] <= now:
        device = ahead.fleet.devices[heappop(busy)[1]]
        free = replace(device, state=Availability.READY, why="ready", holder=None, accounts=(), until=None)
        ahead.update(DeviceSeen(free), now)
    return True
