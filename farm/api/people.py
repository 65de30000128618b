"""Who I am, and who there is: users, their roles and teams; one-time login links."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from farm.api.auth import needs
from farm.api.context import Audit, Farm, Who
from farm.api.errors import ApiError, not_found, sentence
from farm.api.json import encode
from farm.store import people, teams, users
from farm.store.people import LOGIN_CODE_LASTS, Role, Scope, TokenKind

router = APIRouter(prefix="/api", tags=["people"])

Name = Annotated[str, Field(pattern=users.NAME)]
PathName = Annotated[str, Path(pattern=users.NAME)]


class NewUser(BaseModel):
    """A user to be made. They log in with a token or link that an admin hands them."""

    model_config = ConfigDict(extra="forbid")
    name: Name
    team: Name = teams.DEFAULT
    role: Role = Role.MEMBER


class UserChange(BaseModel):
    """What is to become different; what is left out stays."""

    model_config = ConfigDict(extra="forbid")
    team: Name | None = None
    role: Role | None = None
    disabled: bool | None = Field(default=None, description="true ends every session and token of theirs at once")


@router.get("/me", summary="Who I am")
def me(who: Who) -> dict[str, Any]:
    """The user, team, role, scopes and quota of the token or session that this request came with."""
    return {
        "name": who.name,
        "team": who.team,
        "role": who.role,
        "scopes": sorted(who.scopes),
        "kind": who.kind,
        "max_devices": who.quota.max_devices,
        "max_waiting": who.quota.max_waiting,
    }


@router.get("/users", summary="Users", dependencies=[needs(Scope.ADMIN)])
def list_users(farm: Farm) -> dict[str, Any]:
    """Everybody, the disabled ones last."""
    with farm.db.read() as session:
        return {"users": encode(users.users(session))}


@router.post("/users", summary="Make a user", status_code=201, dependencies=[needs(Scope.ADMIN, "user.create")])
def make_user(farm: Farm, note: Audit, new: NewUser) -> dict[str, Any]:
    """409 when there is one of that name."""
    now = farm.now()
    with farm.db.session() as session:
        try:
            users.add(session, new.name, new.team, new.role, now)
        except users.Exists as refusal:
            raise ApiError(409, "exists", f"{sentence(refusal)}: `farm users set` changes them.") from None
        note.write(session, now, f"user {new.name}", team=new.team, role=new.role.value)
    return {"name": new.name}


@router.patch("/users/{name}", summary="Change a user", dependencies=[needs(Scope.ADMIN, "user.change")])
def change_user(farm: Farm, note: Audit, name: PathName, change: UserChange) -> dict[str, Any]:
    """Team, role, disabled. It holds from the next request on, for tokens and sessions that exist as well. 409 when
    nobody would be left who may do this."""
    now = farm.now()
    with farm.db.session() as session:
        user = users.find(session, name)
        if user is None:
            raise not_found(f"user {name!r}", "`farm users`")
        try:
            changed = users.change(session, user, now, team=change.team, role=change.role, disabled=change.disabled)
        except users.LastAdmin as refusal:
            raise ApiError(409, "last-admin", f"{sentence(refusal)}.") from None
        if changed:
            note.write(session, now, f"user {name}", **changed)
        note.done = True
    return {"name": name, "changed": changed}


@router.post(
    "/login-links",
    summary="Make a one-time login link",
    status_code=201,
    dependencies=[needs(Scope.READ, "login-link.create")],
)
def make_login_link(farm: Farm, who: Who, note: Audit) -> dict[str, Any]:
    """A path that logs a browser in as you, once, within ten minutes."""
    now = farm.now()
    with farm.db.session() as session:
        code, _ = people.derive_token(session, who, "login link", now, TokenKind.LOGIN, LOGIN_CODE_LASTS)
        note.write(session, now, f"user {who.name}", lasts_s=LOGIN_CODE_LASTS.total_seconds())
    return {"path": f"/login/once/{code}", "seconds": int(LOGIN_CODE_LASTS.total_seconds())}
