"""Making and ending tokens on somebody's behalf: nobody gives more than they have.

A token has at most the scopes, team and time of the one that it was made with, and one with a quota makes none. An
admin makes them for others as well, for whom the same holds with that user's role. API and pages both come through
here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from farm.store import people, teams, users
from farm.store.audit import Note
from farm.store.people import NO_QUOTA, Principal, Quota, Role, Scope, TokenKind
from farm.store.tables import Token, User


class NotGranted(ValueError):
    """The token cannot be made so: says why, and what could be."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The token that somebody wants. `user` None: for themselves; `team` None: the user's; `days` None: no end."""

    name: str
    scopes: Collection[Scope]
    user: str | None = None
    team: str | None = None
    days: int | None = None
    quota: Quota = NO_QUOTA


def make_token(session: Session, who: Principal, wish: Wish, note: Note, now: datetime) -> tuple[str, int]:
    """(secret, id) of a new token; the secret is not kept. Raises NotGranted."""
    if who.quota != NO_QUOTA:
        raise NotGranted("a token with a quota makes no other: each new one would have the quota once more")
    missing = sorted(scope.value for scope in wish.scopes if not who.may(scope))
    if missing:
        has = ", ".join(sorted(who.scopes)) or "none"
        raise NotGranted(f"you cannot give the scope {missing[0]!r}: what you came with has {has}")
    user = _owner(session, who, wish, now)
    over = sorted(scope.value for scope in wish.scopes if scope not in people.role_scopes(user.role))
    if over:
        raise NotGranted(
            f"{user.name!r} is a {user.role}, who may not have the scope {over[0]!r}: change the role first"
        )
    team = _team(session, who, wish, user, now)
    secret, ident = people.add_token(
        session,
        user.id,
        wish.name,
        wish.scopes,
        now,
        lasts=timedelta(days=wish.days) if wish.days is not None else None,
        until=people.stands_until(session, who),
        team=team,
        quota=wish.quota,
    )
    scopes = sorted(scope.value for scope in wish.scopes)
    note.write(session, now, f"token {ident}", user=user.name, name=wish.name, scopes=scopes, team=team, days=wish.days)
    return secret, ident


def end_token(session: Session, who: Principal, ident: int, note: Note, now: datetime) -> bool:
    """Revoke a token of one's own, or as an admin anybody's; False when there is none that stands."""
    token = session.get(Token, ident)
    if token is None or token.kind not in (TokenKind.TOKEN.value, TokenKind.LOCAL.value):
        return False
    if token.user_id != who.user_id and not who.may(Scope.ADMIN):
        return False
    if not people.revoke(session, ident, now):
        return False
    user = session.get_one(User, token.user_id)
    note.write(session, now, f"token {ident}", user=user.name, name=token.name)
    return True


def _owner(session: Session, who: Principal, wish: Wish, now: datetime) -> User:
    """Whom the token is for; an admin's wish makes the user when there is none of that name."""
    if wish.user is None or wish.user == who.name:
        return session.get_one(User, who.user_id)
    if not who.may(Scope.ADMIN):
        raise NotGranted("only an admin makes tokens for others")
    user = users.find(session, wish.user)
    if user is None:
        team = wish.team or teams.DEFAULT
        teams.ensure(session, team, now)
        role = max(people.least_role(wish.scopes), Role.MEMBER, key=list(Role).index)
        user = people.ensure_user(session, wish.user, now, role=role, team=team)
    if user.disabled_at is not None:
        raise NotGranted(f"{user.name!r} is disabled: enable them first")
    return user


def _team(session: Session, who: Principal, wish: Wish, user: User, now: datetime) -> str | None:
    """The team that the token is bound to; None: whichever its user is in."""
    if user.id == who.user_id and who.team != user.team and wish.team is None:
        return who.team  # made with a token that is bound itself
    if wish.team is None or wish.team == user.team == who.team:
        return None
    if wish.team == who.team:
        return wish.team
    if not who.may(Scope.ADMIN):
        raise NotGranted(f"only an admin makes tokens for another team than {who.team!r}")
    teams.ensure(session, wish.team, now)
    return wish.team if wish.team != user.team else None
