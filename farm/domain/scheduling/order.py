"""Who comes before whom: class, then the team's share, then age; and nothing waits for ever.

Every waiting job has a *claim*, a moment in time; the earliest claim comes first:

    claim = min(max(queued, clock), queued + patience) + handicap + flexibility

- `handicap` is what the class costs: a nightly job counts as having come so many hours later than it did that the
  nightly work is overtaken all evening and done by the morning.
- `clock` is the *share clock* of the team's work of this class (start-time fair queueing: Goyal, Vin, Cheng 1996).
  A grant moves it on by the job's expected time divided by what the team is entitled to, so a team that floods the
  queue is served at its share's rate while others wait, and a team that was idle saves nothing up. A clock that lies
  behind real time is forgotten by itself.
- `patience` bounds what the share can cost: beyond it only age counts. So a claim never moves past a fixed moment;
  what arrives after that moment cannot overtake, hence nothing starves.
- A nightly job of an hour counts as having been `queued` some hours before one of a minute (`LENGTH`): with the long
  ones out of the way the short ones fill the gaps, and all devices are done at about the same time. Bounded as well.
- `flexibility` lets those go first who can run on few devices only: a job that fits the whole farm comes up to so much
  later. It, too, is bounded.

Times are whole milliseconds since the epoch, so that sums do not depend on their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from farm.domain.jobs import HANDICAP_S

#: What a class that is not known counts as.
_OTHER = "manual"
#: How far a team's own use can push a job of the class back, seconds.
PATIENCE_S = {"debug": 2 * 3600.0, "pr": 8 * 3600.0, "manual": 24 * 3600.0, "nightly": 48 * 3600.0}
#: How much later a job that fits every device counts than one that fits a single one, seconds.
FLEXIBILITY_S = {"debug": 60.0, "pr": 600.0, "manual": 3600.0, "nightly": 4 * 3600.0}
#: How much earlier a job counts as queued, per second of its expected time (of at most `LENGTH_LIMIT_S`). All of it
#: must stay well below the class's handicap: a long nightly job is still a nightly job.
LENGTH = {"debug": 0, "pr": 0, "manual": 0, "nightly": 8}
LENGTH_LIMIT_S = 3600.0
#: How a team's share is divided between its classes while several of them wait.
CLASS_WEIGHT = {"debug": 8.0, "pr": 4.0, "manual": 2.0, "nightly": 1.0}
#: Expected time of a job of which nothing is known, seconds.
UNKNOWN_S = 300.0

#: A team's work of one class.
Flow = tuple[str, str]


def ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


class _Ms(dict[str, int]):
    """A class's figure in milliseconds."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        super().__init__({klass: int(value * 1000) for klass, value in seconds.items()})

    def __missing__(self, _klass: str) -> int:
        return self[_OTHER]


_HANDICAP, _PATIENCE, _FLEXIBILITY = _Ms(HANDICAP_S), _Ms(PATIENCE_S), _Ms(FLEXIBILITY_S)


def flexibility_ms(klass: str, fits: int, usable: int) -> int:
    """For a job that fits `fits` of the farm's `usable` devices."""
    return 0 if usable <= 1 else _FLEXIBILITY[klass] * max(0, min(fits, usable) - 1) // (usable - 1)


def estimate_ms(estimate_s: float | None) -> int:
    return max(1, int((UNKNOWN_S if estimate_s is None else estimate_s) * 1000))


def queued_ms(klass: str, queued_at: datetime, estimate_s: float | None) -> int:
    """Since when a job counts as queued, which is also its place among its like."""
    length = LENGTH.get(klass, 0)
    if length == 0:
        return ms(queued_at)
    expected = LENGTH_LIMIT_S if estimate_s is None else min(estimate_s, LENGTH_LIMIT_S)  # not known: it may be long
    return ms(queued_at) - int(length * expected * 1000)


def entitlements(flows: Iterable[Flow], weights: Mapping[str, float]) -> dict[Flow, float]:
    """Flow -> its part of the farm (they add up to 1), where exactly these flows wait."""
    waiting = sorted(set(flows))
    teams = {team: max(1e-6, weights.get(team, 1.0)) for team, _ in waiting}
    total = sum(teams.values())
    classes = {team: sum(CLASS_WEIGHT.get(k, CLASS_WEIGHT[_OTHER]) for t, k in waiting if t == team) for team in teams}
    return {(t, k): teams[t] / total * CLASS_WEIGHT.get(k, CLASS_WEIGHT[_OTHER]) / classes[t] for t, k in waiting}


def claim_ms(queued: int, clock: int, klass: str) -> int:
    """The claim without flexibility."""
    return min(max(queued, clock), queued + _PATIENCE[klass]) + _HANDICAP[klass]


def moved_clock(clock: int, queued: int, cost: int, entitled: float, devices: int) -> int:
    """The share clock after a grant of `cost` ms to a flow that is entitled to this part of `devices` devices."""
    return max(clock, queued) + int(cost / (entitled * max(1, devices)))


def clocks_of(
    history: Iterable[tuple[datetime, Flow, datetime, float]],
    weights: Mapping[str, float],
    devices: int,
    now: datetime,
    reach: timedelta = timedelta(hours=24),
) -> dict[Flow, int]:
    """The share clocks as past grants leave them; history: (granted, flow, queued, seconds of device time).

    Who else waited then is not known any more: the entitlement is taken between those who were granted something.
    """
    recent = sorted(entry for entry in history if entry[0] >= now - reach)
    entitled = entitlements((flow for _, flow, _, _ in recent), weights)
    clocks: dict[Flow, int] = {}
    for _, flow, queued, seconds in recent:
        since = queued_ms(flow[1], queued, seconds)
        clocks[flow] = moved_clock(clocks.get(flow, 0), since, estimate_ms(seconds), entitled[flow], devices)
    return clocks
