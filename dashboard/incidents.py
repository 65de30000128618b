"""Incidents for reading: what happened alike to several tests of an attempt is told once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from farm.store.reads.shared import IncidentRow


@dataclass(frozen=True, slots=True)
class IncidentGroup:
    """The first of them in time, and all of them with their own evidence."""

    first: IncidentRow
    all: tuple[IncidentRow, ...]

    @property
    def tests(self) -> tuple[str, ...]:
        """Those to which it happened, each once."""
        return tuple(dict.fromkeys(row.test_id for row in self.all if row.test_id))

    @property
    def count(self) -> int:
        """How often it happened."""
        return sum(row.count for row in self.all)


def groups(rows: Iterable[IncidentRow]) -> list[IncidentGroup]:
    """Same attempt, device, class and words: one group, in the order of its first."""
    found: dict[tuple[object, ...], list[IncidentRow]] = {}
    for row in rows:
        found.setdefault((row.attempt_id, row.device.id, row.klass, row.summary), []).append(row)
    return [IncidentGroup(alike[0], tuple(alike)) for alike in found.values()]
