"""Roles, tokens and users: nobody has more than their role, nobody gives more than they have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from farm.store import granting, people, teams, users
from farm.store.audit import Note
from farm.store.db import Database
from farm.store.granting import NotGranted, Wish
from farm.store.people import ROLE_SCOPES, Principal, Quota, Role, Scope, TokenKind
from farm.store.tables import Token

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def log_in(session: Session, name: str, role: Role, *scopes: Scope, **more: object) -> Principal:
    """Whoever comes with a token of these scopes (none named: all that the role allows)."""
    user = people.ensure_user(session, name, NOW, role=role)
    secret, _ = people.add_token(session, user.id, "t", scopes or ROLE_SCOPES[role], NOW, **more)  # type: ignore[arg-type]
    kind = more.get("kind", TokenKind.TOKEN)
    assert isinstance(kind, TokenKind)
    who = people.identify(session, secret, NOW, kinds=(kind,))
    assert who is not None
    return who


def make(session: Session, who: Principal, *scopes: Scope, **more: object) -> Principal:
    """The token that `who` makes, as it comes in later."""
    wish = Wish("made", scopes, **more)  # type: ignore[arg-type]
    secret, _ = granting.make_token(session, who, wish, Note(who, "token.create", None), NOW)
    found = people.identify(session, secret, NOW)
    assert found is not None
    return found


def test_a_role_allows_no_more_than_the_next_one() -> None:
    allowed = [ROLE_SCOPES[role] for role in Role]
    assert all(less < more for less, more in pairwise(allowed))
    assert people.least_role([Scope.READ]) is Role.VIEWER
    assert people.least_role([Scope.RESERVE]) is Role.MEMBER
    assert people.least_role([Scope.OPERATE, Scope.READ]) is Role.OPERATOR
    assert people.least_role([Scope.ADMIN]) is Role.ADMIN
    assert people.role_scopes("emperor") == frozenset()


@given(
    role=st.sampled_from(list(Role)),
    held=st.sets(st.sampled_from(list(Scope))),
    wanted=st.sets(st.sampled_from(list(Scope)), min_size=1),
)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_token_never_has_more_than_its_maker(db: Database, role: Role, held: set[Scope], wanted: set[Scope]) -> None:
    with db.session() as session:
        who = log_in(session, f"u-{role}", role, *held) if held else log_in(session, f"u-{role}", role)
        try:
            made = make(session, who, *wanted)
        except NotGranted:
            assert any(not who.may(scope) for scope in wanted)
        else:
            assert all(who.may(scope) for scope in Scope if made.may(scope))


def test_a_token_lives_no_longer_than_the_one_that_it_was_made_with(db: Database) -> None:
    with db.session() as session:
        who = log_in(session, "bot", Role.MEMBER, lasts=3 * DAY)
        made = make(session, who, Scope.READ, days=30, quota=Quota(max_devices=9, max_waiting=5))
        assert session.get_one(Token, made.token_id).expires_at == NOW + 3 * DAY
        assert made.quota == Quota(max_devices=9, max_waiting=5)
        assert session.get_one(Token, make(session, who, Scope.READ).token_id).expires_at == NOW + 3 * DAY


def test_a_token_with_a_quota_does_not_multiply_it(db: Database) -> None:
    with db.session() as session:
        for quota in (Quota(max_devices=2), Quota(max_waiting=2)):
            who = log_in(session, "bot", Role.MEMBER, quota=quota)
            with pytest.raises(NotGranted, match="the quota once more"):
                make(session, who, Scope.READ, quota=quota)


def test_what_stays_open_is_asked_whether_it_still_may(db: Database) -> None:
    with db.session() as session:
        user = people.ensure_user(session, "ann", NOW)
        _, ident = people.add_token(session, user.id, "t", [Scope.READ], NOW, lasts=DAY)
        assert people.stands(session, ident, NOW)
        assert not people.stands(session, ident, NOW + DAY)
        people.revoke(session, ident, NOW)
        assert not people.stands(session, ident, NOW)
        assert not people.stands(session, 4711, NOW)


def test_a_session_is_as_narrow_and_as_short_as_the_token_that_it_was_begun_with(db: Database) -> None:
    with db.session() as session:
        who = log_in(session, "bot", Role.MEMBER, Scope.READ, lasts=DAY, team="guests")
        secret, ident = people.derive_token(session, who, "browser", NOW, TokenKind.SESSION, 14 * DAY)
        seen = people.identify(session, secret, NOW, kinds=(TokenKind.SESSION,))
        assert seen is not None
        assert seen.scopes == {"read"}
        assert (seen.team, seen.root_id) == ("guests", who.token_id)
        assert session.get_one(Token, ident).expires_at == NOW + DAY
        made = make(session, seen, Scope.READ)
        assert session.get_one(Token, made.token_id).expires_at == NOW + DAY, "nor by the way through a browser"
        assert made.team == "guests"


def test_a_session_ends_with_its_token(db: Database) -> None:
    with db.session() as session:
        who = log_in(session, "bot", Role.MEMBER)
        secret, _ = people.derive_token(session, who, "browser", NOW, TokenKind.SESSION, DAY)
        code, _ = people.derive_token(session, who, "link", NOW, TokenKind.LOGIN, DAY)
        assert people.revoke(session, who.token_id, NOW)
        assert people.identify(session, secret, NOW, kinds=(TokenKind.SESSION,)) is None
        assert people.redeem_login_code(session, code, NOW) is None


def test_only_an_admin_makes_tokens_for_others_and_for_other_teams(db: Database) -> None:
    with db.session() as session:
        member = log_in(session, "ann", Role.OPERATOR)
        with pytest.raises(NotGranted, match="only an admin makes tokens for others"):
            make(session, member, Scope.READ, user="bob")
        with pytest.raises(NotGranted, match="another team"):
            make(session, member, Scope.READ, team="vision")
        assert users.find(session, "bob") is None
        admin = log_in(session, "root", Role.ADMIN)
        made = make(session, admin, Scope.READ, user="bob", team="vision")
        assert (made.name, made.team, made.role) == ("bob", "vision", "member")
        assert make(session, admin, Scope.READ, user="ann", team="vision").team == "vision"


def test_an_admin_gives_nobody_more_than_their_role(db: Database) -> None:
    with db.session() as session:
        admin = log_in(session, "root", Role.ADMIN)
        people.ensure_user(session, "guest", NOW, role="viewer")
        with pytest.raises(NotGranted, match="'guest' is a viewer"):
            make(session, admin, Scope.SUBMIT, user="guest")
        assert make(session, admin, Scope.OPERATE, user="new").role == "operator"


def test_nobody_ends_the_token_of_somebody_else(db: Database) -> None:
    with db.session() as session:
        ann, bob = log_in(session, "ann", Role.OPERATOR), log_in(session, "bob", Role.OPERATOR)
        note = Note(bob, "token.revoke", None)
        assert not granting.end_token(session, bob, ann.token_id, note, NOW)
        assert not note.done
        assert granting.end_token(session, bob, bob.token_id, note, NOW)
        assert granting.end_token(session, log_in(session, "root", Role.ADMIN), ann.token_id, note, NOW)


def test_who_is_made_a_viewer_is_one_with_the_tokens_that_they_have(db: Database) -> None:
    with db.session() as session:
        log_in(session, "root", Role.ADMIN)
        user = people.ensure_user(session, "ann", NOW, role="admin")
        secret, _ = people.add_token(session, user.id, "t", [Scope.ADMIN], NOW)
        users.change(session, user, NOW, role=Role.VIEWER)
        who = people.identify(session, secret, NOW)
        assert who is not None
        assert who.scopes == {"read"}
        assert not who.may(Scope.ADMIN)


def test_who_is_disabled_is_out_at_once_and_comes_back_without_the_old_tokens(db: Database) -> None:
    with db.session() as session:
        user = people.ensure_user(session, "ann", NOW)
        token, _ = people.add_token(session, user.id, "t", [Scope.READ], NOW)
        cookie, _ = people.add_token(session, user.id, "s", [Scope.READ], NOW, kind=TokenKind.SESSION, lasts=DAY)
        assert users.change(session, user, NOW, disabled=True) == {"disabled": True}
        for secret, kind in ((token, TokenKind.TOKEN), (cookie, TokenKind.SESSION)):
            assert people.identify(session, secret, NOW, kinds=(kind,)) is None
        users.change(session, user, NOW, disabled=False)
        assert people.identify(session, token, NOW) is None
        assert users.users(session)[0].disabled_at is None


def test_the_last_admin_cannot_be_taken_away(db: Database) -> None:
    with db.session() as session:
        root = people.ensure_user(session, "root", NOW, role="admin")
        other = people.ensure_user(session, "other", NOW, role="admin")
        users.change(session, other, NOW, disabled=True)
        for change in ({"role": Role.MEMBER}, {"disabled": True}):
            with pytest.raises(users.LastAdmin, match="only admin"):
                users.change(session, root, NOW, **change)
        users.change(session, other, NOW, disabled=False)
        assert users.change(session, root, NOW, role=Role.MEMBER) == {"role": "member"}


def test_a_name_that_somebody_has_is_not_shared_with_who_comes_from_elsewhere(db: Database) -> None:
    with db.session() as session:
        people.ensure_user(session, "admin", NOW, role="admin")
        made = users.add_by_subject(session, "https://id", "1", "admin", NOW, role=Role.MEMBER, team="default")
        again = users.add_by_subject(session, "https://id", "2", "admin", NOW, role=Role.MEMBER, team="default")
        odd = users.add_by_subject(session, "https://id", "3", "../ <b>", NOW, role=Role.MEMBER, team="default")
        assert (made.name, again.name) == ("admin-2", "admin-3")
        assert users.by_subject(session, "https://id", "1") == made
        assert users.by_subject(session, "https://other", "1") is None
        assert "<" not in odd.name
        assert "/" not in odd.name


def test_a_team_has_a_weight_and_a_quota_and_goes_when_nobody_is_in_it(db: Database) -> None:
    with db.session() as session:
        teams.ensure(session, teams.DEFAULT, NOW)
        teams.change(session, "vision", NOW, 2.5, 4, None)
        people.ensure_user(session, "ann", NOW, team="vision")
        assert teams.weights(session) == {"default": 1.0, "vision": 2.5}
        assert teams.quota(session, "vision") == Quota(4, None)
        assert teams.quota(session, "nobody") == Quota()
        assert [(team.name, team.users) for team in teams.teams(session)] == [("default", 0), ("vision", 1)]
        with pytest.raises(teams.InUse, match="still has 1 user"):
            teams.remove(session, "vision")
        user = users.find(session, "ann")
        assert user is not None
        users.change(session, user, NOW, team="default")
        assert teams.remove(session, "vision")
        assert not teams.remove(session, "vision")
        with pytest.raises(teams.InUse, match="stays"):
            teams.remove(session, "default")
