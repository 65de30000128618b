"""Who holds a device, until when, and who may change that.

A lease is the only right to touch a device. There is at most one open lease per device (the store's unique index
enforces it); its token grows with every grant on that device, so that whatever an earlier holder still sends can be
told apart. `released_at` cuts the holder off; the lease is *ended*, and the device free, only when it has been cleaned
and verified or put into quarantine.

Two kinds of holder: an attempt of a job, and a person's (or program's) reservation. The second is told before its end,
may extend it up to `LONGEST`, and may give it back; so may its team. An operator may take any lease away, with a reason
that the holder sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

#: The holder renews at a third of this; silent for longer, it has lost the device.
HEARTBEAT = timedelta(seconds=30)
#: A runner that sees no renewal for this long (its own monotonic clock) stops itself: shorter than the server's limit.
FENCE = timedelta(seconds=24)
#: No batch lease lasts longer.
HARD_END = timedelta(hours=4)
#: A reservation asks for at least and at most so long; with every extension its lease is no longer than `LONGEST`.
SHORTEST_ASKED = timedelta(seconds=5)
LONGEST_ASKED = timedelta(hours=8)
LONGEST = timedelta(hours=24)
#: Who holds a device in person is told so long before the end (a quarter of the lease, where that is shorter).
WARN_BEFORE = timedelta(minutes=5)

ATTEMPT = "attempt:"
RESERVATION = "reservation:"


class LeaseVerdict(StrEnum):
    """Whether a lease stands, and if not, why it ended."""

    STANDS = "stands"
    RELEASED = "released"
    SILENT = "silent"  # the heartbeat deadline passed
    OVER = "over"  # the hard end passed


class CannotExtend(ValueError):
    """The lease is over, or would become longer than the policy allows; the message says which."""


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
    team: str | None = None
    user: str | None = None
    extensions: int = 0
    warned_at: datetime | None = None  # its end was announced to the holder then

    @property
    def reservation_id(self) -> int | None:
        """The reservation that holds it; None for an attempt's."""
        return int(self.holder[len(RESERVATION) :]) if self.holder.startswith(RESERVATION) else None

    @property
    def who(self) -> str:
        """Its holder as people know it."""
        return held_by(self.holder, self.user, self.team, None)

    @property
    def warn_at(self) -> datetime:
        """When its holder is to be told that the end is near."""
        return self.ends_at - min(WARN_BEFORE, (self.ends_at - self.granted_at) / 4)

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

    def is_of(self, user: str, team: str) -> bool:
        """Whether the lease belongs to this user or to the user's team."""
        return (self.user is not None and self.user == user) or (self.team is not None and self.team == team)

    def extended(self, by: timedelta, now: datetime) -> datetime:
        """The end after an extension. Raises CannotExtend."""
        if self.reservation_id is None:
            raise CannotExtend("the farm's own attempts hold it: their end follows from the suites' limits")
        if self.released_at is not None or now >= self.ends_at:
            raise CannotExtend("the lease is over: ask for a new one")
        if by <= timedelta():
            raise CannotExtend("an extension is longer than nothing")
        end = self.ends_at + by
        if end - self.granted_at > LONGEST:
            left = max(timedelta(), LONGEST - (self.ends_at - self.granted_at))
            raise CannotExtend(f"a lease lasts at most {hours(LONGEST)} in all: {hours(left)} more can be had")
        return end


def held_by(holder: str, user: str | None, team: str | None, run_id: int | None) -> str:
    """`run 7 of ann, team red`, `ann, team red`, else `reservation 4`: a lease's holder as people know it."""
    who = ", ".join([*([user] if user else []), *([f"team {team}"] if team else [])])
    if run_id is not None:
        return f"run {run_id} of {who}" if who else f"run {run_id}"
    return who or holder.replace(":", " ")


def hours(span: timedelta) -> str:
    """`2 h`, `2 h 30 min`, `4 min`, `30 s`."""
    seconds = int(span.total_seconds())
    if seconds < 60:
        return f"{seconds} s"
    whole, minutes = divmod(seconds // 60, 60)
    parts = [f"{whole} h"] if whole else []
    return " ".join([*parts, *([f"{minutes} min"] if minutes or not whole else [])])
