"""Giving a device back as it was taken: what is there before a lease, and getting back to that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from farm.adb.device import Device


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a lease may not leave changed. JSON-able: `to_json`, `from_json`."""

    boot_id: str
    processes: Mapping[int, str]  # pid → command line, of the shell's user
    files: Mapping[str, int]  # path below /data/local/tmp → size
    settings: Mapping[str, str]  # "global/key" → value
    packages: tuple[str, ...]
    properties: Mapping[str, str]

    def to_json(self) -> dict[str, object]:
        raise NotImplementedError

    @staticmethod
    def from_json(data: Mapping[str, object]) -> Snapshot:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class CleanReport:
    """`ok`: looked at again after cleaning, and nothing in `differences` is left."""

    ok: bool
    killed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def snapshot(device: Device, timeout_s: float = 60.0) -> Snapshot:
    raise NotImplementedError


def restore(device: Device, before: Snapshot, keep: Sequence[str] = (), deadline_s: float = 60.0) -> CleanReport:
    """Undo what the lease left, then look again. `keep`: folders below /data/local/tmp that stay (the cache)."""
    raise NotImplementedError
