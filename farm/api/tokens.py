"""Tokens for programs: one's own, and for an admin everybody's."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from farm.api.auth import needs
from farm.api.context import Audit, Farm, Who
from farm.api.errors import ApiError, not_found, sentence
from farm.api.json import encode
from farm.api.people import Name
from farm.store import granting, people
from farm.store.granting import NotGranted, Wish
from farm.store.people import Quota, Scope

router = APIRouter(prefix="/api/tokens", tags=["people"])


class NewToken(BaseModel):
    """A token to be made; it never has more than the one that asks for it."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=1, max_length=100, description="what it is for, e.g. `ci of the engine team`")
    scopes: list[Scope] = Field(min_length=1, max_length=len(Scope))
    user: Name | None = Field(default=None, description="whose it is (admin; made when there is none); null: yours")
    team: Name | None = Field(default=None, description="whom its work counts for; null: the user's team")
    days: int | None = Field(default=None, ge=1, le=3650, description="how long it lasts; null: until revoked")
    max_devices: int | None = Field(default=None, ge=1, le=100_000, description="devices held at once; null: no limit")
    max_waiting: int | None = Field(default=None, ge=1, le=1_000_000, description="jobs waiting at once")


@router.get("", summary="Tokens")
def list_tokens(
    farm: Farm, who: Who, everybody: Annotated[bool, Query(alias="all", description="admin: everybody's")] = False
) -> dict[str, Any]:
    """Tokens that stand; secrets are not kept and cannot be shown."""
    if everybody and not who.may(Scope.ADMIN):
        raise ApiError(403, "not-allowed", "Everybody's tokens are the admin's to see: leave out `all` for your own.")
    with farm.db.read() as session:
        return {"tokens": encode(people.tokens(session, user_id=None if everybody else who.user_id))}


@router.post("", summary="Make a token", status_code=201, dependencies=[needs(Scope.READ, "token.create")])
def make_token(farm: Farm, who: Who, note: Audit, new: NewToken) -> dict[str, Any]:
    """The secret stands in this answer and nowhere else. 403 when it would have more than the token or session that it
    is made with; it ends no later than that token."""
    wish = Wish(new.name, new.scopes, new.user, new.team, new.days, Quota(new.max_devices, new.max_waiting))
    try:
        with farm.db.session() as session:
            secret, ident = granting.make_token(session, who, wish, note, farm.now())
    except NotGranted as refusal:
        raise ApiError(403, "not-granted", f"{sentence(refusal)}.") from None
    return {"id": ident, "token": secret}


@router.delete("/{ident}", summary="Revoke a token", dependencies=[needs(Scope.READ, "token.revoke")])
def revoke_token(farm: Farm, who: Who, note: Audit, ident: Annotated[int, Path(ge=1, le=2**63 - 1)]) -> dict[str, Any]:
    """It stops working at once, and with it the sessions that were begun with it."""
    with farm.db.session() as session:
        if not granting.end_token(session, who, ident, note, farm.now()):
            raise not_found(f"token {ident} of yours that still stands", "`farm tokens list`")
    return {"id": ident, "revoked": True}
