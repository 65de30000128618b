"""Small shapes that several pages share, and how rows become them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from farm.store import series, tables

#: More points than this no page shows; `thin` keeps the extremes.
MAX_POINTS = 240
#: The kind under which the agent files temperature readings in a device's history, and the series of an attempt's own.
TEMPERATURE = "temperature"


@dataclass(frozen=True, slots=True)
class DeviceRef:
    """A device as other things name it. `model` is what a person calls it ("Pixel 8 Pro"), `kind` phone or board."""

    id: int
    serial: str
    name: str
    virtual: bool
    model: str
    kind: str


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a time series."""

    at: datetime
    value: float


@dataclass(frozen=True, slots=True)
class Series:
    """A time series of one device, thinned to what a page can show: extremes of each interval are kept."""

    name: str
    unit: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """Something that went wrong on a device, with its evidence."""

    id: int
    attempt_id: int | None
    device: DeviceRef
    test_id: str | None
    at: datetime
    klass: str
    summary: str
    evidence: str | None
    artifact: str | None
    count: int = 1  # so many alike, which this one stands for
    signature: str | None = None  # what it is, wherever it happens; None: not told yet


def kind_of(labels: Mapping[str, Any], has_battery: bool | None) -> str:
    """ "phone" or "board": as the inventory's device type says, else a device known to have no battery is a board."""
    kind = labels.get("kind")
    if kind in ("phone", "board"):
        return str(kind)
    return "board" if has_battery is False else "phone"


def model_of(labels: Mapping[str, Any], type_: str | None, name: str) -> str:
    """What a person calls the device: the type's name, its own model, the type's key, its name."""
    for key in ("type_name", "model"):
        if labels.get(key):
            return str(labels[key])
    return type_ or name


def device_refs(session: Session, ids: Iterable[int]) -> dict[int, DeviceRef]:
    """The named devices by id, in one query."""
    d = tables.Device
    query = select(d.id, d.serial, d.name, d.virtual, d.labels, d.type, d.has_battery).where(d.id.in_(sorted(set(ids))))
    return {
        row.id: DeviceRef(
            row.id,
            row.serial,
            row.name,
            row.virtual,
            model_of(row.labels or {}, row.type, row.name),
            kind_of(row.labels or {}, row.has_battery),
        )
        for row in session.execute(query)
    }


def incident_rows(rows: Iterable[tables.Incident], devices: Mapping[int, DeviceRef]) -> tuple[IncidentRow, ...]:
    return tuple(
        IncidentRow(
            row.id,
            row.attempt_id,
            devices[row.device_id],
            row.test_id,
            row.at,
            row.klass,
            row.summary,
            row.evidence,
            row.artifact,
            row.count,
            row.signature,
        )
        for row in rows
    )


def incident_counts(session: Session, attempt_ids: Iterable[int]) -> dict[int, dict[str, int]]:
    """Attempt id → class → how many incidents, however many of them a page lists."""
    i = tables.Incident
    query = select(i.attempt_id, i.klass, func.sum(i.count)).where(i.attempt_id.in_(sorted(set(attempt_ids))))
    found: dict[int, dict[str, int]] = {}
    for attempt_id, klass, count in session.execute(query.group_by(i.attempt_id, i.klass).order_by(func.min(i.id))):
        if attempt_id is not None:
            found.setdefault(attempt_id, {})[klass] = int(count)
    return found


def thin(points: Sequence[Point], limit: int = MAX_POINTS) -> tuple[Point, ...]:
    """At most about `limit` points: of each interval the lowest and the highest, in order of time."""
    if len(points) <= limit:
        return tuple(points)
    size = -(-len(points) // (limit // 2))
    kept: list[Point] = []
    for start in range(0, len(points), size):
        part = points[start : start + size]
        ends = {id(p): p for p in (min(part, key=lambda p: p.value), max(part, key=lambda p: p.value))}
        kept.extend(sorted(ends.values(), key=lambda p: p.at))
    return tuple(kept)


def stored_points(stored: series.Stored, limit: int = MAX_POINTS) -> tuple[Point, ...]:
    """What `thin` would leave of a stored series; only what is left becomes a value of its own."""
    kept = range(len(stored.times))
    if len(kept) > limit:
        size = -(-len(kept) // (limit // 2))
        starts = range(0, len(kept), size)
        parts = ((start, stored.values[start : start + size]) for start in starts)
        chosen = sorted({start + int(at) for start, part in parts for at in (part.argmin(), part.argmax())})
    else:
        chosen = list(kept)
    return tuple(Point(datetime.fromtimestamp(float(stored.times[i]), UTC), float(stored.values[i])) for i in chosen)


def temperature_events(
    session: Session, device_ids: Iterable[int], since: datetime, until: datetime, limit: int = 20_000
) -> dict[int, list[Point]]:
    """Temperature readings (°C) of these devices by device id, oldest first; at most the newest `limit` of all."""
    e = tables.DeviceEvent
    query = (
        select(e.device_id, e.at, e.detail)
        .where(e.device_id.in_(sorted(set(device_ids))), e.kind == TEMPERATURE, e.at >= since, e.at <= until)
        .order_by(e.at.desc())
        .limit(limit)
    )
    found: dict[int, list[Point]] = {}
    for device_id, at, detail in session.execute(query):
        value = (detail or {}).get("celsius")
        if isinstance(value, int | float):
            found.setdefault(device_id, []).append(Point(at, float(value)))
    return {device_id: points[::-1] for device_id, points in found.items()}


def recorded_temperatures(session: Session, attempt_ids: Iterable[int]) -> dict[int, tuple[Point, ...]]:
    """The attempts' own series `temperature` (°C) by attempt id, thinned: denser than the device's history.

    An attempt with fewer than two points of it is left out: that is no curve.
    """
    found = series.read(session, sorted(set(attempt_ids)), name=TEMPERATURE, unit="°C")
    return {one.attempt_id: stored_points(one) for one in found if len(one.times) > 1}
