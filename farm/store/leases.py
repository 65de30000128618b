"""Granting, renewing and ending leases: the only rows that give a right to touch a device.

A grant is an INSERT; the unique partial index on open leases is the lock, so that two planners in any two threads or
processes cannot both succeed. The token grows on the device's own row in the same transaction.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Session

from farm.domain.leases import Lease, LeaseVerdict


class AlreadyHeld(Exception):
    """The device has an open lease."""

    def __init__(self, device_id: int, holder: str | None = None) -> None:
        self.device_id = device_id
        self.holder = holder
        super().__init__(f"device {device_id} is held by {holder or 'somebody else'}")


def grant(
    session: Session,
    device_id: int,
    holder: str,
    attempt_id: int | None,
    now: datetime,
    hard_end: datetime,
) -> Lease:
    """Take the device for `holder`. Raises AlreadyHeld, leaving the session usable."""
    raise NotImplementedError


def renew(session: Session, lease_ids: list[int], now: datetime) -> list[int]:
    """Move the heartbeat deadline of every unreleased lease named; returns the ids that still stand."""
    raise NotImplementedError


def release(session: Session, lease_id: int, now: datetime, reason: str) -> bool:
    """Cut the holder off; the device stays taken until `end`. False when it was released before."""
    raise NotImplementedError


def end(session: Session, lease_id: int, now: datetime, reason: str) -> bool:
    """The device is clean and verified, or in quarantine: free it. False when it had ended before."""
    raise NotImplementedError


def expire(session: Session, now: datetime, *, trust_heartbeat: bool) -> list[tuple[Lease, LeaseVerdict]]:
    """Release every lease that no longer stands and say why; cleaning and ending follow elsewhere."""
    raise NotImplementedError


def still_mine(session: Session, attempt_id: int, token: int) -> bool:
    """Whether the attempt still holds its device under this token, unreleased."""
    raise NotImplementedError
