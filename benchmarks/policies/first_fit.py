"""First come, first fit: in order of arrival, each job takes the first free device that matches; later ones go on."""

from __future__ import annotations

from benchmarks.policies.queued import Queued


class FirstFit(Queued):
    def decide(self, now_s: float) -> list[tuple[int, int]]:
        made = []
        for job in sorted(self.waiting, key=lambda n: (self.jobs[n].submit_s, n)):
            if not self.free:
                break
            found = self.fits[job] & self.free
            if found:
                made.append(self.give(job, min(found)))
        return made
