"""The hot writes answer as their routes do, and refuse as their routes do."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.orm import Session

from farm.api import hot
from farm.api.hot_requests import HotRoute, HotWait
from farm.store.people import Scope
from tests.api.test_leases import add_device, see
from tests.served import Served, serve

__all__ = ["served"]


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serve(tmp_path_factory.mktemp("farm")) as farm:
        add_device(farm, "d1", soc="x")
        add_device(farm, "d2", soc="y")
        yield farm


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The actions that were answered without the ordinary way."""
    found: list[str] = []
    plain = hot.Hot._work

    def work(self: hot.Hot, session: Session, route: HotRoute, *rest: Any) -> Any:
        made = plain(self, session, route, *rest)
        if made is not None:
            found.append(route.action)
        return made

    monkeypatch.setattr(hot.Hot, "_work", work)
    return found


def test_both_ways_give_the_same_answer_and_leave_the_same_line(served: Served, taken: list[str]) -> None:
    served.ask("GET", "/api/devices")  # the token's use is noted
    see(served)
    odd = {"content-type": "application/json; charset=utf-8"}  # not plain: the ordinary way
    quick, slow = (
        served.ask("POST", "/api/reservations", json={"for_s": 600, "selector": f"soc={soc}"}, headers=headers)
        for soc, headers in (("x", {}), ("y", odd))
    )
    assert taken == ["reservation.ask"]
    assert (quick.status_code, slow.status_code) == (201, 201)
    assert quick.json().keys() == slow.json().keys()
    assert quick.json()["lease"].keys() == slow.json()["lease"].keys()
    assert dict(quick.headers).keys() - {"date"} == dict(slow.headers).keys() - {"date"}
    ident = quick.json()["lease"]["id"]
    again = [served.ask("POST", f"/api/leases/{ident}/release").json() for _ in range(2)]
    over = {"end_reason": "released by admin", "preempted_by": None}
    assert again == [{"id": ident, "released": True}, {"id": ident, "released": False, **over}]
    assert taken[1:] == ["lease.release"] * 2
    lines = served.ask("GET", "/api/audit").json()["lines"]
    assert [line["action"] for line in lines][:4] == ["lease.release"] * 2 + ["reservation.ask"] * 2
    assert lines[2]["detail"].keys() == lines[3]["detail"].keys()


def test_a_token_that_was_revoked_does_nothing_though_it_was_good_a_moment_ago(
    served: Served, taken: list[str]
) -> None:
    secret = served.new_token(Scope.READ, Scope.RESERVE)
    served.ask("GET", "/api/devices", secret)
    see(served)
    body = {"for_s": 600, "selector": "soc=x"}
    assert served.ask("POST", "/api/reservations", secret, json=body).status_code == 201
    [entry] = [row for row in served.ask("GET", "/api/tokens", secret).json()["tokens"] if row["used_at"]][-1:]
    assert served.ask("DELETE", f"/api/tokens/{entry['id']}", secret).status_code in (200, 204)
    assert served.ask("POST", "/api/reservations", secret, json=body).status_code == 401
    assert taken == ["reservation.ask"]


def test_what_is_refused_is_refused_as_ever(served: Served, taken: list[str]) -> None:
    served.ask("GET", "/api/devices")
    see(served)
    reader = served.new_token(Scope.READ)
    served.ask("GET", "/api/devices", reader)
    assert served.ask("POST", "/api/reservations", reader, json={"for_s": 600}).status_code == 403
    for body in ({"for_s": 0}, {"for_s": 600, "more": 1}, [], {"for_s": "600"}, {"for_s": 600, "selector": "soc=="}):
        answer = served.ask("POST", "/api/reservations", json=body)
        assert answer.status_code in (201, 422), body
        assert ("error" in answer.json()) is (answer.status_code == 422)
    gone = served.ask("POST", "/api/leases/999999/release")
    assert (gone.status_code, gone.json()["error"]["code"]) == (410, "lease-over")


def test_a_question_that_waits_is_answered_as_its_route_answers_it(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []
    plain = hot.Hot._look

    def look(self: hot.Hot, route: HotWait, secret: str | None, ident: int) -> Any:
        found.append(ident)
        return plain(self, route, secret, ident)

    monkeypatch.setattr(hot.Hot, "_look", look)
    served.ask("GET", "/api/devices")
    see(served)
    held = served.ask("POST", "/api/reservations", json={"for_s": 600, "selector": "soc=x"}).json()
    queued = served.ask("POST", "/api/reservations", json={"for_s": 600, "selector": "soc=x"}).json()
    for ident, state in ((held["id"], "active"), (queued["id"], "queued")):
        path = f"/api/reservations/{ident}"
        quick, slow = served.ask("GET", path + "?wait_s=0.01"), served.ask("GET", path)
        assert (quick.status_code, quick.json()) == (200, slow.json())
        assert quick.json()["state"] == state
        assert dict(quick.headers).keys() - {"date"} == dict(slow.headers).keys() - {"date"}
    assert set(found) == {held["id"], queued["id"]}
    assert served.ask("GET", "/api/reservations/999999?wait_s=5").status_code == 404
    assert served.ask("GET", f"/api/reservations/{held['id']}?wait_s=5", "no-such-token").status_code == 401
    assert served.ask("GET", f"/api/reservations/{held['id']}?wait_s=301").status_code == 422
