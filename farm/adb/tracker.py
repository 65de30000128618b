"""Which devices adb lists, now and at every change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from farm.adb.server import AdbServer


@dataclass(frozen=True, slots=True)
class AdbEntry:
    """One line of `adb devices -l`. `address` is what to give to `Device`: unique, even where serials are not."""

    address: str
    state: str  # device, offline, unauthorized, …: adb's own word
    serial: str  # as adb prints it: host:port for a network device; not its identity
    product: str | None = None
    model: str | None = None
    device: str | None = None
    usb: str | None = None
    transport_id: int | None = None


class Tracker:
    """A thread that follows `host:track-devices-l`, restarts a dead adb server and keeps addresses connected."""

    def __init__(
        self,
        server: AdbServer,
        on_change: Callable[[Sequence[AdbEntry]], None] | None = None,
        on_server: Callable[[str], None] | None = None,
    ) -> None:
        raise NotImplementedError

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def entries(self) -> list[AdbEntry]:
        """What adb listed last; empty while the adb server is away."""
        raise NotImplementedError

    def keep(self, addresses: Iterable[str]) -> None:
        """The network addresses to keep connected from now on (replaces the earlier set)."""
        raise NotImplementedError

    def wait_for(self, address: str, state: str = "device", timeout_s: float = 30.0) -> AdbEntry:
        """The entry of `address` once it is in `state`; raises DeviceGone after `timeout_s`."""
        raise NotImplementedError
