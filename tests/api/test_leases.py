"""Reservations and leases over HTTP: had at once or waited for, kept, made longer, given back, taken away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from farm.store import leases, people, reservations, tables
from farm.store.people import Scope
from tests.served import Served, serve
from tests.waiting import eventually


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A farm of its own with the devices d1 and d2, seen just now."""
    with serve(tmp_path / "farm") as farm:
        for name, soc in (("d1", "x"), ("d2", "y")):
            add_device(farm, name, soc=soc)
        yield farm


def add_device(farm: Served, name: str, **labels: str) -> None:
    with farm.farm.db.session() as session:
        if session.get(tables.Host, "local") is None:
            session.add(tables.Host(name="local", drained=False, info={}))
            session.flush()
        seen = farm.farm.db.now(session)
        session.add(
            tables.Device(serial=name, name=name, host="local", labels=labels, connection="device", seen_at=seen)
        )


def token(farm: Served, user: str, team: str, *scopes: Scope) -> str:
    now = farm.farm.db.now()
    with farm.farm.db.session() as session:
        role = people.least_role(scopes).value
        made = people.ensure_user(session, user, now, role=role, team=team)
        return people.add_token(session, made.id, "test", scopes, now)[0]


def see(farm: Served) -> None:
    """Rows grow stale while no agent runs."""
    with farm.farm.db.session() as session:
        for row in session.scalars(select(tables.Device)):
            row.seen_at = farm.farm.db.now(session)


def ask(farm: Served, who: str | None = None, **more: Any) -> httpx.Response:
    see(farm)
    return farm.ask("POST", "/api/reservations", who, json={"for_s": 600, **more})


def free(farm: Served, lease_id: int) -> None:
    with farm.farm.db.session() as session:
        leases.end(session, lease_id, farm.farm.db.now(session), "cleaned")


def test_a_free_device_is_in_the_answer(served: Served) -> None:
    answer = ask(served, selector="soc=y", purpose="a look")
    assert answer.status_code == 201
    found = answer.json()
    assert (found["state"], found["lease"]["device"]["name"]) == ("active", "d2")
    shown = served.ask("GET", f"/api/reservations/{found['id']}").json()
    assert shown["lease"] == found["lease"]
    assert shown["purpose"] == "a look"
    [held] = served.ask("GET", "/api/leases").json()["leases"]
    assert held == found["lease"]


def test_a_held_device_is_waited_for_and_the_waiter_is_woken_by_the_grant(served: Served) -> None:
    first = ask(served, device="d1").json()
    queued = ask(served, device="d1").json()
    assert queued["state"] == "queued"
    answers: list[dict[str, Any]] = []
    path = f"/api/reservations/{queued['id']}"

    def wait() -> None:
        with httpx.Client(base_url=served.origin, timeout=120) as own:
            headers = {"Authorization": f"Bearer {served.token}"}
            answers.append(own.get(path, params={"wait_s": 100}, headers=headers).json())

    waiter = threading.Thread(target=wait)
    waiter.start()
    eventually(lambda: len(served.farm.app.state.waiters) == 1)
    free(served, first["lease"]["id"])
    with served.farm.db.session() as session:
        device = first["lease"]["device"]["id"]
        reservations.begin(session, queued["id"], device, served.farm.db.now(session))
    waiter.join(60)
    assert [answer["state"] for answer in answers] == ["active"]
    assert answers[0]["lease"]["token"] > first["lease"]["token"]
    eventually(lambda: not served.farm.app.state.waiters)


def test_a_wait_that_is_over_answers_with_what_is(served: Served) -> None:
    ask(served, device="d1")
    queued = ask(served, device="d1").json()
    answer = served.ask("GET", f"/api/reservations/{queued['id']}", params={"wait_s": 0.01})
    assert answer.json()["state"] == "queued"


def test_who_does_not_wait_is_told_at_once(served: Served) -> None:
    ask(served, device="d1")
    answer = ask(served, device="d1", wait_s=0).json()
    assert (answer["state"], answer["end_reason"]) == ("ended", "no device was free, and it was not to wait")


@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        ({"selector": "soc=z"}, 422, "no-match"),
        ({"selector": "soc=="}, 422, "bad-selector"),
        ({"device": "d9"}, 422, "unknown-device"),
        ({"for_s": 1}, 422, "bad-input"),
        ({"for_s": 10**9}, 422, "bad-input"),
        ({"for_s": float("inf")}, 422, "bad-input"),
        ({"colour": "red"}, 422, "bad-input"),
    ],
)
def test_what_cannot_work_is_refused_and_leaves_nothing(
    served: Served, more: dict[str, Any], status: int, code: str
) -> None:
    see(served)
    body = str({"for_s": 600, **more}).replace("'", '"').replace("inf", "Infinity")
    answer = served.ask("POST", "/api/reservations", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert served.ask("GET", "/api/reservations").json() == {"reservations": []}


def test_a_refusal_names_the_nearest_device_and_what_differs(served: Served) -> None:
    message = ask(served, selector="soc=z").json()["error"]["message"]
    assert "d1: soc is x" in message


def test_a_lease_is_given_back_by_its_holder_its_team_or_an_operator_and_by_nobody_else(served: Served) -> None:
    ann, bob, eve, olga = (
        token(served, name, team, Scope.READ, Scope.RESERVE, *more)
        for name, team, more in (
            ("ann", "red", ()),
            ("bob", "red", ()),
            ("eve", "blue", ()),
            ("olga", "ops", [Scope.OPERATE]),
        )
    )
    lease = ask(served, ann, device="d1").json()["lease"]["id"]
    for verb in ("heartbeat", "release", "extend"):
        json = {"by_s": 60} if verb == "extend" else None
        answer = served.ask("POST", f"/api/leases/{lease}/{verb}", eve, json=json)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not-yours"), verb
    assert served.ask("POST", f"/api/leases/{lease}/heartbeat", ann).status_code == 200
    assert served.ask("POST", f"/api/leases/{lease}/release", bob).json() == {"id": lease, "released": True}
    again = served.ask("POST", f"/api/leases/{lease}/release", ann).json()
    assert again == {"id": lease, "released": False, "end_reason": "released by bob", "preempted_by": None}
    assert served.ask("POST", f"/api/leases/{lease}/heartbeat", ann).status_code == 410
    free(served, lease)
    assert served.ask("POST", f"/api/leases/{lease}/release", ann).status_code == 410
    other = ask(served, ann, device="d1").json()["lease"]["id"]
    assert served.ask("POST", f"/api/leases/{other}/release", olga).json()["released"] is True


def test_a_lease_is_made_longer_up_to_the_cap(served: Served) -> None:
    lease = ask(served, device="d1").json()["lease"]
    longer = served.ask("POST", f"/api/leases/{lease['id']}/extend", json={"by_s": 3600}).json()
    assert longer["ends_at"] > lease["ends_at"]
    assert longer["extensions"] == 1
    answer = served.ask("POST", f"/api/leases/{lease['id']}/extend", json={"by_s": 86400})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "cannot-extend")
    assert "at most 24 h" in answer.json()["error"]["message"]


def test_only_an_operator_preempts_and_the_holder_reads_who_and_why(served: Served) -> None:
    ann = token(served, "ann", "red", Scope.READ, Scope.RESERVE)
    olga = token(served, "olga", "ops", Scope.READ, Scope.OPERATE)
    mine = ask(served, ann, device="d1").json()
    path = f"/api/leases/{mine['lease']['id']}/preempt"
    assert served.ask("POST", path, ann, json={"reason": "mine"}).status_code == 403
    assert served.ask("POST", path, olga, json={"reason": ""}).status_code == 422
    assert served.ask("POST", path, olga, json={"reason": "the lab moves"}).json()["user"] == "ann"
    shown = served.ask("GET", f"/api/reservations/{mine['id']}", ann).json()
    assert (shown["state"], shown["end_reason"]) == ("ended", "preempted by olga because the lab moves")
    assert served.ask("POST", path, olga, json={"reason": "again"}).status_code == 410


def test_whose_lease_was_preempted_reads_the_reason_wherever_they_ask_for_it(served: Served) -> None:
    ann = token(served, "ann", "red", Scope.READ, Scope.RESERVE)
    olga = token(served, "olga", "ops", Scope.READ, Scope.OPERATE)
    ident = ask(served, ann, device="d1").json()["lease"]["id"]
    path, words = f"/api/leases/{ident}", "preempted by olga because the lab moves"
    served.ask("POST", f"{path}/preempt", olga, json={"reason": "the lab moves"})
    told = {"end_reason": words, "preempted_by": "olga"}
    assert served.ask("POST", f"{path}/release", ann).json() == {"id": ident, "released": False, **told}
    [cleaning] = served.ask("GET", "/api/leases", ann).json()["leases"]
    assert told.items() <= cleaning.items()
    for cleaned in (False, True):
        if cleaned:
            free(served, ident)
        answer = served.ask("POST", f"{path}/extend", ann, json={"by_s": 60})
        error = answer.json()["error"]
        assert answer.status_code == (410 if cleaned else 409)
        assert words in error["message"]
        assert error["detail"] == told
        assert served.ask("POST", f"{path}/heartbeat", ann).json()["error"]["detail"] == told
        [taken] = served.ask("GET", "/api/leases", ann).json()["taken"]
        assert (taken["id"], taken["end_reason"]) == (ident, words)
    assert served.ask("GET", "/api/leases", olga).json()["taken"] == []
    assert "There is no lease 999." in served.ask("POST", "/api/leases/999/release", ann).json()["error"]["message"]


def test_an_attempts_lease_is_not_released_by_hand(served: Served) -> None:
    with served.farm.db.session() as session:
        now = served.farm.db.now(session)
        end = now + timedelta(hours=1)
        lease = leases.grant(session, 1, "attempt:1", None, now, end, team="default", user="admin")
    answer = served.ask("POST", f"/api/leases/{lease.id}/release")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "an-attempts")
    answer = served.ask("POST", f"/api/leases/{lease.id}/extend", json={"by_s": 60})
    assert answer.status_code == 409


def test_a_wish_is_withdrawn_by_its_own_people(served: Served) -> None:
    ann = token(served, "ann", "red", Scope.READ, Scope.RESERVE)
    eve = token(served, "eve", "blue", Scope.READ, Scope.RESERVE)
    held = ask(served, ann, device="d1").json()
    queued = ask(served, ann, device="d1").json()
    assert served.ask("DELETE", f"/api/reservations/{queued['id']}", eve).status_code == 403
    for one in (queued, held):
        assert served.ask("DELETE", f"/api/reservations/{one['id']}", ann).json()["ended"] is True
        shown = served.ask("GET", f"/api/reservations/{one['id']}", ann).json()
        assert (shown["state"], shown["end_reason"]) == ("ended", "withdrawn by ann")
    assert served.ask("DELETE", f"/api/reservations/{held['id']}", ann).json()["ended"] is False
    assert served.ask("DELETE", "/api/reservations/999", ann).status_code == 404


def test_no_more_wait_than_the_teams_quota(served: Served) -> None:
    ann = token(served, "ann", "red", Scope.READ, Scope.RESERVE)
    now = served.farm.db.now()
    with served.farm.db.session() as session:
        team = session.get(tables.Team, "red") or tables.Team(name="red", weight=1.0, created_at=now)
        team.max_waiting = 1
        session.add(team)
    ask(served, ann, device="d1")
    assert ask(served, ann, device="d1").json()["state"] == "queued"
    answer = ask(served, ann, device="d1")
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "too-many-waiting")
    assert "1 of 1" in answer.json()["error"]["message"]


def test_what_was_done_is_in_the_audit_log(served: Served) -> None:
    lease = ask(served, device="d1").json()["lease"]["id"]
    served.ask("POST", f"/api/leases/{lease}/extend", json={"by_s": 60})
    served.ask("POST", f"/api/leases/{lease}/release")
    with served.farm.db.read() as session:
        done = list(session.scalars(select(tables.Audit.action).order_by(tables.Audit.id)))
    assert done[-3:] == ["reservation.ask", "lease.extend", "lease.release"]
