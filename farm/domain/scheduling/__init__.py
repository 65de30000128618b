"""Which waiting job starts on which device: a pure function of what there is.

    index, decisions = apply(index, event, now)

`apply` takes one change in and decides what follows from it; `plan` decides for everything at once. Folding events
gives what planning from scratch gives, whatever the order of the input. No clock, no I/O: `now` is handed in.

| module   | what                                                                          |
|----------|-------------------------------------------------------------------------------|
| `order`  | who comes before whom: class, share, age; why nothing starves                  |
| `index`  | everything that waits and every device, kept for quick answers                 |
| `decide` | one pass: who starts, on which device (a device wanted by few goes to those few) |
| `why`    | why something waits: place, what would satisfy it, who holds that, until when    |
| `ahead`  | when it will start: the same plan, played forward                             |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from farm.domain.scheduling.decide import GIVE_UP_AFTER, decide
from farm.domain.scheduling.index import Index
from farm.domain.scheduling.order import Flow
from farm.domain.scheduling.values import (
    Arrived,
    Decisions,
    DeviceForgotten,
    DeviceSeen,
    Event,
    GiveUp,
    Grant,
    Key,
    Left,
    PlannedDevice,
    Shares,
    SharesChanged,
    TimePassed,
    WaitingJob,
)

__all__ = [
    "Arrived", "Decisions", "DeviceForgotten", "DeviceSeen", "Event", "GiveUp", "Grant", "Index", "Key", "Left",
    "PlannedDevice", "Shares", "SharesChanged", "TimePassed", "WaitingJob", "apply", "build", "decide", "plan",
]  # fmt: skip


def apply(
    index: Index, event: Event, now: datetime, *, give_up_after: timedelta = GIVE_UP_AFTER
) -> tuple[Index, Decisions]:
    """What follows from one change. The index is handed over: use the one that comes back (`Index.copy` keeps one)."""
    index.update(event, now)
    return index, decide(index, give_up_after)


def build(
    now: datetime,
    devices: Iterable[PlannedDevice],
    waiting: Iterable[WaitingJob],
    shares: Shares | None = None,
    clocks: Mapping[Flow, int] | None = None,
) -> Index:
    """An index of everything, nothing decided yet."""
    index = Index(now, shares)
    index.clocks = dict(clocks or {})
    for device in devices:
        index.update(DeviceSeen(device), now)
    for job in waiting:
        index.update(Arrived(job), now)
    return index


def plan(
    now: datetime,
    devices: Iterable[PlannedDevice],
    waiting: Iterable[WaitingJob],
    shares: Shares | None = None,
    clocks: Mapping[Flow, int] | None = None,
    *,
    give_up_after: timedelta = GIVE_UP_AFTER,
) -> tuple[Index, Decisions]:
    """Decide for everything at once; the order of the arguments' items does not matter."""
    index = build(now, devices, waiting, shares, clocks)
    return index, decide(index, give_up_after)
