"""Who I am, tokens, one-time login links."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from farm.api.auth import needs
from farm.api.context import Farm, Who
from farm.api.errors import not_found
from farm.api.json import encode
from farm.store import people
from farm.store.people import LOGIN_CODE_LASTS, Scope, TokenKind

router = APIRouter(prefix="/api", tags=["people"])


class NewToken(BaseModel):
    """A token to be made for the user `user` (made as well when there is none of that name)."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=1, max_length=100, description="what it is for, e.g. `ci of the engine team`")
    user: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._@-]+$")
    scopes: list[Scope] = Field(min_length=1, max_length=len(Scope))
    team: str = Field(default="default", min_length=1, max_length=100)
    days: int | None = Field(default=None, ge=1, le=3650, description="how long it lasts; null: until revoked")


@router.get("/me", summary="Who I am")
def me(who: Who) -> dict[str, Any]:
    """The user, team and scopes of the token or session that this request came with."""
    return {"name": who.name, "team": who.team, "role": who.role, "scopes": sorted(who.scopes), "kind": who.kind}


@router.get("/tokens", summary="Tokens", dependencies=[needs(Scope.ADMIN)])
def list_tokens(farm: Farm) -> dict[str, Any]:
    """Every token that stands; secrets are not kept and cannot be shown."""
    with farm.db.read() as session:
        return {"tokens": encode(people.tokens(session))}


@router.post("/tokens", summary="Make a token", status_code=201, dependencies=[needs(Scope.ADMIN)])
def make_token(farm: Farm, new: NewToken) -> dict[str, Any]:
    """The secret stands in this answer and nowhere else."""
    now = farm.now()
    with farm.db.session() as session:
        user = people.ensure_user(session, new.user, now, team=new.team)
        lasts = timedelta(days=new.days) if new.days is not None else None
        secret, ident = people.add_token(session, user.id, new.name, new.scopes, now, lasts=lasts)
    return {"id": ident, "token": secret}


@router.delete("/tokens/{ident}", summary="Revoke a token", dependencies=[needs(Scope.ADMIN)])
def revoke_token(farm: Farm, ident: Annotated[int, Path(ge=1, le=2**63 - 1)]) -> dict[str, Any]:
    """It stops working at once; sessions begun with it go on until they expire."""
    with farm.db.session() as session:
        if not people.revoke(session, ident, farm.now()):
            raise not_found(f"token {ident} that still stands", "GET /api/tokens")
    return {"id": ident, "revoked": True}


@router.post("/login-links", summary="Make a one-time login link", status_code=201)
def make_login_link(farm: Farm, who: Who) -> dict[str, Any]:
    """A path that logs a browser in as you, once, within ten minutes."""
    now = farm.now()
    with farm.db.session() as session:
        code, _ = people.add_token(
            session, who.user_id, "login link", who.scopes, now, kind=TokenKind.LOGIN, lasts=LOGIN_CODE_LASTS
        )
    return {"path": f"/login/once/{code}", "seconds": int(LOGIN_CODE_LASTS.total_seconds())}
