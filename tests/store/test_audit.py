"""The audit log: append only, by pages, and never a secret in it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from farm.store import audit, people
from farm.store.db import Database
from farm.store.people import Scope

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


def test_lines_come_newest_first_a_page_at_a_time(db: Database) -> None:
    with db.session() as session:
        for number in range(7):
            audit.record(session, None, "login.fail", f"t{number}", {}, "192.0.2.1", NOW + timedelta(seconds=number))
    with db.read() as session:
        first = audit.page(session, limit=3)
        second = audit.page(session, limit=3, before=first.before)
        last = audit.page(session, limit=3, before=second.before)
    assert [row.target for row in (*first.rows, *second.rows, *last.rows)] == [f"t{n}" for n in range(6, -1, -1)]
    assert last.before is None
    assert {row.who for row in first.rows} == {"nobody"}


def test_lines_are_found_by_who_what_and_target(db: Database) -> None:
    with db.session() as session:
        user = people.ensure_user(session, "ann", NOW)
        secret, _ = people.add_token(session, user.id, "t", [Scope.READ], NOW)
        who = people.identify(session, secret, NOW)
        for action, target in (("token.create", "token 1"), ("token.revoke", "token 1"), ("tokens.x", "token 2")):
            audit.record(session, who, action, target, {}, None, NOW)
        audit.record(session, None, "login.fail", "token", {}, None, NOW)
        assert len(audit.page(session, who="ann").rows) == 3
        assert len(audit.page(session, action="token").rows) == 2, "a noun is a whole word"
        assert len(audit.page(session, action="token.create").rows) == 1
        assert len(audit.page(session, target="token 1").rows) == 2
        assert audit.page(session, action="%").rows == ()


def test_no_secret_reaches_a_line_wherever_it_is_put(db: Database) -> None:
    secret = "farm_" + "k" * 43
    with db.session() as session:
        detail = {
            "token": "a", "client_secret": "b", "Authorization": "c", "nested": {"password": "d", "plain": secret},
            "list": [f"mail {secret}"], "text": f"{secret} twice {secret}", "days": 3, "none": None,
        }  # fmt: skip
        audit.record(session, None, "x.y", f"token {secret}", detail, None, NOW)
        row = audit.page(session).rows[0]
    assert secret not in json.dumps(row.detail) + row.target
    assert row.detail["nested"] == {"plain": "[secret]"}
    assert set(row.detail) == {"nested", "list", "text", "days", "none"}


def test_a_line_is_small_whatever_it_is_given(db: Database) -> None:
    with db.session() as session:
        audit.record(session, None, "x" * 500, "y" * 5000, {f"k{n}": "z" * 5000 for n in range(500)}, "a" * 500, NOW)
        row = audit.page(session).rows[0]
    assert len(json.dumps(row.detail)) < 10_000
    assert (len(row.action), len(row.target), len(row.address or "")) == (60, 200, 100)
