"""How often something happens, with how sure that is.

The interval is Wilson's score interval (Wilson, 1927; Brown, Cai and DasGupta, 2001, recommend it for small counts): it
stays within 0 and 1 and is honest where nothing happened yet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Two-sided 95 %.
Z = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Rate:
    """`hits` of `total`. Every figure is None where nothing was counted: not measured, never 0."""

    hits: int
    total: int

    def __post_init__(self) -> None:
        if not 0 <= self.hits <= self.total:
            raise ValueError(f"{self.hits} of {self.total} is no share")

    @property
    def value(self) -> float | None:
        return self.hits / self.total if self.total else None

    @property
    def low(self) -> float | None:
        """The lower end of the 95 % interval."""
        return self._end(-1)

    @property
    def high(self) -> float | None:
        """The upper end of the 95 % interval."""
        return self._end(1)

    def _end(self, sign: int) -> float | None:
        if not self.total:
            return None
        n, share = self.total, self.hits / self.total
        middle = share + Z * Z / (2 * n)
        reach = Z * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
        return min(1.0, max(0.0, (middle + sign * reach) / (1 + Z * Z / n)))
