"""Why something waits: its place, what would satisfy it, who holds that, and until when."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from heapq import merge

from farm.domain.devices import Availability
from farm.domain.leases import RESERVATION
from farm.domain.scheduling import order
from farm.domain.scheduling.decide import Claims
from farm.domain.scheduling.index import Group, Index, place_of
from farm.domain.scheduling.values import Key, PlannedDevice, WaitingJob
from farm.domain.words import clock, count

#: A reason names this many devices.
_NAMED = 3
#: States in which the expected end of the holder is worth telling.
_AT_WORK = (Availability.RUNNING.value, Availability.RESERVED.value)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device that would do. `until`: when its holder is expected to be done; None: nobody knows."""

    device_id: int
    name: str
    state: str
    why: str
    holder: str | None
    until: datetime | None
    avoided: bool  # this very job failed on it
    held_by: str | None = None  # its holder as people know it: user, team, run
    once: str | None = None  # what must happen before it can be had; None: it works, or its holder is waited for

    def words(self, now: datetime) -> str:
        """`d1 is running (run 12 of mia, team perf, until about 14:05 UTC)`."""
        why = "" if self.why == self.state else self.why
        if self.holder is not None and self.until is not None and self.state.startswith(_AT_WORK):
            exactly = "" if self.holder.startswith(RESERVATION) else "about "
            why = ", ".join(filter(None, (why, f"until {exactly}{clock(self.until, now)}")))
        return f"{self.name} is {self.state}" + (f" ({why})" if why else "")


@dataclass(frozen=True, slots=True)
class Why:
    """`position` of `waiting` in all; `rivals`: how many of those before it want one of the same devices."""

    position: int
    waiting: int
    rivals: int
    wants: str
    candidates: tuple[Candidate, ...]
    reason: str
    share: str | None  # what its team's use costs it; None: nothing


def in_order(index: Index) -> Iterator[WaitingJob]:
    """Everything that waits, first who comes first; what may not start yet is last."""
    claims = Claims(index)

    def queue(group: Group) -> Iterator[tuple[int, tuple[int, Key]]]:
        flexibility = claims.flexibility(group, index.fits(group))
        for n, place in enumerate(group.places):
            yield claims.of(group, flexibility, n), place

    for _, (_, key) in merge(*(queue(group) for group in index.all_groups())):
        yield index.jobs[key]
    for _, key in index.later:
        yield index.jobs[key]


def reasons(index: Index, limit: int) -> list[tuple[WaitingJob, str]]:
    """The first `limit` of those who wait, each with its reason and its place."""
    made = []
    for position, job in enumerate(in_order(index), 1):
        if position > limit:
            break
        made.append((job, _sentence(position, len(index.jobs), reason(index, job))))
    return made


def explain(index: Index, key: Key) -> Why:
    """All that there is to say about one that waits. Raises KeyError when it does not."""
    job = index.jobs[key]
    position, rivals = _position(index, job)
    return Why(
        position=position,
        waiting=len(index.jobs),
        rivals=rivals,
        wants=wants_of(index, job),
        candidates=candidates(index, job),
        reason=_sentence(position, len(index.jobs), reason(index, job)),
        share=_share(index, job),
    )


def wants_of(index: Index, job: WaitingJob) -> str:
    """What it waits for, as a selector."""
    if job.pinned is not None:
        device = index.fleet.devices.get(job.pinned)
        return f"name={device.name}" if device is not None else "a device that is not known any more"
    return " ".join(s.text for s in job.wants if s.text.strip() not in ("", "*")) or "*"


def candidates(index: Index, job: WaitingJob) -> tuple[Candidate, ...]:
    """The devices that meet its wishes: those that can soonest be had first, those that nobody can promise last."""

    def soonness(device: PlannedDevice) -> tuple[bool, bool, bool, float, int]:
        until = device.until.timestamp() if device.until is not None else 0.0
        return not device.usable, device.id in job.avoid, device.until is None and not device.idle, until, device.id

    devices = sorted(index.fleet.of(index.demand_of(job).fits), key=soonness)
    return tuple(_candidate(device, job) for device in devices)


def reason(index: Index, job: WaitingJob) -> str:
    """What keeps it, in one line, without its place."""
    found = index.fleet.of(index.fits(index.group_of(job)))
    if not found:
        if job.pinned is not None:
            return "its device is not known any more"
        return f"no device matches {wants_of(index, job)}"
    if job.not_before is not None and job.not_before > index.now:
        return "waits a moment before it is tried again" if job.lost_at is not None else "it begins later"
    limits = index.shares.limits
    for account in job.accounts:
        if account in limits and index.fleet.held[account] >= limits[account]:
            who, _, name = account.partition(":")
            return f"{who} {name} holds {index.fleet.held[account]} of {count(limits[account], 'device')}"
    return _busy_words(found, job, index.now)


def _busy_words(found: list[PlannedDevice], job: WaitingJob, now: datetime) -> str:
    words = [_candidate(device, job).words(now) for device in found[:_NAMED]]
    if len(found) == 1 and found[0].once is not None and found[0].hold is None:
        return f"{words[0]}; waits until {found[0].once}"
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return "; ".join(words) + more


def _sentence(position: int, of: int, why: str) -> str:
    return f"position {position} of {of}: {why}"


def _candidate(device: PlannedDevice, job: WaitingJob) -> Candidate:
    state, why = device.state.value, device.why
    if device.hold is not None:
        state, why = ("held", device.hold) if device.holder is None else (f"{state} and held", device.hold)
    avoided = device.id in job.avoid
    once = device.once if device.hold is None else f"it is given work again: {device.hold}"
    return Candidate(device.id, device.name, state, why, device.holder, device.until, avoided, device.held_by, once)


def _position(index: Index, job: WaitingJob) -> tuple[int, int]:
    """(its place of all, how many before it want one of its devices)."""
    claims, mine = Claims(index), index.group_of(job)
    wanted = index.fits(mine)
    here = place_of(job)
    at = bisect_left(mine.places, here)
    if at == len(mine.places) or mine.places[at] != here:  # it may not start yet
        queued = len(index.jobs) - len(index.later)
        return queued + [key for _, key in index.later].index(job.key) + 1, 0
    claim = claims.of(mine, claims.flexibility(mine, wanted), at), here
    before = rivals = 0
    for group in index.all_groups():
        fits = index.fits(group)
        flexibility = claims.flexibility(group, fits)
        ahead = bisect_left(
            range(len(group.places)),
            claim,
            key=lambda n, g=group, f=flexibility: (claims.of(g, f, n), g.places[n]),  # type: ignore[misc]
        )
        before += ahead
        rivals += ahead if fits & wanted else 0
    return before + 1, rivals


def _share(index: Index, job: WaitingJob) -> str | None:
    queued, clock = place_of(job)[0], index.clocks.get((job.team, job.klass), 0)
    behind = (order.claim_ms(queued, clock, job.klass) - order.claim_ms(queued, 0, job.klass)) / 1000
    if behind < 1 or len({team for team, _ in index.flows}) < 2:
        return None
    return f"team {job.team} has used its share of {job.klass} work: it counts as having come {behind:.0f} s later"
