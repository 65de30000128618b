"""Users: made, changed, disabled, and found by who an identity provider says they are.

A user who is disabled keeps their name on what they did; their sessions and tokens end at once and for good. The last
admin who can log in cannot be taken away.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from farm.store import teams
from farm.store.people import Role
from farm.store.tables import Token, User

#: What a name may consist of; names stand in addresses, command lines and logs.
NAME = r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}$"


class Exists(ValueError):
    """There is a user of that name already."""


class LastAdmin(ValueError):
    """Nobody would be left who may look after people."""


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A user as lists show them. `issuer`: the identity provider that vouches for them; None: known here alone."""

    name: str
    team: str
    role: str
    issuer: str | None
    tokens: int
    created_at: datetime
    seen_at: datetime | None  # when a token or session of theirs was last used
    disabled_at: datetime | None


def users(session: Session) -> list[UserInfo]:
    """Every user by name; the disabled ones last."""
    standing = func.count().filter(Token.revoked_at.is_(None), Token.kind == "token")
    rows = session.execute(
        select(User, standing, func.max(Token.used_at))
        .outerjoin(Token, Token.user_id == User.id)
        .group_by(User.id)
        .order_by(User.disabled_at.is_not(None), User.name)
        .limit(2000)
    )
    return [
        UserInfo(user.name, user.team, user.role, user.issuer, count, user.created_at, seen, user.disabled_at)
        for user, count, seen in rows
    ]


def find(session: Session, name: str) -> User | None:
    return session.scalar(select(User).where(User.name == name))


def add(session: Session, name: str, team: str, role: Role, now: datetime) -> User:
    """Make a user; they log in with what an admin hands them. Raises Exists."""
    if find(session, name) is not None:
        raise Exists(f"there is a user {name!r} already")
    teams.ensure(session, team, now)
    user = User(name=name, team=team, role=role.value, created_at=now)
    session.add(user)
    session.flush()
    return user


def change(
    session: Session,
    user: User,
    now: datetime,
    *,
    team: str | None = None,
    role: Role | None = None,
    disabled: bool | None = None,
) -> dict[str, object]:
    """Change what is given; returns what has become different. Raises LastAdmin.

    Team and role hold from the next request on, for tokens and sessions that exist as well.
    """
    changed: dict[str, object] = {}
    loses_admin = (role is not None and role is not Role.ADMIN) or disabled is True
    if loses_admin and _is_last_admin(session, user):
        raise LastAdmin(f"{user.name!r} is the only admin who can log in: make another one first")
    if team is not None and team != user.team:
        teams.ensure(session, team, now)
        changed["team"] = user.team = team
    if role is not None and role.value != user.role:
        changed["role"] = user.role = role.value
    if disabled is True and user.disabled_at is None:
        user.disabled_at = now
        changed["disabled"] = True
        session.execute(
            update(Token).where(Token.user_id == user.id, Token.revoked_at.is_(None)).values(revoked_at=now)
        )
    if disabled is False and user.disabled_at is not None:
        user.disabled_at = None
        changed["disabled"] = False
    session.flush()
    return changed


def by_subject(session: Session, issuer: str, subject: str) -> User | None:
    """The user whom `issuer` knows as `subject`: the only two words by which a person is told apart there."""
    return session.scalar(select(User).where(User.issuer == issuer, User.subject == subject))


def add_by_subject(
    session: Session, issuer: str, subject: str, wanted: str, now: datetime, *, role: Role, team: str
) -> User:
    """A user at their first login, named as they wish where that name is free and can be one.

    A name that somebody has is never shared: who it belongs to was decided before.
    """
    teams.ensure(session, team, now)
    base = re.sub(r"[^A-Za-z0-9._@+-]", "-", wanted).lstrip("._@+-")[:90] or "user"
    taken = set(session.scalars(select(User.name).where(User.name.startswith(base, autoescape=True))))
    name = next(name for name in (base, *(f"{base}-{number}" for number in range(2, 10**6))) if name not in taken)
    user = User(name=name, team=team, role=role.value, created_at=now, issuer=issuer, subject=subject)
    session.add(user)
    session.flush()
    return user


def _is_last_admin(session: Session, user: User) -> bool:
    if user.role != Role.ADMIN.value or user.disabled_at is not None:
        return False
    others = select(User.id).where(User.role == Role.ADMIN.value, User.disabled_at.is_(None), User.id != user.id)
    return session.scalar(others.limit(1)) is None
