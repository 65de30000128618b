"""Selectors: which devices a run wants, in a line that a person can type.

soc=RK3568 ram_gb>=8 not virtual=true
(gpu="Mali-G715*" or backend:vulkan) android>=14 pool in (demo, ci)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from farm.domain.devices import DeviceFacts


class SelectorError(ValueError):
    """The text is no selector. `position` is the offset in the text; `suggestion` may be empty."""

    def __init__(self, message: str, position: int, suggestion: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.suggestion = suggestion


@dataclass(frozen=True, slots=True)
class FailedTerm:
    """A term that a device does not meet: what it wants, and what the device has (None: nothing)."""

    term: str
    key: str
    have: str | None


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A device that does not match, and why."""

    device: DeviceFacts
    failed: tuple[FailedTerm, ...]

    def words(self) -> str:
        """`husky-v1: soc is Tensor G3, wanted soc=RK3568`."""
        parts = [f"{f.key} is {f.have or 'unknown'}, wanted {f.term}" for f in self.failed]
        return f"{self.device.name}: {'; '.join(parts)}"


class Selector:
    """A parsed selector."""

    text: str

    def matches(self, facts: Mapping[str, str]) -> bool:
        raise NotImplementedError


def parse(text: str) -> Selector:
    """Raises SelectorError with position and suggestion."""
    raise NotImplementedError


def nearest(selector: Selector, devices: Iterable[DeviceFacts], limit: int = 5) -> list[Mismatch]:
    """The devices that fail the fewest terms, and which those are."""
    raise NotImplementedError
