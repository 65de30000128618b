"""How often a suite was refused something: the first of each in full, and an honest count of all the others.

A suite may try for ever; the journal must not fill, and a second try must not vanish. The bound is one per kind of what
was tried (`farm.evidence.refused`): many harmless tries do not hide one of another kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from farm.evidence import refused

#: Different refusals of one class and kind that are written in full.
SPOKEN = 20

#: Class, summary, the running test: what makes two refusals the same.
Refusal = tuple[str, str, str | None]


class Refusals:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._repeats: dict[Refusal, int] = {}
        self._spoken: Counter[tuple[str, str]] = Counter()
        self._others: Counter[tuple[str, str]] = Counter()

    def is_new(self, klass: str, summary: str, test: str | None) -> bool:
        """Count one; whether it is to be written in full."""
        key = (klass, summary, test)
        if key in self._repeats:
            self._repeats[key] += 1
            return False
        what = (klass, refused.kind(klass, summary))
        if self._spoken[what] >= SPOKEN:
            self._others[what] += 1
            return False
        self._spoken[what] += 1
        self._repeats[key] = 0
        return True

    def rest(self) -> Iterator[tuple[Refusal, int]]:
        """What was counted and not written, with its number."""
        yield from ((key, count) for key, count in self._repeats.items() if count)
        for (klass, what), count in self._others.items():
            yield (klass, refused.more(count, what), None), count
