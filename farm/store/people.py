"""Who may do what: roles, scopes, tokens, browser sessions and one-time login codes.

A secret is 32 random bytes. It is shown once, where it was made; the store keeps its SHA-256 alone (a fast hash is
enough for a secret that cannot be guessed; it is no password). Sessions and login codes are tokens of another `kind`.
What a token may do is what its scopes *and* its user's role allow, looked up at each request: whoever is made a viewer
or disabled is that at once.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import bindparam, delete, or_, select, update
from sqlalchemy.orm import Session

from farm.store.prepared import run
from farm.store.tables import Token, User


class Scope(StrEnum):
    """What a token allows. ADMIN allows everything."""

    READ = "read"
    SUBMIT = "submit"  # queue and cancel runs, send bundles and suite packs
    RESERVE = "reserve"
    OPERATE = "operate"  # quarantine, maintenance, drain
    ADMIN = "admin"  # people and tokens


class Role(StrEnum):
    """What a person is; the most that any of their tokens can allow."""

    VIEWER = "viewer"
    MEMBER = "member"
    OPERATOR = "operator"
    ADMIN = "admin"


ROLE_SCOPES: dict[Role, frozenset[Scope]] = {
    Role.VIEWER: frozenset({Scope.READ}),
    Role.MEMBER: frozenset({Scope.READ, Scope.SUBMIT, Scope.RESERVE}),
    Role.OPERATOR: frozenset({Scope.READ, Scope.SUBMIT, Scope.RESERVE, Scope.OPERATE}),
    Role.ADMIN: frozenset(Scope),
}


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
#: `token_id` of who came without one.
NO_TOKEN = 0


@dataclass(frozen=True, slots=True)
class Quota:
    """What a token or a team may have at once; None: no limit."""

    max_devices: int | None = None  # held
    max_waiting: int | None = None  # jobs that wait


NO_QUOTA = Quota()


@dataclass(frozen=True, slots=True)
class Principal:
    """Who makes a request, and for whom."""

    user_id: int
    name: str
    team: str
    role: str
    scopes: frozenset[str]
    token_id: int
    kind: str
    quota: Quota = NO_QUOTA  # the token's own; the team's is the team's row
    parent_id: int | None = None  # of a session or login code: the token that it was begun with
    use_unnoted: bool = False  # `used_at` is older than `USED_AT_EVERY`, or empty

    def may(self, scope: Scope) -> bool:
        return scope.value in self.scopes or Scope.ADMIN.value in self.scopes

    def may_act_for(self, team: str) -> bool:
        """Whether they may cancel or repeat what `team` has queued: their own, or as an operator anybody's."""
        return team == self.team or self.may(Scope.OPERATE)

    @property
    def root_id(self) -> int:
        """The token behind a session; for a token itself its own id."""
        return self.parent_id or self.token_id


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A token as its owner sees it again: everything but the secret."""

    id: int
    name: str
    user: str
    team: str
    kind: str
    scopes: tuple[str, ...]
    max_devices: int | None
    max_waiting: int | None
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None
    revoked_at: datetime | None


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def role_scopes(role: str) -> frozenset[str]:
    """The scopes of a role by its name; none for a role that this version does not know."""
    try:
        return frozenset(scope.value for scope in ROLE_SCOPES[Role(role)])
    except ValueError:
        return frozenset()


def least_role(scopes: Iterable[Scope | str]) -> Role:
    """The first role, from viewer up, that allows all of `scopes`."""
    wanted = {Scope(scope) for scope in scopes}
    return next(role for role in Role if wanted <= ROLE_SCOPES[role])


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
    until: datetime | None = None,
    team: str | None = None,
    quota: Quota = NO_QUOTA,
    parent_id: int | None = None,
) -> tuple[str, int]:
    """Make a token that stands for `lasts`, and not beyond `until`; returns (secret, id).

    The secret cannot be had again.
    """
    secret = PREFIX[kind] + secrets.token_urlsafe(32)
    ends = [end for end in (now + lasts if lasts is not None else None, until) if end is not None]
    token = Token(
        name=name[:100],
        user_id=user_id,
        sha256=digest(secret),
        scopes=sorted({Scope(scope).value for scope in scopes}),
        kind=kind.value,
        created_at=now,
        expires_at=min(ends, default=None),
        team=team,
        max_devices=quota.max_devices,
        max_waiting=quota.max_waiting,
        parent_id=parent_id,
    )
    session.add(token)
    session.flush()
    return secret, token.id


def derive_token(
    session: Session, who: Principal, name: str, now: datetime, kind: TokenKind, lasts: timedelta
) -> tuple[str, int]:
    """A session or login code for `who`: as much as the token that they came with, and no longer than it."""
    return add_token(
        session,
        who.user_id,
        name,
        who.scopes,
        now,
        kind=kind,
        lasts=lasts,
        until=stands_until(session, who),
        team=session.scalar(select(Token.team).where(Token.id == who.token_id)),
        quota=who.quota,
        parent_id=who.root_id or None,
    )


def stands_until(session: Session, who: Principal) -> datetime | None:
    """When the token behind this request ends; None: never, or a person has logged in without one."""
    row = session.get(Token, who.root_id)
    return row.expires_at if row is not None and row.kind == TokenKind.TOKEN.value else None


_IDENTIFY = (
    select(
        *Token.__table__.columns,
        User.name.label("user_name"),
        User.team.label("user_team"),
        User.role,
        User.disabled_at,
    )
    .join(User, User.id == Token.user_id)
    .where(Token.sha256 == bindparam("digest"))
)


def identify(
    session: Session, secret: str, now: datetime, *, kinds: Iterable[TokenKind] = (TokenKind.TOKEN, TokenKind.LOCAL)
) -> Principal | None:
    """Who holds `secret`; None when it is unknown, expired, revoked, of another kind, or its user is disabled.

    Reads only.
    """
    if not secret or len(secret) > MAX_SECRET:
        return None
    wanted = digest(secret)
    token = run(session, _IDENTIFY, {"digest": wanted}).first()
    if token is None:
        return None
    if not hmac.compare_digest(token.sha256, wanted) or token.kind not in {kind.value for kind in kinds}:
        return None
    if token.revoked_at is not None or (token.expires_at is not None and now >= token.expires_at):
        return None
    if token.disabled_at is not None:
        return None
    return Principal(
        user_id=token.user_id,
        name=token.user_name,
        team=token.team or token.user_team,
        role=token.role,
        scopes=effective_scopes(token.scopes, token.role),
        token_id=token.id,
        kind=token.kind,
        quota=Quota(token.max_devices, token.max_waiting),
        parent_id=token.parent_id,
        use_unnoted=token.used_at is None or token.used_at < now - USED_AT_EVERY,
    )


def effective_scopes(scopes: Iterable[str], role: str) -> frozenset[str]:
    """What a token's scopes come to in the hands of a user of `role`; `admin` comes to all that the role allows."""
    allowed = role_scopes(role)
    held = frozenset(scopes)
    return held & allowed if Scope.ADMIN.value in allowed or Scope.ADMIN.value not in held else allowed


def without_token(user: User, kind: str) -> Principal:
    """`user`, who has shown otherwise who they are: with all that the role allows."""
    return Principal(user.id, user.name, user.team, user.role, role_scopes(user.role), NO_TOKEN, kind)


def stands(session: Session, token_id: int, now: datetime) -> bool:
    """Whether a token or session that was let in still would be: for what stays open for long."""
    row = session.execute(
        select(Token.revoked_at, Token.expires_at, User.disabled_at)
        .join(User, User.id == Token.user_id)
        .where(Token.id == token_id)
    ).first()
    if row is None or row.revoked_at is not None or row.disabled_at is not None:
        return False
    return row.expires_at is None or now < row.expires_at


def touch_token(session: Session, token_id: int, now: datetime) -> None:
    """Note that the token was used."""
    session.execute(update(Token).where(Token.id == token_id).values(used_at=now))


def revoke(session: Session, token_id: int, now: datetime) -> bool:
    """End a token and the sessions begun with it; False when there is none or it has ended before."""
    done = session.execute(
        update(Token).where(Token.id == token_id, Token.revoked_at.is_(None)).values(revoked_at=now).returning(Token.id)
    ).first()
    begun_with = (Token.parent_id == token_id, Token.revoked_at.is_(None))
    session.execute(update(Token).where(*begun_with).values(revoked_at=now))
    return done is not None


def redeem_login_code(session: Session, code: str, now: datetime) -> Principal | None:
    """Use up a one-time login code: the second use of it finds nothing, whoever comes first."""
    principal = identify(session, code, now, kinds=(TokenKind.LOGIN,))
    if principal is None or not revoke(session, principal.token_id, now):
        return None
    return principal


def tokens(
    session: Session,
    *,
    user_id: int | None = None,
    kinds: Iterable[TokenKind] = (TokenKind.TOKEN, TokenKind.LOCAL),
) -> list[TokenInfo]:
    """Tokens that have not been revoked, newest first, without secrets: everybody's, or one user's."""
    query = (
        select(Token, User)
        .join(User, User.id == Token.user_id)
        .where(Token.revoked_at.is_(None), Token.kind.in_([kind.value for kind in kinds]))
        .order_by(Token.id.desc())
        .limit(500)
    )
    if user_id is not None:
        query = query.where(Token.user_id == user_id)
    return [
        TokenInfo(
            token.id, token.name, user.name, token.team or user.team, token.kind,
            tuple(sorted(effective_scopes(token.scopes, user.role))), token.max_devices, token.max_waiting,
            token.created_at, token.expires_at, token.used_at, token.revoked_at,
        )
        for token, user in session.execute(query)
    ]  # fmt: skip


def prune(session: Session, now: datetime) -> None:
    """Forget sessions and login codes that expired or were revoked over a day ago."""
    old = now - timedelta(days=1)
    session.execute(
        delete(Token).where(
            Token.kind.in_([TokenKind.SESSION.value, TokenKind.LOGIN.value]),
            or_(Token.expires_at < old, Token.revoked_at < old),
        )
    )
