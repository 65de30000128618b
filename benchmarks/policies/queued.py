"""What the reference policies share: who waits, which devices are free, which device each job may have."""

from __future__ import annotations

from collections.abc import Sequence

from farm.domain.simulation import SimDevice, SimJob


class Queued:
    """Base of the reference policies; each adds `decide`."""

    def __init__(self, devices: Sequence[SimDevice], jobs: Sequence[SimJob]) -> None:
        self.jobs = jobs
        self.waiting: list[int] = []
        self.free: set[int] = set(range(len(devices)))
        by_text: dict[str, frozenset[int]] = {}
        for job in jobs:
            if job.selector.text not in by_text:
                fits = frozenset(n for n, d in enumerate(devices) if job.selector.matches(d.facts))
                by_text[job.selector.text] = fits
        self.fits = [by_text[job.selector.text] for job in jobs]

    def arrives(self, now_s: float, job: int, avoid: frozenset[int]) -> None:
        self.waiting.append(job)

    def is_free(self, now_s: float, device: int) -> None:
        self.free.add(device)

    def is_away(self, now_s: float, device: int) -> None:
        self.free.discard(device)

    def give(self, job: int, device: int) -> tuple[int, int]:
        self.waiting.remove(job)
        self.free.discard(device)
        return job, device
