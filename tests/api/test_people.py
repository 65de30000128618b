"""Users, teams, tokens and the audit log over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farm.api.auth import COOKIE
from farm.store import tables as t
from farm.store.people import Scope
from tests.api.rows import an_attempt
from tests.served import Served, serve


def token_of(served: Served, user: str, *scopes: str, **more: object) -> str:
    """A new token of `user`, who is made when there is none."""
    body = {"name": "test", "user": user, "scopes": scopes, **more}
    answer = served.ask("POST", "/api/tokens", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["token"])


def lines(served: Served, **query: object) -> list[dict[str, object]]:
    answer = served.ask("GET", "/api/audit", params=query)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["lines"])


def test_a_member_makes_sees_and_ends_their_own_tokens_alone(served: Served) -> None:
    ann, bob = token_of(served, "ann", "read", "submit"), token_of(served, "bob", "read", "submit")
    made = served.ask("POST", "/api/tokens", token=ann, json={"name": "mine", "scopes": ["read"], "days": 3}).json()
    assert served.ask("GET", "/api/me", token=made["token"]).json()["scopes"] == ["read"]
    shown = served.ask("GET", "/api/tokens", token=ann).json()["tokens"]
    assert {entry["user"] for entry in shown} == {"ann"}
    assert served.ask("GET", "/api/tokens?all=true", token=ann).status_code == 403
    assert served.ask("DELETE", f"/api/tokens/{made['id']}", token=bob).status_code == 404
    assert served.ask("DELETE", f"/api/tokens/{made['id']}", token=ann).status_code == 200
    assert served.ask("GET", "/api/me", token=made["token"]).status_code == 401


def test_a_token_that_would_have_more_than_its_maker_is_refused(served: Served) -> None:
    ann = token_of(served, "ann2", "read", "submit")
    for body in (
        {"name": "x", "scopes": ["admin"]},
        {"name": "x", "scopes": ["read", "operate"]},
        {"name": "x", "scopes": ["read"], "user": "admin"},
        {"name": "x", "scopes": ["read"], "team": "other"},
    ):
        answer = served.ask("POST", "/api/tokens", token=ann, json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not-granted"), body


def test_a_tokens_quota_and_team_are_told(served: Served) -> None:
    token = token_of(served, "ci", "read", "submit", team="vision", max_devices=2, max_waiting=40)
    me = served.ask("GET", "/api/me", token=token).json()
    assert (me["team"], me["max_devices"], me["max_waiting"]) == ("vision", 2, 40)
    assert "vision" in [team["name"] for team in served.ask("GET", "/api/teams", token=token).json()["teams"]]


@pytest.mark.parametrize("kind", ["bearer", "cookie"])
def test_who_is_disabled_is_out_with_the_next_request(served: Served, kind: str) -> None:
    token = token_of(served, f"carl-{kind}", "read")
    if kind == "cookie":
        served.client.post("/login", data={"token": token})
        assert served.client.get("/api/me").status_code == 200
    assert served.ask("PATCH", f"/api/users/carl-{kind}", json={"disabled": True}).json()["changed"]
    if kind == "cookie":
        assert COOKIE in served.client.cookies
        assert served.client.get("/api/me").status_code == 401
    else:
        assert served.ask("GET", "/api/me", token=token).status_code == 401
    assert served.client.post("/login", data={"token": token}).headers["location"].startswith("/login?error")
    refused = served.ask("POST", "/api/tokens", json={"name": "x", "user": f"carl-{kind}", "scopes": ["read"]})
    assert refused.status_code == 403
    assert "disabled" in refused.json()["error"]["message"]


def test_a_role_holds_for_the_tokens_that_are_there(served: Served) -> None:
    token = token_of(served, "dora", "read", "submit", "operate")
    assert served.ask("GET", "/api/me", token=token).json()["role"] == "operator"
    assert served.ask("PATCH", "/api/users/dora", json={"role": "viewer", "team": "guests"}).status_code == 200
    me = served.ask("GET", "/api/me", token=token).json()
    assert (me["scopes"], me["team"]) == (["read"], "guests")


def test_the_only_admin_stays(tmp_path: Path) -> None:
    with serve(tmp_path) as served:
        for change in ({"role": "member"}, {"disabled": True}):
            answer = served.ask("PATCH", "/api/users/admin", json=change)
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "last-admin")


def test_users_are_made_once_and_listed(served: Served) -> None:
    body = {"name": "eve", "team": "audio", "role": "viewer"}
    assert served.ask("POST", "/api/users", json=body).status_code == 201
    assert served.ask("POST", "/api/users", json=body).status_code == 409
    eve = next(user for user in served.ask("GET", "/api/users").json()["users"] if user["name"] == "eve")
    assert (eve["team"], eve["role"], eve["tokens"], eve["seen_at"]) == ("audio", "viewer", 0, None)
    assert served.ask("PATCH", "/api/users/nobody", json={}).status_code == 404
    assert served.ask("POST", "/api/users", json={"name": "../x"}).status_code == 422


def test_a_team_is_set_and_taken_away_when_it_is_empty(served: Served) -> None:
    assert served.ask("PUT", "/api/teams/speech", json={"weight": 2, "max_devices": 3}).status_code == 200
    team = next(team for team in served.ask("GET", "/api/teams").json()["teams"] if team["name"] == "speech")
    assert (team["weight"], team["max_devices"], team["max_waiting"]) == (2.0, 3, None)
    served.ask("POST", "/api/users", json={"name": "flo", "team": "speech"})
    assert served.ask("DELETE", "/api/teams/speech").status_code == 409
    served.ask("PATCH", "/api/users/flo", json={"team": "default"})
    assert served.ask("DELETE", "/api/teams/speech").json()["removed"] is True
    assert served.ask("PUT", "/api/teams/speech", json={"weight": 0}).status_code == 422


def test_runs_are_listed_by_team(served: Served) -> None:
    mine, _ = an_attempt(served)
    other, _ = an_attempt(served)
    with served.farm.db.session() as session:
        session.get_one(t.Run, mine).team = "vision"
    shown = served.ask("GET", "/api/runs?team=vision").json()["runs"]
    assert [run["id"] for run in shown] == [mine]
    assert other not in [run["id"] for run in shown]


def test_a_run_is_cancelled_and_repeated_by_its_team_or_an_operator(served: Served) -> None:
    run, _ = an_attempt(served)
    with served.farm.db.session() as session:
        session.get_one(t.Run, run).team = "vision"
    ann, op = token_of(served, "ida", "read", "submit"), token_of(served, "jon", "read", "submit", "operate")
    own = token_of(served, "kim", "read", "submit", team="vision")
    for action in ("cancel", "rerun"):
        answer = served.ask("POST", f"/api/runs/{run}/{action}", token=ann)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "other-team")
    assert served.ask("POST", f"/api/runs/{run}/cancel", token=own).status_code == 202
    assert served.ask("POST", f"/api/runs/{run}/cancel", token=op).status_code in (202, 422)


def test_a_live_stream_ends_with_its_token(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farm.api.events.KEEP_ALIVE_S", 0.1)
    made = served.ask("POST", "/api/tokens", json={"name": "watch", "scopes": ["read"]}).json()
    headers = {"Authorization": f"Bearer {made['token']}"}
    with served.client.stream("GET", "/api/events", headers=headers) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "retry: 2000"
        assert served.ask("DELETE", f"/api/tokens/{made['id']}").status_code == 200
        assert list(lines)[-1] == "", "it ends, instead of going on for a quarter of an hour"


def test_what_is_done_is_noted_with_who_and_from_where(served: Served) -> None:
    an_attempt(served)
    run, _ = an_attempt(served)
    token = token_of(served, "gil", "read", "submit")
    assert served.ask("POST", f"/api/runs/{run}/cancel", token=token).status_code == 202
    newest = lines(served, limit=1)[0]
    assert {
        "who": "gil",
        "action": "run.cancel",
        "target": f"run {run}",
        "address": "127.0.0.1",
    }.items() <= newest.items()
    made = lines(served, action="token.create", who="admin")[0]
    assert made["detail"]["user"] == "gil"  # type: ignore[index]
    assert made["detail"]["scopes"] == ["read", "submit"]  # type: ignore[index]


def test_what_was_refused_or_failed_is_not_noted_as_done(served: Served) -> None:
    before = lines(served, limit=1)
    assert served.ask("POST", "/api/runs", json={"bundle": "nothing", "suites": ["x"]}).status_code == 422
    assert served.ask("POST", "/api/runs/9999/cancel").status_code == 404
    assert served.ask("DELETE", "/api/tokens/9999").status_code == 404
    assert served.ask("POST", "/api/runs/1/cancel", token=served.new_token(Scope.READ)).status_code == 403
    assert lines(served, limit=1) == before


def test_logins_and_failed_logins_are_noted_and_no_secret_with_them(tmp_path: Path) -> None:
    with serve(tmp_path) as served:
        guess = "farm_" + "g" * 43
        served.client.post("/login", data={"token": guess})
        served.client.get(f"/login/once/{guess}")
        served.client.post("/login", data={"token": served.token})
        served.client.post("/logout", headers={"Origin": served.origin})
        served.client.cookies.clear()
        link = served.ask("POST", "/api/login-links").json()["path"]
        served.client.get(link)
        served.client.cookies.clear()
        found = [(line["action"], line["who"], line["target"]) for line in reversed(lines(served, action="login"))]
        assert found == [
            ("login.fail", "nobody", "token"),
            ("login.fail", "nobody", "link"),
            ("login.succeed", "admin", "user admin"),
            ("login.end", "admin", "user admin"),
            ("login.succeed", "admin", "user admin"),
        ]
        told = json.dumps(lines(served, limit=500))
        assert guess not in told
        assert served.token not in told
        assert link.rpartition("/")[2] not in told


def test_a_viewer_can_log_out(served: Served) -> None:
    served.client.post("/login", data={"token": token_of(served, "hal", "read")})
    assert served.client.post("/logout", headers={"Origin": served.origin}).status_code == 303
    assert served.client.get("/api/me").status_code == 401


def test_the_audit_log_is_the_admins_alone(served: Served) -> None:
    every = [scope for scope in Scope if scope is not Scope.ADMIN]
    assert served.ask("GET", "/api/audit", token=served.new_token(*every)).status_code == 403
