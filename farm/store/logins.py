"""Logins by OpenID Connect: on their way, and the user at their end.

What the browser is sent off with (state, nonce, PKCE verifier) is kept here and used once: whoever comes back first
with a state deletes it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from farm.oidc_settings import ANYBODY, Oidc
from farm.store import people, teams, users
from farm.store.people import Role
from farm.store.tables import PendingLogin, User

LASTS = timedelta(minutes=10)
#: Logins on their way at one time; the table cannot be filled from outside.
MOST = 2000


class NotAdmitted(ValueError):
    """The provider vouches for them, but the farm does not let them in: says why."""


@dataclass(frozen=True, slots=True)
class Begun:
    """What a login began with. `state` goes to the provider and the browser, the others come back from neither."""

    state: str
    nonce: str
    verifier: str
    target: str


def begin(session: Session, target: str, now: datetime) -> Begun | None:
    """Note that a browser is sent off; None when too many are on their way."""
    session.execute(delete(PendingLogin).where(PendingLogin.expires_at <= now))
    if (session.scalar(select(func.count()).select_from(PendingLogin)) or 0) >= MOST:
        return None
    begun = Begun(secrets.token_urlsafe(32), secrets.token_urlsafe(32), secrets.token_urlsafe(64), target)
    session.add(
        PendingLogin(
            state_sha256=people.digest(begun.state),
            nonce=begun.nonce,
            verifier=begun.verifier,
            target=target,
            expires_at=now + LASTS,
        )
    )
    return begun


def take(session: Session, state: str, now: datetime) -> Begun | None:
    """What the login of `state` began with, once; None when it is unknown, used or too old."""
    row = session.execute(
        delete(PendingLogin)
        .where(PendingLogin.state_sha256 == people.digest(state))
        .returning(PendingLogin.nonce, PendingLogin.verifier, PendingLogin.target, PendingLogin.expires_at)
    ).first()
    if row is None or row.expires_at <= now:
        return None
    return Begun(state, row.nonce, row.verifier, row.target)


def admit(session: Session, oidc: Oidc, claims: Mapping[str, Any], now: datetime) -> User:
    """The user of a person whose claims were checked, made at their first login. Raises NotAdmitted.

    Groups decide team and role at every login, where the farm maps them; else an admin does.
    """
    groups = _groups(claims.get(oidc.claim))
    if not _may_enter(claims, groups, oidc):
        raise NotAdmitted("the provider knows you, but you are in none of the groups or domains that this farm lets in")
    subject = str(claims["sub"])
    role = _role(groups, oidc)
    team = next((team for group, team in oidc.teams if group in groups), None)
    user = users.by_subject(session, oidc.issuer, subject)
    if user is None:
        wanted = next((str(claims[key]) for key in ("preferred_username", "email", "name") if claims.get(key)), subject)
        return users.add_by_subject(
            session, oidc.issuer, subject, wanted, now, role=role or Role.MEMBER, team=team or teams.DEFAULT
        )
    if user.disabled_at is not None:
        raise NotAdmitted("an admin has disabled you here")
    try:
        users.change(session, user, now, team=team, role=role)
    except users.LastAdmin:
        users.change(session, user, now, team=team)  # somebody must be able to look after people
    return user


def _groups(claim: object) -> frozenset[str]:
    """A claim's groups: a list of words, or one word."""
    if isinstance(claim, str):
        return frozenset({claim})
    return frozenset(str(group) for group in claim) if isinstance(claim, list) else frozenset()


def _may_enter(claims: Mapping[str, Any], groups: frozenset[str], oidc: Oidc) -> bool:
    if ANYBODY in oidc.allow_domains or groups & set(oidc.allow_groups):
        return True
    email = claims.get("email")
    verified = claims.get("email_verified") is True
    return verified and isinstance(email, str) and email.rpartition("@")[2].lower() in oidc.allow_domains


def _role(groups: frozenset[str], oidc: Oidc) -> Role | None:
    """The widest role that the groups map to; None: the farm does not map roles."""
    if not oidc.roles:
        return None
    found = [Role(role) for group, role in oidc.roles if group in groups]
    return max(found, key=list(Role).index, default=Role.MEMBER)
