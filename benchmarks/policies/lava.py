"""LAVA: every idle device, in random order, takes the first job that fits it by priority, then by time of submission.

Its rule (lava_scheduler_app/scheduler.py, `schedule_jobs_for_device_type` and `schedule_jobs_for_device`): devices
type by type, shuffled so that the load is spread; for each the jobs ordered by priority (0 to 100), submit time, id. A
job of LAVA names one device type; here any job that the device matches may be taken, which favours it. Health checks
between jobs are left out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from benchmarks.policies.queued import Queued
from farm.domain.simulation import SimDevice, SimJob

#: LAVA's own names are high, medium and low; nightly work is sent as low by its users.
PRIORITY = {"debug": 100, "pr": 50, "manual": 50, "nightly": 0}


class Lava(Queued):
    def __init__(self, devices: Sequence[SimDevice], jobs: Sequence[SimJob], seed: int = 1) -> None:
        super().__init__(devices, jobs)
        self._types = [device.facts.get("type", "") for device in devices]
        self._dice = random.Random(seed)

    def decide(self, now_s: float) -> list[tuple[int, int]]:
        made = []
        waiting = sorted(self.waiting, key=lambda n: (-PRIORITY[self.jobs[n].klass], self.jobs[n].submit_s, n))
        devices = sorted(self.free)
        self._dice.shuffle(devices)
        for device in sorted(devices, key=lambda n: self._types[n]):
            found = next((job for job in waiting if device in self.fits[job]), None)
            if found is not None:
                waiting.remove(found)
                made.append(self.give(found, device))
        return made
