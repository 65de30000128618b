"""Devices: their facts as selectors see them, and one device in full."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from farm.domain.devices import Availability, DeviceFacts
from farm.store.reads.fleet import Tile
from farm.store.reads.shared import DeviceRef, IncidentRow, Series


@dataclass(frozen=True, slots=True)
class FingerprintRow:
    """What the device was measured to be, from `first_seen` to `last_seen`."""

    id: int
    hash: str
    first_seen: datetime
    last_seen: datetime
    current: bool
    facts: dict[str, Any]
    differences: tuple[tuple[str, str | None, str | None], ...]  # key, value before, value here; newest against older


@dataclass(frozen=True, slots=True)
class RecentAttempt:
    """An attempt on this device, newest first."""

    attempt_id: int
    run_id: int
    run_title: str
    suites: tuple[str, ...]
    number: int
    phase: str
    outcome: str | None
    reason: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class EventRow:
    """A line of the device's history: connection, health, lease, reboot, …"""

    at: datetime
    kind: str
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeviceDetail:
    tile: Tile
    health_by: str | None
    health_at: datetime | None
    connection_at: datetime | None
    fingerprints: tuple[FingerprintRow, ...]
    attempts: tuple[RecentAttempt, ...]
    events: tuple[EventRow, ...]
    incidents: tuple[IncidentRow, ...]
    temperature: Series  # the last hour


def facts_of(session: Session) -> list[DeviceFacts]:
    """Every device as planner, selectors and preview see it."""
    raise NotImplementedError


def states(session: Session, now: datetime) -> list[tuple[DeviceFacts, Availability, str]]:
    """Every device with its availability and why."""
    raise NotImplementedError


def device(session: Session, ref: str, now: datetime) -> DeviceDetail | None:
    """One device by its name, serial number or id, in this order; None when there is none."""
    raise NotImplementedError


__all__ = [
    "DeviceDetail",
    "DeviceRef",
    "EventRow",
    "FingerprintRow",
    "RecentAttempt",
    "device",
    "facts_of",
    "states",
]
