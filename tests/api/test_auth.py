"""Nobody comes in without a token; nobody does more than its scopes allow."""

from __future__ import annotations

import stat
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from starlette.datastructures import Headers

from farm.api.auth import COOKIE, same_origin
from farm.api.sessions import local_path
from farm.store import people
from farm.store.people import Scope, TokenKind
from tests.served import Served, serve


def test_every_path_that_does_not_exist_is_401_as_well(served: Served) -> None:
    assert served.client.get("/api/secrets").status_code == 401
    assert served.client.get("/loginx").status_code == 401
    assert served.client.get("/static/../api/runs").status_code == 401


def test_a_token_is_shown_once_and_stored_hashed(served: Served) -> None:
    made = served.ask("POST", "/api/tokens", json={"name": "ci", "user": "robot", "scopes": ["read", "submit"]}).json()
    assert served.ask("GET", "/api/me", token=made["token"]).json()["name"] == "robot"
    assert made["token"] not in served.ask("GET", "/api/tokens?all=true").text
    kept = b"".join(path.read_bytes() for path in served.settings.state.glob("farm.sqlite*"))
    assert made["token"].encode() not in kept
    assert served.token.encode() not in kept


def test_a_revoked_token_is_401(served: Served) -> None:
    made = served.ask("POST", "/api/tokens", json={"name": "ci", "user": "robot", "scopes": ["read"]}).json()
    assert served.ask("DELETE", f"/api/tokens/{made['id']}").json()["revoked"] is True
    assert served.ask("GET", "/api/me", token=made["token"]).status_code == 401
    assert served.ask("DELETE", f"/api/tokens/{made['id']}").status_code == 404


def test_an_expired_token_is_401(served: Served) -> None:
    db = served.farm.db
    long_ago = db.now() - timedelta(days=3)
    with db.session() as session:
        user = people.ensure_user(session, "old", long_ago)
        secret, _ = people.add_token(session, user.id, "old", [Scope.READ], long_ago, lasts=timedelta(days=1))
    assert served.ask("GET", "/api/me", token=secret).status_code == 401


def test_the_local_token_is_readable_by_its_owner_alone(served: Served) -> None:
    file = served.settings.token_file
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(served.settings.state.stat().st_mode) == 0o700
    assert served.ask("GET", "/api/me", token=file.read_text().strip()).json()["kind"] == "local"


def test_the_admin_token_is_made_by_the_first_start_alone(tmp_path: Path) -> None:
    with serve(tmp_path) as first:
        local = first.settings.token_file.read_text()
        token = first.token
    with serve(tmp_path, token) as second:
        assert second.farm.first.admin_token is None
        assert second.ask("GET", "/api/me").status_code == 200
        assert second.settings.token_file.read_text() == local


def log_in(served: Served, **more: str) -> None:
    answer = served.client.post("/login", data={"token": served.token, **more})
    assert answer.status_code == 303, answer.text
    assert answer.headers["location"] == more.get("next", "/")


def test_a_token_becomes_a_session_cookie_that_no_script_reads(served: Served) -> None:
    answer = served.client.post("/login", data={"token": served.token, "next": "/runs"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs")
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith(COOKIE)
    assert {"httponly", "samesite=lax", "path=/"} <= {part.strip() for part in cookie.split(";")}
    assert served.token not in cookie
    assert served.client.get("/api/me").json()["kind"] == "session"


def test_a_session_does_not_serve_as_a_bearer_token_nor_a_token_as_a_session(served: Served) -> None:
    log_in(served)
    cookie = served.client.cookies[COOKIE]
    served.client.cookies.clear()
    assert served.ask("GET", "/api/me", token=cookie).status_code == 401
    served.client.cookies.set(COOKIE, served.token)
    assert served.client.get("/api/me").status_code == 401


def test_logging_out_ends_the_session_itself(served: Served) -> None:
    log_in(served)
    cookie = served.client.cookies[COOKIE]
    assert served.client.post("/logout", headers={"Origin": served.origin}).status_code == 303
    served.client.cookies.set(COOKIE, cookie)
    assert served.client.get("/api/me").status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "SELF"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Referer": "http://evil.example/SELF"}, 403),
        ({"Origin": "SELF"}, 201),
        ({"Referer": "SELF/runs/new"}, 201),
        ({"Sec-Fetch-Site": "same-origin"}, 201),
    ],
)
def test_a_write_with_the_cookie_must_come_from_our_own_pages(
    served: Served, headers: dict[str, str], status: int
) -> None:
    log_in(served)
    sent = {name: value.replace("SELF", served.origin) for name, value in headers.items()}
    answer = served.client.post("/api/login-links", headers=sent)
    assert answer.status_code == status, answer.text


def test_a_read_with_the_cookie_needs_no_origin(served: Served) -> None:
    log_in(served)
    assert served.client.get("/api/runs").status_code == 200


def test_another_origin_without_a_host_header_is_never_ours() -> None:
    assert not same_origin(Headers({"origin": "null"}))
    assert not same_origin(Headers({"origin": "", "host": ""}))
    assert not same_origin(Headers({"referer": "/runs", "host": ""}))


def test_a_login_form_on_another_site_is_refused(served: Served) -> None:
    answer = served.client.post("/login", data={"token": served.token}, headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_a_wrong_token_leads_back_to_the_form(served: Served) -> None:
    answer = served.client.post("/login", data={"token": "nonsense", "next": "/runs"})
    assert answer.headers["location"] == "/login?error=wrong-token&next=%2Fruns"
    assert served.client.get(answer.headers["location"]).status_code == 200


def test_who_guesses_must_wait_and_others_need_not(served: Served) -> None:
    with httpx.Client(base_url=served.origin, transport=httpx.HTTPTransport(local_address="127.0.0.9")) as guesser:
        for _ in range(10):
            assert guesser.post("/login", data={"token": "guess"}).status_code == 303
        answer = guesser.post("/login", data={"token": served.token})
    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= 60
    log_in(served)


def test_a_login_link_works_once(served: Served) -> None:
    path = served.ask("POST", "/api/login-links").json()["path"]
    first = served.client.get(path)
    assert (first.status_code, first.headers["location"]) == (303, "/")
    assert served.client.get("/api/me").json() == {
        "name": "admin", "team": "default", "role": "admin", "scopes": ["admin"], "kind": "session",
        "max_devices": None, "max_waiting": None,
    }  # fmt: skip
    served.client.cookies.clear()
    assert served.client.get(path).headers["location"] == "/login?error=expired-link"


def test_a_login_link_gives_no_more_than_its_maker_has(served: Served) -> None:
    token = served.new_token(Scope.READ, Scope.SUBMIT)
    served.client.get(served.ask("POST", "/api/login-links", token=token).json()["path"])
    assert served.client.get("/api/me").json()["scopes"] == ["read", "submit"]
    assert served.client.get("/api/users").status_code == 403


def test_a_login_code_is_no_token(served: Served) -> None:
    code = served.new_token(Scope.ADMIN, kind=TokenKind.LOGIN)
    assert served.ask("GET", "/api/me", token=code).status_code == 401


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:x", "", "/a\nb"]
)
def test_a_login_sends_nobody_to_another_site(target: str) -> None:
    assert local_path(target) == "/"


def test_a_browser_without_a_session_is_led_to_the_login_page_and_back(served: Served) -> None:
    answer = served.client.get("/runs?state=ended", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fruns%3Fstate%3Dended")
    fragment = served.client.get("/ui/fleet", headers={"Accept": "text/html", "HX-Request": "true"})
    assert (fragment.status_code, fragment.headers["hx-redirect"]) == (401, "/login")
    assert served.client.get("/api/runs", headers={"Accept": "text/html"}).status_code == 401


def test_a_used_token_says_when_it_was_used(served: Served) -> None:
    made = served.ask("POST", "/api/tokens", json={"name": "ci", "user": "robot", "scopes": ["read"]}).json()
    served.ask("GET", "/api/me", token=made["token"])
    entry = next(
        entry for entry in served.ask("GET", "/api/tokens?all=true").json()["tokens"] if entry["id"] == made["id"]
    )
    assert entry["used_at"] is not None
