"""The lines that the log's collector itself writes between those of the device: gaps, boots, and how clocks compare.

    --------- farm: 2026-11-30 11:22:33 UTC TEXT

where TEXT is, among others,

    boot BOOT_ID                                 the lines that follow are of this boot
    clock +0.123 s ±0.020 s zone +0100           the device's clock minus the host's, within; the zone of its stamps
    gap: WHY                                     lines may be missing here
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

MARK = "--------- farm:"
_LINE = re.compile(rf"{MARK} (\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d) UTC (.*)")
_CLOCK = re.compile(r"clock ([+-]\d{1,12}\.\d{3}) s ±(\d{1,6}\.\d{3}) s zone ([+-])(\d\d)(\d\d)$")
_BOOT = re.compile(r"boot ([0-9a-f-]{8,64})$")


@dataclass(frozen=True, slots=True)
class Mark:
    """One of those lines. `at`: the host's clock."""

    at: datetime
    text: str

    @property
    def is_gap(self) -> bool:
        return self.text.startswith("gap: ")


@dataclass(frozen=True, slots=True)
class Clock:
    """How the device's clock stood. A stamp of its log minus `offset` (and its zone) is the host's time, ± `within`."""

    offset: timedelta
    within: timedelta
    zone: timedelta

    def host_time(self, stamp: str, year: int) -> datetime | None:
        """`11-29 22:03:11.929` of that year as the host's UTC; None: no such moment."""
        try:
            device = datetime.strptime(f"{year}-{stamp}", "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)
            return device - self.zone - self.offset
        except (ValueError, OverflowError):
            return None


def mark(line: str) -> Mark | None:
    """The collector's own line, or None."""
    found = _LINE.match(line)
    if found is None:
        return None
    try:
        return Mark(datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC), found[2])
    except ValueError:
        return None


def boot_of(line: str) -> str | None:
    """The boot that begins with this line."""
    said = mark(line)
    found = _BOOT.match(said.text) if said else None
    return found[1] if found else None


def clock_of(line: str) -> Clock | None:
    """How the clocks stood, where this line says so."""
    said = mark(line)
    found = _CLOCK.match(said.text) if said else None
    if found is None:
        return None
    zone = timedelta(hours=int(found[4]), minutes=int(found[5]))
    return Clock(
        timedelta(seconds=float(found[1])), timedelta(seconds=float(found[2])), -zone if found[3] == "-" else zone
    )


def clock_words(offset_s: float, within_s: float, zone: str) -> str:
    """What `clock_of` reads."""
    return f"clock {offset_s:+.3f} s ±{within_s:.3f} s zone {zone}"
