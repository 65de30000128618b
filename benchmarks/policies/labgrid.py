"""labgrid's coordinator: reservations meet free places so that those go first whom the fewest reservations want.

Its rule (labgrid/remote/scheduler.py, `schedule_step` and `schedule_overlaps`): for every free place the reservations
whose filters it meets are listed, by priority and then age; each place with the shortest such list takes the first of
its list; repeat until nothing is found. A reservation has a numeric priority: here the class.
"""

from __future__ import annotations

from benchmarks.policies.queued import Queued

PRIORITY = {"debug": 3, "pr": 2, "manual": 1, "nightly": 0}


class Labgrid(Queued):
    def decide(self, now_s: float) -> list[tuple[int, int]]:
        made: list[tuple[int, int]] = []
        while step := self._step():
            made += step
        return made

    def _step(self) -> list[tuple[int, int]]:
        if not self.free:
            return []
        waiting = sorted(self.waiting, key=self._order)
        interest: dict[int, list[int]] = {}
        for job in waiting:
            for device in self.fits[job] & self.free:
                interest.setdefault(device, []).append(job)
        if not interest:
            return []
        fewest = min(len(wanted) for wanted in interest.values())
        taken: set[int] = set()
        made = []
        for device in sorted(interest):
            if len(interest[device]) == fewest and interest[device][0] not in taken:
                taken.add(interest[device][0])
                made.append(self.give(interest[device][0], device))
        return made

    def _order(self, job: int) -> tuple[int, float, int]:
        return -PRIORITY[self.jobs[job].klass], self.jobs[job].submit_s, job
