"""The clockwork of a simulation: jobs come, devices finish and fail, and at each moment the policy is asked once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from heapq import heapify, heappop, heappush

from farm.domain.simulation.policy import Policy
from farm.domain.simulation.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Ran:
    """A job on a device, seconds from the start. Cut off by a failure, it is not in the schedule but in `lost`."""

    job: int
    device: int
    start_s: float
    end_s: float


class _Kind(IntEnum):
    """What happens at one moment happens in this order: who is done has made it, even if the device fails just then."""

    DONE = 0
    BACK = 1
    FAILS = 2
    COMES = 3


#: (when, what, job or device, number of the run that is done)
_Event = tuple[float, _Kind, int, int]


def simulate(
    scenario: Scenario, policy: Policy, *, progress: Callable[[int], None] | None = None
) -> tuple[list[Ran], list[Ran]]:
    """Play the scenario through: (what came to its end, what failures cut off), each in order of time.

    Raises RuntimeError when jobs are left that the policy never starts.
    """
    return _Play(scenario, policy, progress).run()


class _Play:
    def __init__(self, scenario: Scenario, policy: Policy, progress: Callable[[int], None] | None) -> None:
        self._scenario, self._policy, self._progress = scenario, policy, progress
        number = {device.name: n for n, device in enumerate(scenario.devices)}
        self._events: list[_Event] = [(job.submit_s, _Kind.COMES, n, 0) for n, job in enumerate(scenario.jobs)]
        for failure in (f for f in scenario.failures if f.for_s > 0):
            device = number[failure.device]
            self._events.append((failure.at_s, _Kind.FAILS, device, 0))
            self._events.append((failure.at_s + failure.for_s, _Kind.BACK, device, 0))
        heapify(self._events)
        self._down = [0] * len(scenario.devices)  # failures that last
        self._running: dict[int, tuple[Ran, int]] = {}  # device -> what runs, and its number
        self._avoid: dict[int, frozenset[int]] = {}
        self._runs = 0
        self._done: list[Ran] = []
        self._lost: list[Ran] = []

    def run(self) -> tuple[list[Ran], list[Ran]]:
        while self._events:
            now = self._events[0][0]
            while self._events and self._events[0][0] == now:
                self._happens(heappop(self._events))
            for job, device in self._policy.decide(now):
                self._start(now, job, device)
        if len(self._done) != len(self._scenario.jobs):
            raise RuntimeError(f"{len(self._scenario.jobs) - len(self._done)} jobs were never started")
        return sorted(self._done, key=_by_start), self._lost

    def _happens(self, event: _Event) -> None:
        now, kind, what, number = event
        if kind is _Kind.COMES:
            self._policy.arrives(now, what, frozenset())
        elif kind is _Kind.DONE:
            if what in self._running and self._running[what][1] == number:
                self._done.append(self._running.pop(what)[0])
                self._policy.is_free(now, what)
                if self._progress is not None:
                    self._progress(len(self._done))
        elif kind is _Kind.FAILS:
            self._down[what] += 1
            if self._down[what] == 1:
                self._policy.is_away(now, what)
                self._cut_off(now, what)
        else:
            self._down[what] -= 1
            if self._down[what] == 0:
                self._policy.is_free(now, what)

    def _start(self, now: float, job: int, device: int) -> None:
        if device in self._running or self._down[device]:
            raise RuntimeError(f"the policy gave out device {device}, which is not free")
        self._runs += 1
        ran = Ran(job, device, now, now + self._scenario.jobs[job].duration_s)
        self._running[device] = (ran, self._runs)
        heappush(self._events, (ran.end_s, _Kind.DONE, device, self._runs))

    def _cut_off(self, now: float, device: int) -> None:
        if device not in self._running:
            return
        ran, _ = self._running.pop(device)
        self._lost.append(Ran(ran.job, device, ran.start_s, now))
        self._avoid[ran.job] = self._avoid.get(ran.job, frozenset()) | {device}
        self._policy.arrives(now, ran.job, self._avoid[ran.job])


def _by_start(ran: Ran) -> tuple[float, int]:
    return ran.start_s, ran.job
