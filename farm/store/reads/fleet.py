"""The fleet at a glance: every device with what it does, and what waits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from farm.domain.devices import Availability, DeviceFacts
from farm.store.reads.shared import Point


@dataclass(frozen=True, slots=True)
class Work:
    """What holds a device right now. `tests_total` is None until the suite has been collected."""

    run_id: int
    run_title: str
    suites: tuple[str, ...]
    attempt_id: int
    phase: str
    phase_began_at: datetime | None
    tests_done: int
    tests_total: int | None
    waiting_for: str | None
    since: datetime


@dataclass(frozen=True, slots=True)
class Tile:
    """A device as the fleet shows it; `temperatures` are the last minutes' readings, oldest first."""

    facts: DeviceFacts
    model: str
    kind: str
    address: str | None
    availability: Availability
    why: str
    work: Work | None
    temperatures: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class HostRow:
    """A machine with devices on it."""

    name: str
    seen_at: datetime | None
    silent: bool
    drained: bool
    devices: int


@dataclass(frozen=True, slots=True)
class Queue:
    """Jobs that wait. `oldest_why` is what the oldest of them waits for, in the planner's words."""

    length: int
    oldest_at: datetime | None
    oldest_why: str | None
    oldest_run: int | None


@dataclass(frozen=True, slots=True)
class Fleet:
    at: datetime
    tiles: tuple[Tile, ...]
    hosts: tuple[HostRow, ...]
    counts: dict[str, int]  # by Availability value; absent means none
    queue: Queue
    needs_hand: tuple[str, ...]  # names of devices that a person should look at


def fleet(session: Session, now: datetime) -> Fleet:
    """Every device that is listed or was seen, by name; virtual ones are marked in their facts."""
    raise NotImplementedError
