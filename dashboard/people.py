"""People and teams, for admins: roles, teams, weights, quotas, everybody's tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Form, Path
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dashboard.errors import PageError, gone
from dashboard.house import House
from dashboard.people_tokens import figure
from farm.store import people, teams, users
from farm.store.people import Role, Scope

#: What each role may, for the people who give them.
ROLES = {
    Role.VIEWER: "looks at everything",
    Role.MEMBER: "queues runs, borrows devices",
    Role.OPERATOR: "looks after devices as well",
    Role.ADMIN: "looks after people as well",
}
BACK = ("/people", "back to people")

UserName = Annotated[str, Path(pattern=users.NAME)]
NewName = Annotated[str, Form(pattern=users.NAME)]
Figure = Annotated[str, Form(max_length=12)]


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """A rule that says no, as a page."""
    try:
        yield
    except (users.Exists, users.LastAdmin, teams.InUse) as refusal:
        why = str(refusal)
        raise PageError(409, what, f"{why[:1].upper()}{why[1:]}.", BACK) from None


def weight_of(text: str) -> float:
    """A team's weight as typed. Raises PageError."""
    try:
        weight = float(text.strip().replace(",", ".") or 1)
    except ValueError:
        weight = math.nan
    if not 0 < weight <= 1000:
        raise PageError(422, f"A weight cannot be {text!r}", "Give a number above 0, at most 1000; 1 is usual.", BACK)
    return weight


def add(routes: APIRouter, house: House) -> None:
    needs, db, note_of, clock = house.context.needs, house.context.db, house.context.note, house.context.clock

    def back() -> Response:
        return RedirectResponse("/people", 303)

    @routes.get("/people", dependencies=[needs(Scope.ADMIN)])
    def page(request: Request) -> Response:
        viewer = house.viewer(request)
        with db.read() as session:
            data = {
                "users": users.users(session),
                "teams": teams.teams(session),
                "tokens": people.tokens(session),
                "roles": [(role.value, why) for role, why in ROLES.items()],
            }
        return house.page(request, "people.html", data, viewer=viewer)

    @routes.post("/ui/users", dependencies=[needs(Scope.ADMIN, "user.create")])
    def make_user(
        request: Request,
        name: NewName,
        team: NewName = teams.DEFAULT,
        role: Annotated[Role, Form()] = Role.MEMBER,
    ) -> Response:
        with refusals("No user was made"), db.session() as session:
            users.add(session, name, team, role, clock())
            note_of(request).write(session, clock(), f"user {name}", team=team, role=role.value)
        return back()

    @routes.post("/ui/users/{name}", dependencies=[needs(Scope.ADMIN, "user.change")])
    def change_user(
        request: Request,
        name: UserName,
        team: Annotated[str | None, Form(pattern=users.NAME)] = None,
        role: Annotated[Role | None, Form()] = None,
        disabled: Annotated[bool | None, Form()] = None,
    ) -> Response:
        with refusals("Nothing was changed"), db.session() as session:
            user = users.find(session, name)
            if user is None:
                raise gone("user", name, BACK)
            changed = users.change(session, user, clock(), team=team, role=role, disabled=disabled)
            if changed:
                note_of(request).write(session, clock(), f"user {name}", **changed)
            note_of(request).done = True
        return back()

    @routes.post("/ui/teams", dependencies=[needs(Scope.ADMIN, "team.set")])
    def set_team(
        request: Request,
        name: NewName,
        weight: Figure = "1",
        max_devices: Figure = "",
        max_waiting: Figure = "",
    ) -> Response:
        wanted = {
            "weight": weight_of(weight),
            "max_devices": figure(max_devices, "Devices", 100_000, least=0),
            "max_waiting": figure(max_waiting, "Waiting jobs", 1_000_000, least=0),
        }
        with db.session() as session:
            teams.change(session, name, clock(), **wanted)  # type: ignore[arg-type]  # named as its parameters
            note_of(request).write(session, clock(), f"team {name}", **wanted)
        return back()

    @routes.post("/ui/teams/{name}/remove", dependencies=[needs(Scope.ADMIN, "team.remove")])
    def remove_team(request: Request, name: UserName) -> Response:
        with refusals("The team stays"), db.session() as session:
            removed = teams.remove(session, name)
            if removed is None:
                raise gone("team", name, BACK)
            note_of(request).write(session, clock(), f"team {name}", **removed)
        return back()
