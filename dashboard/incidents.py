"""Incidents for reading: what is one fault in one attempt is told once, whatever numbers and names differ in it."""

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

    @property
    def differ(self) -> bool:
        """Whether their words differ: the first's are not those of all."""
        return any(row.summary != self.first.summary for row in self.all)

    @property
    def last(self) -> IncidentRow:
        return max(self.all, key=lambda row: row.at)


def groups(rows: Iterable[IncidentRow]) -> list[IncidentGroup]:
    """Same attempt, device and class, and the same signature or, without one, the same words: one group.

    The order is that of each group's first in `rows`; within a group that of time.
    """
    found: dict[tuple[object, ...], list[IncidentRow]] = {}
    for row in rows:
        found.setdefault((row.attempt_id, row.device.id, row.klass, row.signature or row.summary), []).append(row)
    alike = [sorted(rows, key=lambda row: (row.at, row.id)) for rows in found.values()]
    return [IncidentGroup(rows[0], tuple(rows)) for rows in alike]
