"""Is this device fit for work? One shell round trip with a nonce, and what it says about the system."""

from __future__ import annotations

from dataclasses import dataclass, field

from farm.adb.device import Device


@dataclass(frozen=True, slots=True)
class HealthReport:
    """None is "not measured" or "there is none"; `problems` says in words what makes `ok` False."""

    ok: bool
    boot_id: str | None = None
    boot_completed: bool | None = None
    system_server_ok: bool | None = None
    temperature_c: float | None = None
    temperature_source: str | None = None  # "battery" or the zone's type
    battery_pct: int | None = None
    has_battery: bool | None = None
    clock_skew_s: float | None = None  # device minus host
    free_bytes: int | None = None  # of /data/local/tmp
    problems: list[str] = field(default_factory=list)


def check(device: Device, timeout_s: float = 20.0) -> HealthReport:
    """Look at the device. Never raises for what the device does: that is a problem in the report."""
    raise NotImplementedError
