"""Who may do what: users, their tokens, browser sessions and one-time login codes.

A secret is 32 random bytes. It is shown once, where it was made; the store keeps its SHA-256 alone (a fast hash is
enough for a secret that cannot be guessed; it is no password). Sessions and login codes are tokens of another `kind`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from farm.store.tables import Token, User


class Scope(StrEnum):
    """What a token allows. ADMIN allows everything."""

    READ = "read"
    SUBMIT = "submit"  # queue and cancel runs, send bundles and suite packs
    RESERVE = "reserve"
    OPERATE = "operate"  # quarantine, maintenance, drain
    ADMIN = "admin"  # people and tokens


class TokenKind(StrEnum):
    TOKEN = "token"  # made by a person for a program
    SESSION = "session"  # a browser's cookie
    LOGIN = "login"  # a one-time login link
    LOCAL = "local"  # the command line on the server's own machine


SESSION_LASTS = timedelta(days=14)
LOGIN_CODE_LASTS = timedelta(minutes=10)
#: `used_at` is written at most this often, so that reading a page does not write to the database each time.
USED_AT_EVERY = timedelta(minutes=5)
PREFIX = {
    TokenKind.TOKEN: "farm_",
    TokenKind.SESSION: "farms_",
    TokenKind.LOGIN: "farml_",
    TokenKind.LOCAL: "farm_",
}
MAX_SECRET = 200


@dataclass(frozen=True, slots=True)
class Principal:
    """Who makes a request."""

    user_id: int
    name: str
    team: str
    role: str
    scopes: frozenset[str]
    token_id: int
    kind: str

    def may(self, scope: Scope) -> bool:
        return scope.value in self.scopes or Scope.ADMIN.value in self.scopes


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A token as its owner sees it again: everything but the secret."""

    id: int
    name: str
    user: str
    kind: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None
    revoked_at: datetime | None


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def ensure_user(session: Session, name: str, now: datetime, *, role: str = "member", team: str = "default") -> User:
    """The user of that name, made when there is none."""
    user = session.scalar(select(User).where(User.name == name))
    if user is None:
        user = User(name=name, role=role, team=team, created_at=now)
        session.add(user)
        session.flush()
    return user


def has_tokens(session: Session, user_id: int) -> bool:
    """Whether a token was ever made for the user; a revoked one counts: only the first start makes the admin's."""
    made = select(Token.id).where(Token.user_id == user_id, Token.kind == TokenKind.TOKEN.value)
    return session.scalar(made.limit(1)) is not None


def add_token(
    session: Session,
    user_id: int,
    name: str,
    scopes: Iterable[Scope | str],
    now: datetime,
    *,
    kind: TokenKind = TokenKind.TOKEN,
    lasts: timedelta | None = None,
) -> tuple[str, int]:
    """Make a token; returns (secret, id). The secret cannot be had again."""
    secret = PREFIX[kind] + secrets.token_urlsafe(32)
    token = Token(
        name=name[:100],
        user_id=user_id,
        sha256=digest(secret),
        scopes=sorted({Scope(scope).value for scope in scopes}),
        kind=kind.value,
        created_at=now,
        expires_at=now + lasts if lasts is not None else None,
    )
    session.add(token)
    session.flush()
    return secret, token.id


def identify(
    session: Session, secret: str, now: datetime, *, kinds: Iterable[TokenKind] = (TokenKind.TOKEN, TokenKind.LOCAL)
) -> Principal | None:
    """Who holds `secret`, or None when it is unknown, expired, revoked or of another kind. Reads only."""
    if not secret or len(secret) > MAX_SECRET:
        return None
    wanted = digest(secret)
    row = session.execute(
        select(Token, User).join(User, User.id == Token.user_id).where(Token.sha256 == wanted)
    ).first()
    if row is None:
        return None
    token, user = row
    if not hmac.compare_digest(token.sha256, wanted) or token.kind not in {kind.value for kind in kinds}:
        return None
    if token.revoked_at is not None or (token.expires_at is not None and now >= token.expires_at):
        return None
    return Principal(user.id, user.name, user.team, user.role, frozenset(token.scopes), token.id, token.kind)


def is_use_unnoted(session: Session, token_id: int, now: datetime) -> bool:
    """Whether `used_at` of the token is older than `USED_AT_EVERY`, or empty."""
    used_at = session.scalar(select(Token.used_at).where(Token.id == token_id))
    return used_at is None or used_at < now - USED_AT_EVERY


def touch_token(session: Session, token_id: int, now: datetime) -> None:
    """Note that the token was used."""
    session.execute(update(Token).where(Token.id == token_id).values(used_at=now))


def revoke(session: Session, token_id: int, now: datetime) -> bool:
    """End a token; False when there is no such token or it has ended before."""
    done = session.execute(
        update(Token).where(Token.id == token_id, Token.revoked_at.is_(None)).values(revoked_at=now).returning(Token.id)
    ).first()
    return done is not None


def redeem_login_code(session: Session, code: str, now: datetime) -> Principal | None:
    """Use up a one-time login code: the second use of it finds nothing, whoever comes first."""
    principal = identify(session, code, now, kinds=(TokenKind.LOGIN,))
    if principal is None or not revoke(session, principal.token_id, now):
        return None
    return principal


def tokens(session: Session, *, kinds: Iterable[TokenKind] = (TokenKind.TOKEN, TokenKind.LOCAL)) -> list[TokenInfo]:
    """Every token that has not been revoked, newest first; no secrets."""
    rows = session.execute(
        select(Token, User.name)
        .join(User, User.id == Token.user_id)
        .where(Token.revoked_at.is_(None), Token.kind.in_([kind.value for kind in kinds]))
        .order_by(Token.id.desc())
        .limit(500)
    )
    return [
        TokenInfo(
            token.id, token.name, name, token.kind, tuple(token.scopes),
            token.created_at, token.expires_at, token.used_at, token.revoked_at,
        )
        for token, name in rows
    ]  # fmt: skip


def prune(session: Session, now: datetime) -> None:
    """Forget sessions and login codes that expired or were revoked over a day ago."""
    old = now - timedelta(days=1)
    session.execute(
        delete(Token).where(
            Token.kind.in_([TokenKind.SESSION.value, TokenKind.LOGIN.value]),
            (Token.expires_at < old) | (Token.revoked_at < old),
        )
    )
