"""An adb server's face that shows, and reaches, only the devices of one lease."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that the lens did not let through. `request` is cut to a sane length."""

    request: str
    reason: str


class LensServer:
    """Serves the adb host protocol on the unix socket `unix_path`, for the devices in `allowed` alone.

    `allowed`: address at the real server → the device's own serial number (ro.serialno), the name that is shown.
    """

    def __init__(
        self,
        unix_path: Path,
        upstream: tuple[str, int],
        allowed: Mapping[str, str],
        on_refused: Callable[[Refusal], None] | None = None,
    ) -> None:
        raise NotImplementedError

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """End every connection and remove the socket."""
        raise NotImplementedError
