"""What the farm knows of a device: facts, each with its own time, and no stored status.

Connection comes from adb, the lease is a row, health has a reason and an author, readiness is measured. "Available" is
computed when read, by `availability`, and by nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from farm.domain import readiness
from farm.domain.words import clock


class Connection(StrEnum):
    """The state that adb reports. GONE: adb does not list it. DUPLICATE: two of them say the same serial number."""

    ONLINE = "device"
    OFFLINE = "offline"
    UNAUTHORIZED = "unauthorized"
    RECOVERY = "recovery"
    BOOTLOADER = "bootloader"
    DUPLICATE = "duplicate"
    GONE = "gone"


#: What adb says of a device that cannot tell who it is → what a person does about it.
REMEDIES = {
    Connection.UNAUTHORIZED: "accept the key on its screen (“always allow”)",
    Connection.OFFLINE: "wait for it to boot, else pull the cable and put it in again",
    Connection.RECOVERY: "it is in recovery: restart it into Android",
    Connection.BOOTLOADER: "it is in its bootloader: restart it into Android",
    Connection.DUPLICATE: "another device has its serial number: unplug one, or give it a number of its own",
}
#: Our word where adb lists a device as ready and it does not answer when it is asked who it is.
SILENT = "silent"
#: Where this host's user may not open the USB device; adb's word for it begins with "no permissions".
NO_PERMISSION = "this host may not open it: install adb's udev rules, or add the agent's user to the group plugdev"


def remedy(state: str) -> str:
    """What helps where adb lists a device in this state, in adb's own word."""
    if state.startswith("no permissions"):
        return NO_PERMISSION
    if state == SILENT:
        return "it does not answer, and is asked again and again: restart it, unless its host is very busy"
    try:
        return REMEDIES[Connection(state)]
    except (ValueError, KeyError):
        return "nothing yet: it is on its way up"


class Health(StrEnum):
    GOOD = "good"
    SUSPECT = "suspect"  # checked before the next use
    BAD = "bad"  # quarantined until a time or a person
    MAINTENANCE = "maintenance"


class Availability(StrEnum):
    """One word for a tile; the first that applies, in this order."""

    GONE = "gone"
    STALE = "stale"  # the host has not been heard of for too long
    QUARANTINED = "quarantined"
    MAINTENANCE = "maintenance"
    RESERVED = "reserved"
    RUNNING = "running"
    CLEANING = "cleaning"
    NOT_READY = "not-ready"  # too hot, battery low, booting: says which
    CHECKING = "checking"  # suspect
    READY = "ready"


#: A device that its host has not reported for this long is not available, whatever the row says.
STALE_AFTER = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Readiness:
    """Measured fitness. None is "not measured" (a board without a battery, a zone that cannot be read)."""

    at: datetime | None = None
    temperature_c: float | None = None
    battery_pct: int | None = None
    has_battery: bool | None = None
    boot_completed: bool | None = None
    boot_id: str | None = None
    hot_since: datetime | None = None
    low_since: datetime | None = None  # its battery waits to be charged
    free_bytes: int | None = None  # of /data/local/tmp
    clock_skew_s: float | None = None  # device minus host


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device as planner, selectors and pages see it. `serial` is the device's own (ro.serialno), not an address."""

    id: int
    serial: str
    name: str
    host: str
    virtual: bool
    listed: bool
    type: str | None  # key of the device type in devices.yaml
    pool: str | None
    ring: int | None
    labels: dict[str, str] = field(default_factory=dict)
    connection: Connection = Connection.GONE
    seen_at: datetime | None = None
    health: Health = Health.GOOD
    health_reason: str | None = None
    health_until: datetime | None = None
    readiness: Readiness = Readiness()
    lease_holder: str | None = None  # "attempt:17", "reservation:4"
    held_by: str | None = None  # the same, as people know it: run, user, team
    lease_released: bool = False
    infra_errors: int = 0  # recent
    last_bundle: str | None = None
    host_lost_at: datetime | None = None  # nobody hears its host since then
    host_unready: str | None = None  # why its host must not be given work, in the words of its agent

    def facts(self) -> dict[str, str]:
        """The flat view that selectors match: labels plus the named columns. Values are strings."""
        flat = dict(self.labels)
        for key, value in (("type", self.type), ("pool", self.pool), ("ring", self.ring), ("host", self.host)):
            if value is not None:
                flat[key] = str(value)
        flat["serial"] = self.serial
        flat["name"] = self.name
        flat["virtual"] = "true" if self.virtual else "false"
        return flat


def is_silent(seen_at: datetime | None, now: datetime) -> bool:
    """Whether a host, or a device through it, was last heard of too long ago to be used."""
    return seen_at is None or now - seen_at > STALE_AFTER


def availability(device: DeviceFacts, now: datetime) -> tuple[Availability, str]:
    """Whether `device` can be granted at `now`, in one word, and why in a few."""
    if device.host_lost_at is not None:  # what adb said there is old
        return Availability.STALE, _away(device, now)
    if device.connection is Connection.GONE:
        return Availability.GONE, f"adb does not list it{_held(device)}"
    if is_silent(device.seen_at, now):
        return Availability.STALE, _away(device, now)
    if device.health is Health.BAD and (device.health_until is None or now < device.health_until):
        return Availability.QUARANTINED, device.health_reason or "quarantined"
    if device.health is Health.MAINTENANCE:
        return Availability.MAINTENANCE, device.health_reason or "in maintenance"
    if device.connection is not Connection.ONLINE:
        said = f"adb says {device.connection.value}"
        if device.connection is Connection.DUPLICATE:
            said = "two devices answer with its serial number: neither is used"
        return Availability.NOT_READY, f"{said}{_held(device)}"
    if device.lease_holder is not None:
        return _leased(device)
    if device.host_unready is not None:
        return Availability.NOT_READY, f"its host {device.host} is not ready: {device.host_unready}"
    unready = why_not_ready(device.readiness, now)
    if unready is not None:
        return Availability.NOT_READY, unready
    if device.health in (Health.SUSPECT, Health.BAD):  # bad until a time that has passed: looked at before use
        return Availability.CHECKING, device.health_reason or "checked before its next use"
    return Availability.READY, "ready"


def usable_once(device: DeviceFacts, now: datetime) -> str | None:
    """What must happen before a device that is away is used again; None: it is not away."""
    needs = []
    if device.host_lost_at is not None or is_silent(device.seen_at, now):
        needs.append(f"its host {device.host} is heard of again")
    if device.connection is Connection.GONE:
        needs.append("it is plugged in again")
    by_hand = device.health is Health.BAD and device.health_until is None
    if by_hand or device.health is Health.MAINTENANCE:
        needs.append(f"a person releases it (`farm device release {device.name}`)")
        return _all_of(needs)
    if device.health is Health.BAD and device.health_until is not None and now < device.health_until:
        needs.append(f"its quarantine is over at {clock(device.health_until, now)}")
    if needs and device.health is not Health.GOOD:
        needs.append("a health check finds it well (nobody needs to release it)")
    return _all_of(needs) if needs else None


def _all_of(needs: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(needs[:-1]), needs[-1])))


def _leased(device: DeviceFacts) -> tuple[Availability, str]:
    if device.lease_released:
        return Availability.CLEANING, "being cleaned after its last holder"
    if (device.lease_holder or "").startswith("reservation:"):
        return Availability.RESERVED, holder_words(device)
    return Availability.RUNNING, holder_words(device)


def _away(device: DeviceFacts, now: datetime) -> str:
    """Since when nobody hears the host; what it had to do waits until it is back."""
    since = device.seen_at or device.host_lost_at
    if since is None:
        return f"its host {device.host} has not been heard of"
    return f"its host {device.host} is away since {clock(since, now)}"


def _held(device: DeviceFacts) -> str:
    """Who has the lease of a device that cannot be reached: it is not lost with the cable."""
    if device.lease_holder is None:
        return ""
    return f"; its lease is held by {holder_words(device)}"


def holder_words(device: DeviceFacts) -> str:
    """Who has its lease, as people know them."""
    return device.held_by or (device.lease_holder or "nobody").replace(":", " ")


def why_not_ready(measured: Readiness, now: datetime) -> str | None:
    """What keeps a device that answers from being given work, with its figure; None: nothing."""
    if measured.boot_completed is False:
        return "still booting"
    if readiness.is_held_hot(measured.hot_since, now):
        return readiness.heat_words(measured.temperature_c, measured.has_battery)
    battery = measured.battery_pct
    low = measured.has_battery and battery is not None and battery < readiness.MIN_BATTERY_PCT
    if low or measured.low_since is not None:
        return readiness.battery_words(battery)
    if measured.free_bytes is not None and readiness.is_full(measured.free_bytes):
        return readiness.storage_words(measured.free_bytes)
    return None
