"""Whose full disk it is that a test ran into: the host's, the device's, or one that the suite filled itself.

A device is given work with at least `MIN_FREE_BYTES` free. One that is full although the suite has written less than
that was filled by somebody else, and the same goes for the host: such a test has said nothing about the engine.
"""

from __future__ import annotations

import errno
import os
import tempfile

from farm.adb.device import Device
from farm.adb.errors import AdbError, NoSpace
from farm.domain.causes import Cause
from farm.domain.readiness import MIN_FREE_BYTES, is_full
from runner.engines.base import EngineFailure

_WORDS = "No space left on device"  # strerror(ENOSPC), as every program on a device says it
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_PLACE, _CACHE = "/data/local/tmp", "/data/local/tmp/farm"
_ASK_S = 20.0


def cause_of_full_disk(error: BaseException, device: Device) -> Cause | None:
    """HOST_DISK or STORAGE_FULL, where this error comes of a disk that the suite did not fill; else None."""
    if isinstance(error, OSError):
        return Cause.HOST_DISK if error.errno in _FULL and not _own_tmp_is_full() else None
    if isinstance(error, AdbError | EngineFailure) and (isinstance(error, NoSpace) or _WORDS in str(error)):
        return Cause.STORAGE_FULL if _filled_by_others(device) else None
    return None


def _own_tmp_is_full() -> bool:
    """The sandbox's /tmp is in memory, and small; who fills it is the suite."""
    status = os.statvfs(tempfile.gettempdir())
    return status.f_bavail * status.f_frsize < 1 << 20


def _filled_by_others(device: Device) -> bool:
    script = f"stat -f -c '%a %S' {_PLACE}; for d in {_PLACE} {_CACHE}; do du -sk $d 2>/dev/null || echo 0; done"
    try:
        said = device.shell(script, _ASK_S).stdout.splitlines()
    except AdbError:
        return False
    return len(said) >= 3 and judge(said[0], said[1], said[-1])


def judge(free: str, used: str, cached: str) -> bool:
    """Whether the place is full though the suite's files are few: `stat -f` (blocks and their size), two `du -k`."""
    numbers = [int(word) for line in (free, used, cached) for word in line.split()[:2] if word.isdigit()]
    if len(numbers) != 4:
        return False
    blocks, size, used_kb, cached_kb = numbers
    return is_full(blocks * size) and (used_kb - cached_kb) * 1024 < MIN_FREE_BYTES
