"""Devices as the fleet shows them, and what people do about them by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from farm.api.auth import needs
from farm.api.context import Audit, Farm, Who
from farm.api.errors import ApiError, not_found
from farm.api.json import encode
from farm.store import alerts, notes, tables
from farm.store.people import Scope
from farm.store.reads import adb, fleet
from farm.store.reads import devices as reads

router = APIRouter(prefix="/api", tags=["devices"])

Ref = Annotated[str, Path(max_length=200, description="its name, serial number or id")]
#: A quarantine by hand lasts so long at most; without a time it lasts until a person ends it.
LONGEST_S = 90 * 86400.0


class Because(BaseModel):
    model_config = ConfigDict(extra="forbid")
    reason: str = Field(min_length=3, max_length=500, description="shown wherever the device is")


class Quarantine(Because):
    for_s: float | None = Field(default=None, gt=0, le=LONGEST_S, description="seconds; null: until released")


class NewNote(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str = Field(min_length=1, max_length=2000)


@router.get("/devices", summary="All devices")
def list_devices(farm: Farm) -> dict[str, Any]:
    """Every device with its facts, whether it can be used now and why not, what waits for one, and open alerts."""
    with farm.db.read() as session:
        found = fleet.fleet(session, farm.now())
    shown = encode(found)
    shown["devices"] = shown.pop("tiles")
    return dict(shown)


@router.get("/alerts", summary="Alerts")
def list_alerts(farm: Farm) -> dict[str, Any]:
    """What a person should see to now, and what was over lately. Alerts clear themselves."""
    with farm.db.read() as session:
        return {"open": encode(alerts.open_alerts(session)), "cleared": encode(alerts.cleared(session))}


@router.get("/devices/{ref}", summary="One device")
def show_device(farm: Farm, ref: Ref) -> dict[str, Any]:
    """Facts, fingerprints, recent attempts, history, notes; `adb`: how who has leased it reaches it."""
    with farm.db.read() as session:
        found = reads.device(session, ref, farm.now())
        if found is None:
            raise _unknown()
        reached = adb.of_device(session, found.tile.facts.id)
    return {**encode(found), "adb": encode(reached)}


@router.post(
    "/devices/{ref}/quarantine",
    summary="Take a device out of use",
    dependencies=[needs(Scope.OPERATE, "device.quarantine")],
)
def quarantine(farm: Farm, who: Who, note: Audit, ref: Ref, body: Quarantine) -> dict[str, Any]:
    """No new work on it; what runs goes on. With a time, a good look after it ends the quarantine."""
    with farm.db.session() as session:
        now, row = farm.db.now(session), _row(session, ref)
        lasts = None if body.for_s is None else timedelta(seconds=body.for_s)
        notes.quarantine(session, row, body.reason, who.name, now, lasts)
        note.write(session, now, f"device {row.name}", serial=row.serial, reason=body.reason, for_s=body.for_s)
        return _standing(row)


@router.post(
    "/devices/{ref}/maintenance",
    summary="Take a device into your hands",
    dependencies=[needs(Scope.OPERATE, "device.maintenance")],
)
def maintenance(farm: Farm, who: Who, note: Audit, ref: Ref, body: Because) -> dict[str, Any]:
    """No new work, no recovery, and no look changes it, until it is released."""
    with farm.db.session() as session:
        now, row = farm.db.now(session), _row(session, ref)
        notes.maintenance(session, row, body.reason, who.name, now)
        note.write(session, now, f"device {row.name}", serial=row.serial, reason=body.reason)
        return _standing(row)


@router.post(
    "/devices/{ref}/release",
    summary="Put a device back into service",
    dependencies=[needs(Scope.OPERATE, "device.release")],
)
def release(farm: Farm, who: Who, note: Audit, ref: Ref) -> dict[str, Any]:
    """Out of quarantine or maintenance; it is looked at before its next use."""
    with farm.db.session() as session:
        now, row = farm.db.now(session), _row(session, ref)
        was = notes.health_words(row)
        try:
            notes.release(session, row, who.name, now)
        except notes.CannotChange as error:
            raise ApiError(409, "in-service", str(error)) from None
        note.write(session, now, f"device {row.name}", serial=row.serial, was=was)
        return _standing(row)


@router.post(
    "/devices/{ref}/check", summary="Look at a device now", dependencies=[needs(Scope.OPERATE, "device.check")]
)
def check(farm: Farm, who: Who, note: Audit, ref: Ref) -> dict[str, Any]:
    """Its host looks at it within a second or two: `tile.facts.readiness.at` tells when it has."""
    with farm.db.session() as session:
        now, row = farm.db.now(session), _row(session, ref)
        was = notes.health_words(row)
        try:
            notes.ask_for_look(session, row, who.name, now)
        except notes.CannotChange as error:
            raise ApiError(409, "cannot-check", str(error)) from None
        note.write(session, now, f"device {row.name}", serial=row.serial, was=was)
        return _standing(row) | {"asked_at": encode(now)}


@router.post(
    "/devices/{ref}/notes",
    summary="Write a note about a device",
    status_code=201,
    dependencies=[needs(Scope.SUBMIT, "device.note")],
)
def add_note(farm: Farm, who: Who, note: Audit, ref: Ref, new: NewNote) -> dict[str, Any]:
    """It stands on the device's page with your name."""
    with farm.db.session() as session:
        now, row = farm.db.now(session), _row(session, ref)
        made = notes.add(session, row.id, who.name, new.text, now)
        note.write(session, now, f"device {row.name}", serial=row.serial, text=new.text)
    return dict(encode(made))


def _row(session: Session, ref: str) -> tables.Device:
    row = reads.find(session, ref)
    if row is None:
        raise _unknown()
    return row


def _unknown() -> ApiError:
    return not_found("such device", "`farm devices`")


def _standing(row: tables.Device) -> dict[str, Any]:
    return {
        "serial": row.serial,
        "name": row.name,
        "health": row.health,
        "reason": row.health_reason,
        "by": row.health_by,
        "until": encode(row.health_until),
    }
