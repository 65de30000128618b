"""Which waiting job starts on which device: one pure function of what there is.

Order is by arrival, a class's handicap added (`HANDICAP_S`): a debug job overtakes a nightly one of the last two hours
and never an older one, so nothing starves. In that order every job takes, of the ready devices that it matches, the
one that the fewest others want; among equals the one that has the bundle already, the coolest, the one with the fewest
recent infrastructure errors. A job that failed on a device keeps away from it while another usable one matches.

Whatever waits says why, at which place, and for what. The words hold no clock, so that they change when the reason
does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from farm.domain.devices import Availability, DeviceFacts, availability
from farm.domain.jobs import HANDICAP_S
from farm.domain.selectors import Selector

#: A device in one of these states is not worth waiting for when another one matches.
_UNUSABLE = frozenset({Availability.GONE, Availability.STALE, Availability.QUARANTINED, Availability.MAINTENANCE})


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that waits for a device. `pinned`: the one device of a matrix; `wants`: selectors that all must match."""

    id: int
    klass: str
    queued_at: datetime
    wants: tuple[Selector, ...]
    pinned: int | None = None
    avoid: frozenset[int] = frozenset()
    not_before: datetime | None = None
    bundle: str | None = None
    lost_at: datetime | None = None  # a retry: when its last attempt ended

    def order(self) -> tuple[datetime, datetime, int]:
        return (self.queued_at + timedelta(seconds=HANDICAP_S.get(self.klass, 600.0)), self.queued_at, self.id)

    def matches(self, device: DeviceFacts) -> bool:
        if self.pinned is not None:
            return device.id == self.pinned
        facts = device.facts()
        return all(selector.matches(facts) for selector in self.wants)


@dataclass(frozen=True, slots=True)
class Grant:
    job_id: int
    device_id: int


@dataclass(frozen=True, slots=True)
class Wait:
    """A job that waits on, at place `position` (from 1) of everything that waits."""

    job_id: int
    position: int
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """A retry whose device did not come back in time."""

    job_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    grants: tuple[Grant, ...]
    waits: tuple[Wait, ...]
    give_ups: tuple[GiveUp, ...]


def plan(
    now: datetime,
    devices: Iterable[DeviceFacts],
    waiting: Iterable[WaitingJob],
    *,
    give_up_after: timedelta = timedelta(minutes=2),
) -> Plan:
    """Decide for everything at once; the order of the arguments' items does not matter.

    Open leases stand in `DeviceFacts.lease_holder`. A device is granted at most once and only when it is ready.
    """
    known = sorted(devices, key=lambda d: d.id)
    states = {d.id: availability(d, now) for d in known}
    jobs = sorted(waiting, key=WaitingJob.order)
    fits = {job.id: _worth_waiting_for(job, [d for d in known if job.matches(d)], states) for job in jobs}
    free = {d.id for d in known if states[d.id][0] is Availability.READY}
    demand = Counter(d.id for found in fits.values() for d in found)
    grants: list[Grant] = []
    waits: list[Wait] = []
    give_ups: list[GiveUp] = []
    taken: dict[int, int] = {}
    for job in jobs:
        found = fits[job.id]
        choice = None if _too_early(job, now) else _choose(job, [d for d in found if d.id in free], demand)
        if choice is not None:
            grants.append(Grant(job.id, choice.id))
            free.discard(choice.id)
            taken[choice.id] = job.id
        elif _gives_up(job, found, states, now, give_up_after):
            give_ups.append(GiveUp(job.id, _gone_words(found, give_up_after)))
        else:
            waits.append(Wait(job.id, len(waits) + 1, ""))
    return Plan(tuple(grants), _with_reasons(waits, jobs, fits, states, taken, now), tuple(give_ups))


_States = dict[int, tuple[Availability, str]]


def _worth_waiting_for(job: WaitingJob, found: list[DeviceFacts], states: _States) -> list[DeviceFacts]:
    others = [d for d in found if d.id not in job.avoid]
    return others if any(states[d.id][0] not in _UNUSABLE for d in others) else found


def _too_early(job: WaitingJob, now: datetime) -> bool:
    return job.not_before is not None and now < job.not_before


def _choose(job: WaitingJob, ready: Sequence[DeviceFacts], demand: Counter[int]) -> DeviceFacts | None:
    def cost(device: DeviceFacts) -> tuple[bool, int, bool, float, int, int]:
        heat = device.readiness.temperature_c
        return (
            device.id in job.avoid,
            demand[device.id],
            job.bundle is None or device.last_bundle != job.bundle,
            30.0 if heat is None else heat,  # not measured: neither hot nor cold
            device.infra_errors,
            device.id,
        )

    return min(ready, key=cost, default=None)


def _gives_up(job: WaitingJob, found: Sequence[DeviceFacts], states: _States, now: datetime, after: timedelta) -> bool:
    if job.lost_at is None or now - job.lost_at < after:
        return False
    return all(states[d.id][0] in _UNUSABLE for d in found)


def _gone_words(found: Sequence[DeviceFacts], after: timedelta) -> str:
    names = ", ".join(d.name for d in found[:3]) or "no matching device"
    return f"{names} did not come back within {after.total_seconds():g} s"


def _with_reasons(
    waits: Sequence[Wait],
    jobs: Sequence[WaitingJob],
    fits: dict[int, list[DeviceFacts]],
    states: _States,
    taken: dict[int, int],
    now: datetime,
) -> tuple[Wait, ...]:
    by_id = {job.id: job for job in jobs}
    made = []
    for w in waits:
        job = by_id[w.job_id]
        why = "waits a moment before it is tried again" if _too_early(job, now) else None
        why = _no_device_words(job) if not fits[job.id] else why or _busy_words(fits[job.id], states, taken)
        made.append(Wait(w.job_id, w.position, f"position {w.position} of {len(waits)}: {why}"))
    return tuple(made)


def _no_device_words(job: WaitingJob) -> str:
    if job.pinned is not None:
        return "its device is not known any more"
    return f"no device matches {' '.join(s.text for s in job.wants if s.text.strip() not in ('', '*')) or '*'}"


def _busy_words(found: Sequence[DeviceFacts], states: _States, taken: dict[int, int]) -> str:
    words = []
    for device in found[:3]:
        if device.id in taken:
            words.append(f"{device.name} was just given to job {taken[device.id]}")
        else:
            state, why = states[device.id]
            words.append(f"{device.name} is {state.value}" + (f" ({why})" if why and why != state.value else ""))
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return "; ".join(words) + more
