"""Logging in through an identity provider: a real one, in a process of its own, and what it may get wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from farm.api.auth import COOKIE
from farm.api.oidc import STATE_COOKIE
from farm.oidc_settings import Oidc, load_oidc
from farm.settings import SettingsError, load
from farm.store import logins, users
from farm.store import tables as t
from tests.oidc_provider import CLIENT_ID, CLIENT_SECRET
from tests.served import Served, serve

ADDRESSES = count(1)
PEOPLE: dict[str, Any] = {
    "sub": "1001",
    "preferred_username": "ann",
    "email": "ann@example.com",
    "email_verified": True,
    "groups": ["ml"],
}


@dataclass(slots=True)
class Login:
    """A farm whose people log in through a provider."""

    served: Served
    issuer: str
    client: httpx.Client

    def provider(self, **asked: Any) -> None:
        """Who comes next (`people`), and what the provider does wrong then."""
        httpx.post(f"{self.issuer}/fault", json={"people": PEOPLE, **asked}, timeout=60).raise_for_status()

    def leave(self, target: str = "/") -> str:
        """Begin; the address at the provider that the browser is sent to."""
        answer = self.client.get("/login/oidc", params={"next": target})
        assert answer.status_code == 303
        return answer.headers["location"]

    def come_back(self, there: str) -> str:
        """The address that the provider sends the browser back to, as a path of the farm."""
        back = urlsplit(httpx.get(there, timeout=60).headers["location"])
        assert f"http://{back.netloc}" == self.served.origin
        return f"{back.path}?{back.query}"

    def log_in(self, target: str = "/") -> httpx.Response:
        return self.client.get(self.come_back(self.leave(target)))

    def refused(self) -> tuple[str, str]:
        """A login that fails: (what the login page is told, what the audit log says)."""
        answer = self.log_in()
        assert COOKIE not in self.client.cookies
        line = self.served.ask("GET", "/api/audit?limit=1").json()["lines"][0]
        assert (line["action"], line["who"]) == ("login.fail", "nobody")
        return answer.headers["location"].removeprefix("/login?error="), line["detail"]["why"]


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.oidc_provider"]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


def provider_settings(issuer: str, folder: Path, **more: Any) -> Oidc:
    secret = folder / "secret"
    secret.write_text(CLIENT_SECRET + "\n")
    chosen: dict[str, Any] = {"allow_groups": ("ml", "lab"), "allow_domains": ("example.com",)}
    chosen |= {"teams": (("ml", "vision"),), "roles": (("lab", "operator"),)}
    return Oidc(issuer, CLIENT_ID, secret, **{**chosen, **more})


@pytest.fixture(scope="module")
def farm_with_provider(issuer: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("oidc")
    with serve(folder / "farm", oidc=provider_settings(issuer, folder)) as served:
        yield served


@pytest.fixture
def login(farm_with_provider: Served, issuer: str) -> Iterator[Login]:
    """A browser that nobody has logged in, at an address that has not failed yet; the provider does nothing wrong."""
    here = httpx.HTTPTransport(local_address=f"127.1.0.{next(ADDRESSES)}")
    with httpx.Client(base_url=farm_with_provider.origin, transport=here, timeout=60) as client:
        login = Login(farm_with_provider, issuer, client)
        login.provider()
        yield login


def me(login: Login) -> dict[str, Any]:
    answer = login.client.get("/api/me")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_person_logs_in_and_arrives_where_they_wanted_to_go(login: Login) -> None:
    answer = login.log_in("/runs?state=ended")
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs?state=ended")
    found = me(login)
    assert (found["name"], found["team"], found["role"], found["kind"]) == ("ann", "vision", "member", "session")
    assert found["scopes"] == ["read", "reserve", "submit"]
    login.client.cookies.clear()
    login.log_in()
    assert me(login)["name"] == "ann", "the second login finds the same user"


def test_two_first_logins_of_one_person_at_once_make_one_user(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def by_subject(session: Session, issuer: str, subject: str) -> t.User | None:
        seen.append(subject)
        if len(seen) == 1:  # somebody else's transaction makes the user between our look and our insert
            users.add_by_subject(
                session, issuer, subject, "eve", datetime.now(UTC), role=users.Role.MEMBER, team="vision"
            )
            return None
        return found(session, issuer, subject)

    found = users.by_subject
    monkeypatch.setattr(users, "by_subject", by_subject)
    login.provider(people={**PEOPLE, "sub": "9009", "preferred_username": "eve"})
    assert login.log_in().headers["location"] == "/"
    assert me(login)["name"] == "eve"
    assert len(seen) == 2


def test_the_way_there_carries_state_nonce_and_a_challenge_and_no_secret(login: Login) -> None:
    asked = parse_qs(urlsplit(login.leave()).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert len(asked["state"][0]) > 30
    assert len(asked["nonce"][0]) > 30
    assert asked["redirect_uri"] == [f"{login.served.origin}/login/oidc/back"]
    assert CLIENT_SECRET not in str(asked)
    assert "code_verifier" not in asked
    cookie = next(cookie for cookie in login.client.cookies.jar if cookie.name == STATE_COOKIE)
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert asked["nonce"][0] not in str(cookie.value)


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:x"])
def test_a_login_leads_to_no_other_site(login: Login, target: str) -> None:
    assert login.log_in(target).headers["location"] == "/"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ({"claims": {"nonce": "another"}}, "nonce"),
        ({"claims": {"nonce": None}}, "nonce"),
        ({"claims": {"aud": "another-client"}}, "aud"),
        ({"claims": {"aud": [CLIENT_ID, "another"]}}, "azp"),
        ({"claims": {"azp": "another-client"}}, "azp"),
        ({"claims": {"iss": "https://evil.example"}}, "iss"),
        ({"claims": {"exp": 1_000_000_000}}, "expired"),
        ({"claims": {"iat": 99_999_999_999}}, "issued in the future"),
        ({"claims": {"sub": None}}, "sub"),
        ({"claims": {"sub": ""}}, "sub"),
        ({"claims": {"sub": 1001}}, "sub"),
        ({"claims": {"at_hash": "wrong"}}, "at_hash"),
        ({"sign": "stranger"}, "signature"),
        ({"sign": "none"}, "cannot be believed"),
        ({"sign": "secret"}, "cannot be believed"),
        ({"sign": "public-key"}, "cannot be believed"),
        ({"no-id-token": True}, "no ID token"),
    ],
    ids=str,
)
def test_an_id_token_that_is_not_right_in_everything_lets_nobody_in(
    login: Login, fault: dict[str, Any], why: str
) -> None:
    login.provider(**fault)
    code, said = login.refused()
    assert code == "oidc-provider"
    assert why in said


def test_a_state_works_once(login: Login) -> None:
    back = login.come_back(login.leave())
    cookie = login.client.cookies[STATE_COOKIE]
    assert login.client.get(back).headers["location"] == "/"
    login.client.cookies.clear()
    login.client.cookies.set(STATE_COOKIE, cookie)
    assert login.client.get(back).headers["location"] == "/login?error=oidc-state"
    assert COOKIE not in login.client.cookies


def test_a_state_of_another_browser_logs_nobody_in(login: Login) -> None:
    back = login.come_back(login.leave())
    for cookies in ({}, {STATE_COOKIE: "x" * 43}):
        login.client.cookies.clear()
        login.client.cookies.update(cookies)
        assert login.client.get(back).headers["location"] == "/login?error=oidc-state"
    assert COOKIE not in login.client.cookies


def test_a_state_that_nobody_began_or_that_is_too_old_is_refused(login: Login) -> None:
    login.client.cookies.set(STATE_COOKIE, "made-up")
    answer = login.client.get("/login/oidc/back?code=x&state=made-up")
    assert answer.headers["location"] == "/login?error=oidc-state"
    login.client.cookies.clear()
    back = login.come_back(login.leave())
    with login.served.farm.db.session() as session:
        session.execute(update(t.PendingLogin).values(expires_at=login.served.farm.db.now() - timedelta(seconds=1)))
    assert login.client.get(back).headers["location"] == "/login?error=oidc-state"


def test_a_code_of_another_login_is_refused_for_its_verifier(login: Login) -> None:
    stolen = parse_qs(urlsplit(login.come_back(login.leave())).query)["code"][0]
    there = login.leave()
    state = parse_qs(urlsplit(there).query)["state"][0]
    answer = login.client.get("/login/oidc/back", params={"code": stolen, "state": state})
    assert answer.headers["location"] == "/login?error=oidc-provider"


def test_who_is_turned_away_by_the_provider_is_told(login: Login) -> None:
    login.provider(deny=True)
    assert login.refused()[0] == "oidc-refused"


def test_new_keys_of_the_provider_are_fetched(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    login.log_in()
    login.client.cookies.clear()
    monkeypatch.setattr("farm.api.provider.KEYS_AGAIN_S", -1.0)
    login.provider(rotate=True)
    assert login.log_in().headers["location"] == "/"


@pytest.mark.parametrize(
    ("changes", "admitted"),
    [
        ({"groups": ["lab"], "email": None}, True),
        ({"groups": "ml", "email": None}, True),
        ({"groups": [], "email": "x@example.com"}, True),
        ({"groups": [], "email": "x@example.com", "email_verified": False}, False),
        ({"groups": [], "email": "x@example.com", "email_verified": "true"}, False),
        ({"groups": [], "email": "x@evil-example.com"}, False),
        ({"groups": [], "email": "x@example.com@evil.example"}, False),
        ({"groups": [], "email": None}, False),
        ({"groups": {"ml": 1}, "email": None}, False),
    ],
    ids=str,
)
def test_who_is_in_no_group_and_no_domain_that_is_let_in_stays_out(
    login: Login, changes: dict[str, Any], admitted: bool
) -> None:
    login.provider(people={**PEOPLE, "sub": "2002", "preferred_username": "bob", **changes})
    if admitted:
        assert login.log_in().headers["location"] == "/"
        assert me(login)["name"].startswith("bob")
    else:
        assert login.refused()[0] == "oidc-not-admitted"


def test_a_group_decides_the_role_at_every_login(login: Login) -> None:
    carl = {**PEOPLE, "sub": "3003", "preferred_username": "carl"}
    for groups, role in ((["ml", "lab"], "operator"), (["ml"], "member")):
        login.provider(people={**carl, "groups": groups})
        login.log_in()
        assert me(login)["role"] == role
        login.client.cookies.clear()


def test_who_is_called_like_the_admin_is_another_person(login: Login) -> None:
    login.provider(people={**PEOPLE, "sub": "4004", "preferred_username": "admin"})
    login.log_in()
    assert me(login)["name"] == "admin-2"
    assert me(login)["role"] == "member"


def test_who_was_disabled_does_not_come_back(login: Login) -> None:
    login.provider(people={**PEOPLE, "sub": "5005", "preferred_username": "dora"})
    login.log_in()
    db = login.served.farm.db
    with db.session() as session:
        user = users.by_subject(session, login.issuer, "5005")
        assert user is not None
        users.change(session, user, db.now(), disabled=True)
    assert login.client.get("/api/me").status_code == 401
    login.client.cookies.clear()
    assert login.refused() == ("oidc-not-admitted", "an admin has disabled you here")


def test_who_logs_in_so_makes_tokens_of_their_own(login: Login) -> None:
    login.log_in()
    made = login.client.post(
        "/api/tokens", json={"name": "ci", "scopes": ["read", "submit"]}, headers={"Origin": login.served.origin}
    )
    assert made.status_code == 201, made.text
    shown = login.served.ask("GET", "/api/me", token=made.json()["token"]).json()
    assert (shown["name"], shown["team"]) == ("ann", "vision")


def test_failed_logins_are_slowed_down_here_as_well(login: Login) -> None:
    for _ in range(10):
        assert login.client.get("/login/oidc/back?state=x&code=y").status_code == 303
    assert login.client.get("/login/oidc/back?state=x&code=y").status_code == 429
    assert login.client.get("/login/oidc").status_code == 429


def test_logins_on_their_way_are_bounded(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "MOST", 0)
    assert login.client.get("/login/oidc").status_code == 503


def test_a_provider_that_calls_itself_otherwise_is_not_used(issuer: str, tmp_path: Path) -> None:
    httpx.post(f"{issuer}/fault", json={"issuer": "https://evil.example"}, timeout=60)
    with serve(tmp_path / "farm", oidc=provider_settings(issuer, tmp_path)) as served:
        assert served.client.get("/login/oidc").headers["location"] == "/login?error=oidc-provider"
        said = served.ask("GET", "/api/audit?limit=1").json()["lines"][0]["detail"]["why"]
        assert "calls itself 'https://evil.example'" in said


def test_a_provider_that_is_away_is_told_and_tokens_still_work(tmp_path: Path) -> None:
    with serve(tmp_path / "farm", oidc=provider_settings("http://127.0.0.1:1", tmp_path)) as served:
        assert served.client.get("/login/oidc").headers["location"] == "/login?error=oidc-provider"
        page = served.client.get("/login?error=oidc-provider", headers={"Accept": "text/html"}).text
        assert "log in through 127.0.0.1" in page
        assert "could not be used" in page
        assert served.client.post("/login", data={"token": served.token}).headers["location"] == "/"


def test_without_a_provider_there_is_no_such_way_in(tmp_path: Path) -> None:
    with serve(tmp_path) as served:
        assert served.client.get("/login/oidc").status_code == 404
        assert "log in through" not in served.client.get("/login", headers={"Accept": "text/html"}).text


COMPLETE = {"FARM_OIDC_ISSUER": "https://id.example", "FARM_OIDC_CLIENT_ID": "farm", "FARM_OIDC_ALLOW_DOMAINS": "*"}


def test_settings_are_read_from_the_environment() -> None:
    found = load_oidc(
        {
            **COMPLETE,
            "FARM_OIDC_ALLOW_DOMAINS": "Example.com, b.example",
            "FARM_OIDC_TEAMS": "ml=vision, cn=lab=hardware",
            "FARM_OIDC_ROLES": "lab=operator",
        }
    )
    assert found is not None
    assert found.allow_domains == ("example.com", "b.example")
    assert found.teams == (("ml", "vision"), ("cn=lab", "hardware"))
    assert found.roles == (("lab", "operator"),)
    assert load_oidc({}) is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"FARM_OIDC_ISSUER": "http://id.example"}, "https"),
        ({"FARM_OIDC_ISSUER": "id.example"}, "https"),
        ({"FARM_OIDC_CLIENT_ID": ""}, "FARM_OIDC_CLIENT_ID"),
        ({"FARM_OIDC_ALLOW_DOMAINS": ""}, "FARM_OIDC_ALLOW_GROUPS"),
        ({"FARM_OIDC_ROLES": "lab=emperor"}, "emperor"),
        ({"FARM_OIDC_TEAMS": "lab"}, "group=team"),
        ({"FARM_OIDC_TEAMS": "lab=../x"}, "letters, digits"),
        ({"FARM_OIDC_SCOPES": "profile"}, "openid"),
    ],
    ids=str,
)
def test_a_setting_that_cannot_be_is_named(change: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        load({**COMPLETE, **change})
