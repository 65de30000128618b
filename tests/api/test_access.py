"""Default deny, over every way into the application: a route that is added cannot be forgotten here.

Each is tried without a token, with a wrong one, and with one that has every scope but the one that it declares; and
each that writes must declare its scope and what it does.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from fastapi import APIRouter
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from farm.api.auth import Declared, declared, is_public
from farm.app import build
from farm.settings import load
from farm.store.people import Scope
from tests.served import Door, Served, doors

SAFE = ("GET", "HEAD")
#: Writes that leave no line in the audit log, each with the reason.
NOTHING_TO_NOTE = {
    "/api/runs/preview": "asks, changes nothing",
    "/api/runs/check": "asks, changes nothing",
    "/api/leases/{lease_id}/heartbeat": "comes every few seconds; the grant and the end of a lease are noted",
    "/api/blobs/{sha256}": "bytes without a name; the manifest that names them is noted",
}


def _doors() -> list[Door]:
    """Of the application as it is built, without starting it."""
    with tempfile.TemporaryDirectory() as state:
        farm = build(load({}, state=Path(state)), work=False)
        found = doors(list(farm.app.routes))
        farm.db.close()
    return [door for door in found if not is_public(door.path)]


DOORS = _doors()
WRITES = [door for door in DOORS if door.method not in SAFE]
everywhere = pytest.mark.parametrize("door", DOORS, ids=str)


def fill(path: str) -> str:
    """A path with something in place of every parameter that the route accepts."""
    path = path.replace("{sha256}", "0" * 64)
    return re.sub(r"\{[^}]+\}", "1", path)


def status_of(served: Served, door: Door, token: str | None) -> int:
    """How the farm answers at this door."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    path = fill(door.path)
    if door.method != "WEBSOCKET":
        return served.client.request(door.method, path, headers=headers).status_code
    try:
        with connect(served.origin.replace("http", "ws", 1) + path, additional_headers=headers):
            return 101
    except InvalidStatus as refused:
        # The handshake of a socket that is closed before it was accepted is answered with 403, whatever the reason.
        return refused.response.status_code


def wanted(door: Door) -> Scope:
    """The scope that the door declares; what only reads needs `read`."""
    said = declared(door.route)
    if said is not None:
        return said.scope
    return Scope.READ if door.method in SAFE else Scope.ADMIN


def test_the_walk_sees_the_whole_application(served: Served) -> None:
    paths = {door.path for door in DOORS}
    assert {"/api/runs", "/api/devices/{ref}", "/api/events", "/openapi.json", "/runs/new", "/", "/ui/runs"} <= paths
    assert {path for path in served.farm.app.openapi()["paths"] if not is_public(path)} <= paths
    assert len(WRITES) > 15


@everywhere
def test_without_a_token_every_door_is_shut(served: Served, door: Door) -> None:
    refused = {401, 403} if door.method == "WEBSOCKET" else {401}
    assert status_of(served, door, None) in refused
    assert status_of(served, door, "farm_" + "x" * 43) in refused


@everywhere
def test_a_token_with_every_scope_but_the_wanted_one_is_403(served: Served, door: Door) -> None:
    scope = wanted(door)
    others = [other for other in Scope if other not in (scope, Scope.ADMIN)]
    assert status_of(served, door, served.new_token(*others)) == 403


@everywhere
def test_a_token_with_no_scope_at_all_is_403(served: Served, door: Door) -> None:
    assert status_of(served, door, served.new_token()) == 403


@pytest.mark.parametrize("door", WRITES, ids=str)
def test_every_write_declares_the_scope_that_it_needs_and_what_it_does(door: Door) -> None:
    said = declared(door.route)
    assert said is not None, "declare it: dependencies=[needs(Scope.…, 'noun.verb')]"
    if said.action is None:
        assert door.path in NOTHING_TO_NOTE, "name what it does, or say here why there is nothing to note"
    else:
        assert re.fullmatch(r"[a-z-]+\.[a-z-]+", said.action)


def test_no_reason_is_kept_for_a_route_that_is_gone() -> None:
    assert set(NOTHING_TO_NOTE) <= {door.path for door in WRITES}


def test_a_write_that_declares_nothing_is_the_admins_alone(tmp_path: Path) -> None:
    from tests.served import serve

    forgotten = APIRouter()

    @forgotten.post("/api/forgotten")
    def forgot() -> dict[str, bool]:
        return {"done": True}

    with serve(tmp_path) as served:
        served.farm.app.include_router(forgotten)
        every = [scope for scope in Scope if scope is not Scope.ADMIN]
        assert served.ask("POST", "/api/forgotten", token=served.new_token(*every)).status_code == 403
        assert served.ask("POST", "/api/forgotten").json() == {"done": True}


def test_what_a_route_declares_is_found_among_its_dependencies() -> None:
    assert declared(object()) is None
    found = {str(door): declared(door.route) for door in WRITES}
    assert found["POST /api/runs"] == Declared(Scope.SUBMIT, "run.submit")
    assert found["DELETE /api/tokens/{ident}"] == Declared(Scope.READ, "token.revoke")
