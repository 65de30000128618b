"""Teams: weight in the queue, and quotas."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from farm.api.auth import needs
from farm.api.context import Audit, Farm
from farm.api.errors import ApiError, not_found, sentence
from farm.api.json import encode
from farm.api.people import PathName
from farm.store import teams
from farm.store.people import Scope

router = APIRouter(prefix="/api/teams", tags=["people"])


class TeamBody(BaseModel):
    """A team as it is to be."""

    model_config = ConfigDict(extra="forbid")
    weight: float = Field(default=1.0, gt=0, le=1000, description="share of the farm relative to other teams'")
    max_devices: int | None = Field(default=None, ge=0, le=100_000, description="devices held at once; null: no limit")
    max_waiting: int | None = Field(default=None, ge=0, le=1_000_000, description="jobs waiting at once")


@router.get("", summary="Teams")
def list_teams(farm: Farm) -> dict[str, Any]:
    """Every team with its weight, quotas and how many users it has."""
    with farm.db.read() as session:
        return {"teams": encode(teams.teams(session))}


@router.put("/{name}", summary="Make or change a team", dependencies=[needs(Scope.ADMIN, "team.set")])
def set_team(farm: Farm, note: Audit, name: PathName, wanted: TeamBody) -> dict[str, Any]:
    """Sets all of it: what is left out goes to its default. The planner follows from its next pass on."""
    now = farm.now()
    with farm.db.session() as session:
        teams.change(session, name, now, wanted.weight, wanted.max_devices, wanted.max_waiting)
        note.write(session, now, f"team {name}", **wanted.model_dump())
    return {"name": name, **wanted.model_dump()}


@router.delete("/{name}", summary="Take away a team", dependencies=[needs(Scope.ADMIN, "team.remove")])
def remove_team(farm: Farm, note: Audit, name: PathName) -> dict[str, Any]:
    """409 while somebody or something belongs to it."""
    now = farm.now()
    with farm.db.session() as session:
        try:
            removed = teams.remove(session, name)
        except teams.InUse as refusal:
            raise ApiError(409, "in-use", f"{sentence(refusal)}.") from None
        if removed is None:
            raise not_found(f"team {name!r}", "`farm teams`")
        note.write(session, now, f"team {name}", **removed)
    return {"name": name, "removed": True}
