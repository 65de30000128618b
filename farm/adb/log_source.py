"""A device as the source of a log: its boot, its clock beside ours, and its ring buffers, which are too small.

Rings of 64 to 256 KB reach back a few seconds on a busy device: what a stalled cable misses is gone. They are enlarged
while a lease's log is streamed, and given their old sizes afterwards.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field

from farm.adb.device import Device
from farm.adb.errors import AdbError

#: Wanted size of each ring. Android takes 64 KB to 256 MB, and needs the memory.
RING_BYTES = 4 << 20
_RING = re.compile(r"^(\w+): ring buffer is (\d+)\s*([KM])i?B?\b", re.M)
_CLOCK = re.compile(r"(\d{1,12}(?:\.\d+)?)\d* ([+-]\d{4}) (\d\d-\d\d \d\d:\d\d:\d\d)")
_ASK = (
    "cat /proc/sys/kernel/random/boot_id; date '+clock %s.%N %z %m-%d %H:%M:%S'; logcat -b all -g 2>/dev/null; exit 0"
)


@dataclass(frozen=True, slots=True)
class LogSource:
    """How the device stood at one moment. None: it does not say."""

    boot_id: str | None
    offset_s: float | None = None  # device's clock minus the host's
    within_s: float = 0.0
    zone: str | None = None  # of its stamps, as `+0100`
    local_time: str | None = None  # as its log stamps it, in whole seconds
    rings: dict[str, int] = field(default_factory=dict)  # buffer -> bytes


def look(device: Device) -> LogSource:
    """Ask the device, in one round trip. Raises AdbError."""
    before = time.time()
    text = device.shell(_ASK, 15.0).stdout
    after = time.time()
    first = text.partition("\n")[0].strip()
    boot_id = first if re.fullmatch(r"[0-9a-f-]{8,64}", first) else None
    clock = _CLOCK.search(text)
    rings = {name: int(size) << (20 if unit == "M" else 10) for name, size, unit in _RING.findall(text)}
    if clock is None:
        return LogSource(boot_id, rings=rings)
    middle, half = (before + after) / 2, (after - before) / 2
    return LogSource(boot_id, float(clock[1]) - middle, half, clock[2], clock[3], rings)


def enlarge(device: Device, source: LogSource, wanted: int = RING_BYTES) -> dict[str, int]:
    """Make the rings that are smaller as large as wanted; the old sizes of those that were. Raises AdbError."""
    small = {name: size for name, size in source.rings.items() if size < wanted}
    if small:
        device.shell(["logcat", "-b", ",".join(sorted(small)), "-G", f"{wanted >> 10}K"], 15.0)
    return small


def restore(device: Device, sizes: dict[str, int]) -> None:
    """Give rings their old sizes; silent where the device is away: a restart gives them back as well."""
    for size in sorted(set(sizes.values())):
        names = sorted(name for name, old in sizes.items() if old == size)
        try:
            device.shell(["logcat", "-b", ",".join(names), "-G", f"{size >> 10}K"], 15.0)
        except AdbError:
            return
