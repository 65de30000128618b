"""What people do about a device on its page: notes, quarantine, maintenance, release, a check."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Form, Path
from sqlalchemy.orm import Session
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dashboard.context import Viewer
from dashboard.errors import PageError, gone
from dashboard.house import House
from farm.domain.devices import Health
from farm.store import notes, tables
from farm.store.people import Scope
from farm.store.reads.devices import DeviceDetail

DeviceId = Annotated[int, Path(ge=1, le=2**63 - 1)]
Reason = Annotated[str, Form(min_length=3, max_length=500)]
#: How long a quarantine by hand lasts; 0: until somebody ends it.
Hours = Annotated[float, Form(ge=0, le=24 * 90)]


def view(detail: DeviceDetail, viewer: Viewer | None) -> dict[str, object]:
    """What the panel shows, and which of its forms this viewer may use."""
    scopes = viewer.scopes if viewer is not None else frozenset()
    health = detail.tile.facts.health
    return {
        "operates": Scope.OPERATE.value in scopes or Scope.ADMIN.value in scopes,
        "writes": Scope.SUBMIT.value in scopes or Scope.ADMIN.value in scopes,
        "taken_out": health in (Health.BAD, Health.MAINTENANCE),
    }


def add(routes: APIRouter, house: House) -> None:
    needs, db, note_of, clock = house.context.needs, house.context.db, house.context.note, house.context.clock

    def act(
        request: Request,
        device_id: int,
        do: Callable[[Session, tables.Device, str, datetime], object],
        **detail: object,
    ) -> Response:
        viewer = house.viewer(request)
        with db.session() as session:
            row = session.get(tables.Device, device_id)
            if row is None:
                raise gone("device", str(device_id), ("/", "to the fleet"))
            now, was = clock(), notes.health_words(row)
            try:
                do(session, row, viewer.name, now)
            except notes.CannotChange as error:
                why = str(error)
                back = (f"/devices/{device_id}", "back to the device")
                raise PageError(409, "Nothing was changed", f"{why[:1].upper()}{why[1:]}.", back) from None
            told = detail or {"was": was}
            note_of(request).write(session, now, f"device {row.name}", serial=row.serial, **told)
        return RedirectResponse(f"/devices/{device_id}", 303)

    @routes.post("/ui/devices/{device_id}/notes", dependencies=[needs(Scope.SUBMIT, "device.note")])
    def write(
        request: Request, device_id: DeviceId, text: Annotated[str, Form(min_length=1, max_length=2000)]
    ) -> Response:
        return act(request, device_id, lambda s, row, who, now: notes.add(s, row.id, who, text, now), text=text)

    @routes.post("/ui/devices/{device_id}/quarantine", dependencies=[needs(Scope.OPERATE, "device.quarantine")])
    def quarantine(request: Request, device_id: DeviceId, reason: Reason, hours: Hours = 0) -> Response:
        lasts = timedelta(hours=hours) if hours else None
        return act(
            request, device_id, lambda s, row, who, now: notes.quarantine(s, row, reason, who, now, lasts),
            reason=reason, for_s=lasts.total_seconds() if lasts else None,
        )  # fmt: skip

    @routes.post("/ui/devices/{device_id}/maintenance", dependencies=[needs(Scope.OPERATE, "device.maintenance")])
    def maintenance(request: Request, device_id: DeviceId, reason: Reason) -> Response:
        return act(
            request, device_id, lambda s, row, who, now: notes.maintenance(s, row, reason, who, now), reason=reason
        )

    @routes.post("/ui/devices/{device_id}/release", dependencies=[needs(Scope.OPERATE, "device.release")])
    def release(request: Request, device_id: DeviceId) -> Response:
        return act(request, device_id, notes.release)

    @routes.post("/ui/devices/{device_id}/check", dependencies=[needs(Scope.OPERATE, "device.check")])
    def check(request: Request, device_id: DeviceId) -> Response:
        return act(request, device_id, notes.ask_for_look)
