"""Who holds a device, until when.

A lease is the only right to touch a device. There is at most one open lease per device (the store's unique index
enforces it); its token grows with every grant on that device, so that whatever an earlier holder still sends can be
told apart. `released_at` cuts the holder off; the lease is *ended*, and the device free, only when it has been cleaned
and verified or put into quarantine.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

#: The holder renews at a third of this; silent for longer, it has lost the device.
HEARTBEAT = timedelta(seconds=30)
#: A runner that sees no renewal for this long (its own monotonic clock) stops itself: shorter than the server's limit.
FENCE = timedelta(seconds=24)
#: No batch lease lasts longer; extend() moves the end, up to policy.
HARD_END = timedelta(hours=4)


class LeaseVerdict(StrEnum):
    """Whether a lease stands, and if not, why it ended."""

    STANDS = "stands"
    RELEASED = "released"
    SILENT = "silent"  # the heartbeat deadline passed
    OVER = "over"  # the hard end passed


@dataclass(frozen=True, slots=True)
class Lease:
    """One grant of one device. Times are UTC, by the database's clock."""

    id: int
    device_id: int
    holder: str  # "attempt:17" or "reservation:4"
    token: int
    granted_at: datetime
    heartbeat_by: datetime
    ends_at: datetime
    released_at: datetime | None = None

    def verdict(self, now: datetime, *, trust_heartbeat: bool = True) -> LeaseVerdict:
        """Whether the lease stands at `now`.

        `trust_heartbeat` is False for one interval after a start of the server: nobody could renew while it was away,
        so silence proves nothing; hard ends stand.
        """
        if self.released_at is not None:
            return LeaseVerdict.RELEASED
        if now >= self.ends_at:
            return LeaseVerdict.OVER
        if trust_heartbeat and now >= self.heartbeat_by:
            return LeaseVerdict.SILENT
        return LeaseVerdict.STANDS
