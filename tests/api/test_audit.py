"""Whatever is done through any door leaves a line in the audit log that says to what, and what became different."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from farm.api.auth import declared
from farm.cli.upload import send_bundle, send_pack
from farm.store import leases
from farm.store import tables as t
from farm.store.people import Scope, TokenKind
from tests.api.rows import an_attempt
from tests.api.test_access import WRITES
from tests.api.test_bundles import bundle_folder, client_of, pack_folder
from tests.served import Served, serve

#: What only repeats whose line it is; it does not tell what became different.
REPEATS = {"serial", "user"}


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(tmp_path_factory.mktemp("audited")) as served:
        an_attempt(served)
        with served.farm.db.session() as session:
            row = session.get_one(t.Device, 1)
            row.labels, row.seen_at = {"abi": "x86_64"}, served.farm.db.now(session) + timedelta(hours=1)
            session.add(t.Cluster(id=1, created_at=served.farm.db.now(session)))
        yield served


class World:
    """Makes what a door needs, anew for each: the doors do not depend on each other's order."""

    def __init__(self, served: Served, folder: Path) -> None:
        self.served, self.folder = served, folder

    def do(self, method: str, path: str, **more: Any) -> None:
        answer = self.served.ask(method, path, follow_redirects=False, **more)
        assert answer.status_code < 400, f"{method} {path}: {answer.status_code} {answer.text[:300]}"

    def health(self, health: str) -> None:
        with self.served.farm.db.session() as session:
            row = session.get_one(t.Device, 1)
            row.health, row.health_reason, row.health_by = health, "it runs hot", "ann"

    def running(self) -> int:
        return an_attempt(self.served)[0]

    def failed(self) -> int:
        run, attempt = an_attempt(self.served, ended=True)
        with self.served.farm.db.session() as session:
            job = session.get_one(t.Attempt, attempt).job_id
            session.get_one(t.Job, job).outcome = session.get_one(t.Run, run).outcome = "failed"
        return run

    def wish(self) -> int:
        with self.served.farm.db.session() as session:
            now = self.served.farm.db.now(session)
            row = t.Reservation(
                state="queued",
                selector="*",
                created_by="admin",
                team="default",
                created_at=now,
                begins_at=now,
                lasts_s=60,
            )
            session.add(row)
            session.flush()
            return row.id

    def lease(self) -> int:
        wish = self.wish()
        with self.served.farm.db.session() as session:
            now = self.served.farm.db.now(session)
            device = t.Device(serial=f"leased-{wish}", name=f"leased-{wish}", host="local", seen_at=now)
            session.add(device)
            session.flush()
            end = now + timedelta(hours=1)
            who = {"user": "admin", "team": "default"}
            lease = leases.grant(session, device.id, f"reservation:{wish}", None, now, end, **who)
            row = session.get_one(t.Reservation, wish)
            row.state, row.lease_id = "active", lease.id
            return lease.id

    def held(self) -> None:
        self.do("POST", "/api/holds", json={"scope": "device", "name": "d1", "reason": "new cable"})

    def token(self) -> int:
        made = self.served.ask("POST", "/api/tokens", json={"name": "to be ended", "scopes": ["read"]})
        return int(made.json()["id"])

    def user(self, name: str) -> str:
        self.served.ask("POST", "/api/users", json={"name": name})
        return name

    def team(self, name: str) -> str:
        self.served.ask("PUT", f"/api/teams/{name}", json={"weight": 2.0})
        return name


BECAUSE = {"reason": "it runs hot"}
RUN = {"bundle": "b", "suites": ["smoke"], "selector": "*"}

#: Every door that notes something: what is done there.
DONE: dict[str, Callable[[World], object]] = {
    "POST /api/bundles": lambda w: client_send(w, "bundle"),
    "POST /api/packs": lambda w: client_send(w, "pack"),
    "PUT /api/clusters/{cluster_id}/mute": lambda w: w.do(
        "PUT", "/api/clusters/1/mute", json={"muted": True, "reason": "known"}
    ),
    "PUT /api/clusters/{cluster_id}/name": lambda w: w.do("PUT", "/api/clusters/1/name", json={"name": "no memory"}),
    "POST /ui/failures/{cluster_id}/mute": lambda w: w.do("POST", "/ui/failures/1/mute", data={"reason": "known"}),
    "POST /ui/failures/{cluster_id}/name": lambda w: w.do("POST", "/ui/failures/1/name", data={"name": "no memory"}),
    "POST /api/devices/{ref}/check": lambda w: w.do("POST", "/api/devices/d1/check"),
    "POST /ui/devices/{device_id}/check": lambda w: w.do("POST", "/ui/devices/1/check"),
    "POST /api/devices/{ref}/maintenance": lambda w: w.do("POST", "/api/devices/d1/maintenance", json=BECAUSE),
    "POST /ui/devices/{device_id}/maintenance": lambda w: w.do("POST", "/ui/devices/1/maintenance", data=BECAUSE),
    "POST /api/devices/{ref}/notes": lambda w: w.do("POST", "/api/devices/d1/notes", json={"text": "a new screen"}),
    "POST /ui/devices/{device_id}/notes": lambda w: w.do("POST", "/ui/devices/1/notes", data={"text": "a new screen"}),
    "POST /api/devices/{ref}/quarantine": lambda w: w.do("POST", "/api/devices/d1/quarantine", json=BECAUSE),
    "POST /ui/devices/{device_id}/quarantine": lambda w: w.do("POST", "/ui/devices/1/quarantine", data=BECAUSE),
    "POST /api/devices/{ref}/release": lambda w: (w.health("bad"), w.do("POST", "/api/devices/d1/release")),
    "POST /ui/devices/{device_id}/release": lambda w: (w.health("bad"), w.do("POST", "/ui/devices/1/release")),
    "POST /api/holds": lambda w: w.held(),
    "POST /ui/holds": lambda w: w.do("POST", "/ui/holds", data={"scope": "farm", "reason": "the move"}),
    "POST /api/holds/lift": lambda w: (
        w.held(), w.do("POST", "/api/holds/lift", json={"scope": "device", "name": "s1"})
    ),
    "POST /ui/holds/lift": lambda w: (w.held(), w.do("POST", "/ui/holds/lift", data={"scope": "device", "name": "s1"})),
    "POST /api/leases/{lease_id}/extend": lambda w: w.do("POST", f"/api/leases/{w.lease()}/extend", json={"by_s": 60}),
    "POST /ui/leases/{ident:int}/extend": lambda w: w.do("POST", f"/ui/leases/{w.lease()}/extend", data={"hours": 1}),
    "POST /api/leases/{lease_id}/preempt": lambda w: w.do("POST", f"/api/leases/{w.lease()}/preempt", json=BECAUSE),
    "POST /ui/leases/{ident:int}/preempt": lambda w: w.do("POST", f"/ui/leases/{w.lease()}/preempt", data=BECAUSE),
    "POST /api/leases/{lease_id}/release": lambda w: w.do("POST", f"/api/leases/{w.lease()}/release"),
    "POST /ui/leases/{ident:int}/release": lambda w: w.do("POST", f"/ui/leases/{w.lease()}/release"),
    "POST /api/login-links": lambda w: w.do("POST", "/api/login-links"),
    "POST /logout": lambda w: log_out(w),
    "POST /api/reservations": lambda w: w.do("POST", "/api/reservations", json={"selector": "name=d1", "for_s": 60}),
    "POST /ui/reservations": lambda w: w.do("POST", "/ui/reservations", data={"selector": "name=d1", "lasts": "1h"}),
    "DELETE /api/reservations/{ident}": lambda w: w.do("DELETE", f"/api/reservations/{w.wish()}"),
    "POST /ui/reservations/{ident:int}/withdraw": lambda w: w.do("POST", f"/ui/reservations/{w.wish()}/withdraw"),
    "POST /api/runs": lambda w: w.do("POST", "/api/runs", json=RUN),
    "POST /ui/runs": lambda w: w.do("POST", "/ui/runs", data=RUN),
    "POST /api/runs/{run_id}/cancel": lambda w: w.do("POST", f"/api/runs/{w.running()}/cancel"),
    "POST /ui/runs/{run_id:int}/cancel": lambda w: w.do("POST", f"/ui/runs/{w.running()}/cancel"),
    "POST /api/runs/{run_id}/rerun": lambda w: w.do("POST", f"/api/runs/{w.failed()}/rerun"),
    "POST /ui/runs/{run_id:int}/rerun": lambda w: w.do("POST", f"/ui/runs/{w.failed()}/rerun"),
    "PUT /api/teams/{name}": lambda w: w.do("PUT", "/api/teams/red", json={"weight": 2}),
    "POST /ui/teams": lambda w: w.do("POST", "/ui/teams", data={"name": "blue", "weight": "2"}),
    "DELETE /api/teams/{name}": lambda w: w.do("DELETE", f"/api/teams/{w.team('old')}"),
    "POST /ui/teams/{name}/remove": lambda w: w.do("POST", f"/ui/teams/{w.team('older')}/remove"),
    "POST /api/tokens": lambda w: w.do("POST", "/api/tokens", json={"name": "ci", "scopes": ["read"]}),
    "POST /ui/tokens": lambda w: w.do("POST", "/ui/tokens", data={"name": "ci", "scopes": ["read"]}),
    "DELETE /api/tokens/{ident}": lambda w: w.do("DELETE", f"/api/tokens/{w.token()}"),
    "POST /ui/tokens/{ident:int}/revoke": lambda w: w.do("POST", f"/ui/tokens/{w.token()}/revoke"),
    "POST /api/users": lambda w: w.do("POST", "/api/users", json={"name": "eve"}),
    "POST /ui/users": lambda w: w.do("POST", "/ui/users", data={"name": "eva"}),
    "PATCH /api/users/{name}": lambda w: w.do("PATCH", f"/api/users/{w.user('fay')}", json={"role": "operator"}),
    "POST /ui/users/{name}": lambda w: w.do("POST", f"/ui/users/{w.user('flo')}", data={"role": "operator"}),
}  # fmt: skip


def client_send(world: World, kind: str) -> None:
    if kind == "bundle":
        send_bundle(client_of(world.served), bundle_folder(world.folder))
    else:
        send_pack(client_of(world.served), pack_folder(world.folder))


def log_out(world: World) -> None:
    secret = world.served.new_token(Scope.READ, kind=TokenKind.SESSION)
    headers = {"Cookie": f"farm_session={secret}", "Origin": world.served.origin}
    answer = world.served.client.post("/logout", headers=headers, follow_redirects=False)
    assert answer.status_code == 303, answer.text


def newest(served: Served) -> dict[str, Any]:
    return dict(served.ask("GET", "/api/audit", params={"limit": 1}).json()["lines"][0])


NOTED = [door for door in WRITES if (said := declared(door.route)) is not None and said.action is not None]


@pytest.mark.parametrize("door", NOTED, ids=str)
def test_a_line_says_to_what_and_what_became_different(farm: Served, tmp_path: Path, door: Any) -> None:
    assert str(door) in DONE, "say here what is done at the new door"
    world = World(farm, tmp_path / "folder")
    world.health("good")
    DONE[str(door)](world)
    line, said = newest(farm), declared(door.route)
    assert said is not None
    assert line["action"] == said.action
    assert line["target"]
    assert line["who"] in ("admin", "tester")
    told = {key for key, value in line["detail"].items() if value not in (None, "", [], {})}
    assert told - REPEATS, f"{line['action']} {line['target']}: the detail says nothing"


def test_no_door_is_kept_that_is_gone() -> None:
    assert set(DONE) == {str(door) for door in NOTED}


def test_a_note_and_a_release_are_told_in_full(farm: Served, tmp_path: Path) -> None:
    farm.ask("POST", "/api/devices/s1/notes", json={"text": "a new screen"})
    line = newest(farm)
    assert (line["target"], line["detail"]) == ("device d1", {"serial": "s1", "text": "a new screen"})
    World(farm, tmp_path).health("bad")
    farm.ask("POST", "/api/devices/1/release")
    assert newest(farm)["detail"] == {"serial": "s1", "was": "bad: it runs hot"}


def test_what_changes_nothing_is_not_noted(farm: Served, tmp_path: Path) -> None:
    World(farm, tmp_path).user("gus")
    before = newest(farm)
    assert farm.ask("PATCH", "/api/users/gus", json={"role": "member"}).status_code == 200
    assert farm.ask("POST", "/api/holds/lift", json={"scope": "host", "name": "local"}).status_code == 200
    assert newest(farm) == before


def test_a_login_and_a_failed_one_say_how(farm: Served) -> None:
    link = farm.ask("POST", "/api/login-links").json()["path"]
    assert farm.client.get(link, follow_redirects=False).status_code == 303
    assert (newest(farm)["action"], newest(farm)["detail"]) == ("login.succeed", {"way": "link"})
    farm.client.get(link, follow_redirects=False)
    assert newest(farm)["action"] == "login.fail"
    assert newest(farm)["detail"]["why"]
