"""A device that has become free goes to who waits for it, in the transaction that frees it.

Whom the planner would choose is known without the planner where everyone who could want the device waits alike (the
same wish of the same team): then the claims of `farm.domain.scheduling.order` are in order of age. Where wishes or
teams compete, where jobs wait, or where anything is paused or drained, the planner decides, as it does for whatever
was missed here.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from farm.domain.leases import Lease
from farm.store import free_devices, leases, reservations, tables
from farm.store.prepared import run

_ROW = tables.Reservation
#: The oldest of those who wait alike. One that another transaction is changing is passed over: who holds a device
#: waits for no row.
_OLDEST = (
    select(_ROW.id, _ROW.created_by, _ROW.token_id, _ROW.lasts_s)
    .where(
        *reservations.DUE,
        _ROW.team == bindparam("team"),
        _ROW.selector == bindparam("selector"),
        _ROW.device_id.is_not_distinct_from(bindparam("device", type_=_ROW.device_id.type)),
    )
    .order_by(_ROW.created_at, _ROW.id)
    .limit(1)
    .with_for_update(skip_locked=True)
)


def free(session: Session, lease_id: int, now: datetime, reason: str) -> bool:
    """End a lease whose device is clean, or in quarantine, and hand it over; False when it had ended before."""
    device_id = leases.end(session, lease_id, now, reason)
    if device_id is None:
        return False
    hand_over(session, device_id, now)
    return True


def hand_over(session: Session, device_id: int, now: datetime) -> Lease | None:
    """The lease of whoever has waited longest for this device; None: nobody does, or the planner is to decide."""
    waiting = reservations.wants(session, 0, now)
    if not waiting or not reservations.planner_has_nothing_to_say(session, now):
        return None
    device = next(free_devices.ready(session, device_id, now), None)
    if device is None:
        return None
    wanting = [want for want in waiting if want.matches(device)]
    if len(wanting) != 1:
        return None
    [want] = wanting
    found = run(
        session, _OLDEST, {"now": now, "team": want.team, "selector": want.selector, "device": want.pinned}
    ).first()
    if found is None or reservations.over_quota(session, want.team, found.token_id):
        return None
    lasts = timedelta(seconds=found.lasts_s)
    return reservations.serve(session, found.id, device_id, want.team, found.created_by, lasts, now)
