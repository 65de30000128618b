"""Devices that people hold, wishes that wait, and holds: what reservations and pauses look like."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.domain.leases import RESERVATION
from farm.store import holds, leases
from farm.store import tables as t

MINE, THEIRS = "oriole-02", "husky-02"


def seed_holders(session: Session, now: datetime, *, mine: str = "tester", my_team: str = "default") -> None:
    """`mine` holds MINE, somebody of another team THEIRS; one wish of each waits; a host and the farm are paused."""
    _reserved(session, MINE, mine, my_team, "a crash in prefill, on the device itself", now)
    _reserved(session, THEIRS, "grace", "vision", None, now)
    for who, team in ((mine, my_team), ("grace", "vision")):
        wish = _wish(who, team, "soc=RK3568 ram_gb>=8", now - timedelta(minutes=7), purpose="latency by hand")
        wish.wait_reason = "waits for an RK3568: rk-evb-v1 is held by run 9"
        wish.wait_until = now + timedelta(hours=3)
        session.add(wish)
    holds.place(session, "host", "lab-2", "a new hub & <b>cable</b>", "ada", now - timedelta(minutes=12))
    until = now + timedelta(hours=2)
    holds.place(session, "device", "virtual-rk3568", "its fan is loud", "ada", now - timedelta(minutes=3), until)


def _wish(who: str, team: str, selector: str, at: datetime, **more: str | None) -> t.Reservation:
    lasts = timedelta(hours=2).total_seconds()
    return t.Reservation(
        selector=selector, team=team, created_by=who, created_at=at, begins_at=at, lasts_s=lasts, **more
    )  # fmt: skip


def _reserved(session: Session, device: str, who: str, team: str, purpose: str | None, now: datetime) -> None:
    row = session.scalars(select(t.Device).where(t.Device.name == device)).one()
    wish = _wish(who, team, f"name={device}", now - timedelta(minutes=20), purpose=purpose)
    wish.device_id, wish.state, wish.ready_at = row.id, "active", now - timedelta(minutes=19)
    session.add(wish)
    session.flush()
    lease = leases.grant(
        session, row.id, f"{RESERVATION}{wish.id}", None, now, now + timedelta(hours=2), team=team, user=who
    )
    wish.lease_id = lease.id
