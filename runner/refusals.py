"""How often a suite was refused something: the first of each in full, and an honest count of all the others.

A suite may try for ever; the journal must not fill, and a second try must not vanish.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

#: Different refusals of one class that are written in full.
SPOKEN = 20

#: Class, summary, the running test: what makes two refusals the same.
Refusal = tuple[str, str, str | None]


class Refusals:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._repeats: dict[Refusal, int] = {}
        self._spoken: Counter[str] = Counter()
        self._others: Counter[str] = Counter()

    def is_new(self, klass: str, summary: str, test: str | None) -> bool:
        """Count one; whether it is to be written in full."""
        key = (klass, summary, test)
        if key in self._repeats:
            self._repeats[key] += 1
            return False
        if self._spoken[klass] >= SPOKEN:
            self._others[klass] += 1
            return False
        self._spoken[klass] += 1
        self._repeats[key] = 0
        return True

    def rest(self) -> Iterator[tuple[Refusal, int]]:
        """What was counted and not written, with its number."""
        yield from ((key, count) for key, count in self._repeats.items() if count)
        for klass, count in self._others.items():
            yield (klass, f"{count} more like these", None), count
