"""Small shapes that several pages share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


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
