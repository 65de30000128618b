"""Who may do what, and who did."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from farm.store.base import Base


class User(Base):
    __tablename__ = "users"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(100), unique=True)
    team: Mapped[str] = mapped_column(String(100), default="default")
    role: Mapped[str] = mapped_column(String(20), default="member")
    created_at: Mapped[datetime]
    issuer: Mapped[str | None] = mapped_column(String(300))  # OpenID Connect: who vouches for `subject`
    subject: Mapped[str | None] = mapped_column(String(300))
    disabled_at: Mapped[datetime | None]
    __table_args__ = (Index("uq_users_subject", "issuer", "subject", unique=True),)


class Token(Base):
    """A bearer token, stored as its SHA-256. `scopes`: submit, read, reserve, operate, admin."""

    __tablename__ = "tokens"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(100))
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id"))
    sha256: Mapped[str] = mapped_column(String(64), unique=True)
    scopes: Mapped[list[Any]]
    kind: Mapped[str] = mapped_column(String(20), default="token")  # token, session
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    max_devices: Mapped[int | None]  # held at once through this token
    max_waiting: Mapped[int | None]
    team: Mapped[str | None] = mapped_column(String(100))  # whom its work counts for; None: the user's team
    parent_id: Mapped[int | None]  # of a session or login link: the token that it was begun with, and ends with


class PendingLogin(Base):
    """A login by OpenID Connect on its way: made when a browser is sent off, deleted by the first that comes back."""

    __tablename__ = "pending_logins"
    state_sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    nonce: Mapped[str] = mapped_column(String(100))
    verifier: Mapped[str] = mapped_column(String(128))  # PKCE (RFC 7636)
    target: Mapped[str] = mapped_column(String(2000))  # the path to go to afterwards
    expires_at: Mapped[datetime] = mapped_column(index=True)


class Team(Base):
    """Who shares a weight in the queue and a quota. None: no limit."""

    __tablename__ = "teams"
    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    weight: Mapped[float] = mapped_column(default=1.0)
    max_devices: Mapped[int | None]  # held at once
    max_waiting: Mapped[int | None]  # jobs that wait at once
    created_at: Mapped[datetime]


class Audit(Base):
    """Who did what to what, append only. Never holds a secret."""

    __tablename__ = "audit"
    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(index=True)
    who: Mapped[str] = mapped_column(String(100))
    token_id: Mapped[int | None]
    action: Mapped[str] = mapped_column(String(60))  # run.submit, lease.preempt, token.create, hold.place, …
    target: Mapped[str] = mapped_column(String(200))
    detail: Mapped[dict[str, Any]] = mapped_column(default=dict)
    address: Mapped[str | None] = mapped_column(String(100))
