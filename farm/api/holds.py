"""Holds: no new work on a device, a host, a pool or the whole farm; what runs goes on."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from farm.api.auth import needs
from farm.api.context import Audit, Farm, Who
from farm.api.errors import ApiError
from farm.api.json import encode
from farm.store import holds
from farm.store.people import Scope
from farm.store.reads import holds as reads

router = APIRouter(prefix="/api/holds", tags=["devices"])

Kind = Literal["device", "host", "pool", "farm"]


class NewHold(BaseModel):
    """What to hold, and why."""

    model_config = ConfigDict(extra="forbid")
    scope: Kind
    name: str = Field(
        default="", max_length=200, description="the device's name or serial, the host, the pool; farm: none"
    )
    reason: str = Field(min_length=3, max_length=300, description="whoever waits for it is shown this")
    for_s: float | None = Field(default=None, gt=0, le=366 * 86400, description="null: until somebody lifts it")


class Lifted(BaseModel):
    """What to hold no longer."""

    model_config = ConfigDict(extra="forbid")
    scope: Kind
    name: str = Field(default="", max_length=200)


@router.get("", summary="Holds in force")
def list_holds(
    farm: Farm, scope: Annotated[Kind | None, Query()] = None, name: Annotated[str, Query(max_length=200)] = ""
) -> dict[str, Any]:
    """Every hold that stands, and how much still runs under each. With `scope` (and `name`) those of that target."""
    with farm.db.read() as session:
        found = reads.standing(session, farm.db.now(session))
        if scope is not None:
            ref = _target(session, scope, name)
            found = [entry for entry in found if (entry.hold.scope, entry.hold.ref) == (scope, ref)]
    return {"holds": encode(found)}


@router.post("", summary="Hold", status_code=201, dependencies=[needs(Scope.OPERATE, "hold.place")])
def place(farm: Farm, who: Who, note: Audit, new: NewHold) -> dict[str, Any]:
    """No new grants there from now on."""
    with farm.db.session() as session:
        now = farm.db.now(session)
        ref = _target(session, new.scope, new.name)
        until = None if new.for_s is None else now + timedelta(seconds=new.for_s)
        hold = holds.place(session, new.scope, ref, new.reason, who.name, now, until)
        note.write(session, now, hold.what, reason=new.reason, for_s=new.for_s)
        return dict(encode(reads.standing_one(session, hold)))


@router.post("/lift", summary="Lift", dependencies=[needs(Scope.OPERATE, "hold.lift")])
def lift(farm: Farm, who: Who, note: Audit, gone: Lifted) -> dict[str, Any]:
    """Every hold on exactly this ends; what waits for it is planned at once."""
    with farm.db.session() as session:
        now = farm.db.now(session)
        ref = _target(session, gone.scope, gone.name)
        ended = holds.lift(session, gone.scope, ref, who.name, now)
        if ended:
            note.write(session, now, ended[0].what, lifted=[f"{one.reason} (by {one.by})" for one in ended])
        note.done = True
        return {"lifted": encode(ended)}


def _target(session: Any, scope: str, name: str) -> str:
    try:
        return holds.target(session, scope, name)
    except holds.UnknownTarget as error:
        raise ApiError(404, "not-found", str(error)) from None
