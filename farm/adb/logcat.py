"""A device's log from the start of a lease to its end, streamed, compressed and bounded."""

from __future__ import annotations

from pathlib import Path

from farm.adb.device import Device


class LogcatStream:
    """A thread that writes `logcat -b all -v threadtime` into `path` (zstd); gaps are noted in the file itself."""

    def __init__(self, device: Device, path: Path, *, max_bytes: int = 32 << 20) -> None:
        raise NotImplementedError

    def start(self) -> None:
        raise NotImplementedError

    def stop(self, timeout_s: float = 10.0) -> None:
        raise NotImplementedError
