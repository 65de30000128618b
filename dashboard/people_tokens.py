"""My page: who I am here, my tokens, and a form that makes one; its secret is shown in that one answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Path
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dashboard.errors import PageError, gone
from dashboard.house import MAX_ID, House
from farm.store import granting, people
from farm.store.granting import NotGranted, Wish
from farm.store.people import Quota, Scope

#: What each scope is for, in the order in which they are offered.
SCOPES = {
    Scope.READ: "look at everything",
    Scope.SUBMIT: "queue and cancel runs, send bundles and suites",
    Scope.RESERVE: "borrow devices",
    Scope.OPERATE: "quarantine, maintenance, pause",
    Scope.ADMIN: "people, teams, audit log, and all of the above",
}

Name = Annotated[str, Form(max_length=100)]
Figure = Annotated[str, Form(max_length=12)]


def figure(text: str, what: str, most: int, least: int = 1) -> int | None:
    """A whole number that a form field holds; None: left empty. Raises PageError."""
    text = text.strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise PageError(
            422, f"{what} cannot be {text!r}", f"Give a whole number from {least} to {most}, or leave it empty."
        )
    return int(text)


def add(routes: APIRouter, house: House) -> None:
    needs, db = house.context.needs, house.context.db

    def show(request: Request, *, secret: str = "", refusal: str = "", status: int = 200) -> Response:
        viewer, who = house.viewer(request), house.context.principal(request)
        with db.read() as session:
            tokens = people.tokens(session, user_id=who.user_id)
        data = {
            "who": who,
            "tokens": tokens,
            "offered": [(scope.value, why) for scope, why in SCOPES.items() if who.may(scope)],
            "secret": secret,
            "base": str(request.base_url).rstrip("/"),
            "refusal": refusal,
        }
        return house.page(request, "me.html", data, viewer=viewer, status=status)

    @routes.get("/me")
    def page(request: Request) -> Response:
        return show(request)

    @routes.post("/ui/tokens", dependencies=[needs(Scope.READ, "token.create")])
    def make(
        request: Request,
        name: Name = "",
        scopes: Annotated[list[Scope] | None, Form(max_length=10)] = None,
        days: Figure = "",
        max_devices: Figure = "",
        max_waiting: Figure = "",
        user: Name = "",
    ) -> Response:
        """Make a token; the page that answers shows it, and no other does."""
        if not name.strip() or not scopes:
            return show(request, refusal="give it a name, and at least one scope", status=422)
        quota = Quota(figure(max_devices, "Devices", 100_000), figure(max_waiting, "Waiting jobs", 1_000_000))
        wish = Wish(
            name.strip(), scopes, user=user.strip() or None, days=figure(days, "Days", 3650), quota=quota
        )  # fmt: skip
        try:
            with db.session() as session:
                secret, _ = granting.make_token(
                    session, house.context.principal(request), wish, house.context.note(request), house.context.clock()
                )
        except NotGranted as refusal:
            return show(request, refusal=str(refusal), status=403)
        return show(request, secret=secret, status=201)

    @routes.post("/ui/tokens/{ident:int}/revoke", dependencies=[needs(Scope.READ, "token.revoke")])
    def revoke(request: Request, ident: Annotated[int, Path(ge=1, le=MAX_ID)]) -> Response:
        who, note = house.context.principal(request), house.context.note(request)
        with db.session() as session:
            done = granting.end_token(session, who, ident, note, house.context.clock())
        if not done:
            raise gone("token", ident, ("/me", "to my tokens"))
        return RedirectResponse("/me" if note.detail.get("user") == who.name else "/people", 303)
