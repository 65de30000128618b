"""When a device is doubted, when it is quarantined and for how long, and what a person is advised to do.

Doubt is cheap: after an infrastructure error or a second bad look a device is *suspect*, which means that it is looked
at before its next use. Each strike (an attempt that the device or its host spoilt, a recovery that failed) doubles how
long it rests; from the fourth on it goes into quarantine, for five minutes at first, doubling up to two hours. A good
attempt ends the count, and so does an hour in good health.

A person's word stands above all this: what is in maintenance, or in quarantine without an end, no look changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from farm.domain.devices import Health

#: So many bad looks in a row are doubt, and so many begin the recovery.
DOUBT_AFTER = 2
RECOVER_AFTER = 5
#: The rest after the first strike; it doubles with each.
FIRST_REST = timedelta(seconds=2)
#: From this strike on the rest is a quarantine.
QUARANTINE_FROM = 4
FIRST_QUARANTINE = timedelta(minutes=5)
LONGEST_QUARANTINE = timedelta(hours=2)
#: In good health for so long, earlier strikes are forgotten.
FORGIVEN_AFTER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Standing:
    """What a device's health becomes: the reason in words, until when it rests, what a person may do about it."""

    health: Health
    strikes: int
    reason: str | None = None
    rest: timedelta | None = None
    action: str | None = None


def quarantine_for(strikes: int) -> timedelta:
    """How long a device with so many strikes stays away: five minutes, doubling, two hours at most."""
    doublings = min(max(0, strikes - QUARANTINE_FROM), 16)
    return min(FIRST_QUARANTINE * (1 << doublings), LONGEST_QUARANTINE)


def resting(strikes: int, reason: str, action: str | None = None) -> Standing:
    """What a device with so many strikes is put to: doubted for a while that doubles, then quarantined."""
    if strikes < QUARANTINE_FROM:
        rest = FIRST_REST * (1 << (strikes - 1)) if strikes > 0 else None
        return Standing(Health.SUSPECT, strikes, reason, rest, action)
    words = f"{strikes} strikes in a row, the last: {reason}"
    return Standing(Health.BAD, strikes, words, quarantine_for(strikes), action)


def after_strike(strikes: int, reason: str, action: str | None = None) -> Standing:
    """One more attempt was spoilt."""
    return resting(strikes + 1, reason, action)


def after_giving_up(strikes: int, reason: str, action: str) -> Standing:
    """Recovery did not help: away at once, for a time that doubles with every further one."""
    count = max(strikes + 1, QUARANTINE_FROM)
    return Standing(Health.BAD, count, reason, quarantine_for(count), action)


def is_over(health: Health, until: datetime | None, now: datetime) -> bool:
    """Whether a good look may end this state. A quarantine without an end is a person's to lift."""
    if health is Health.SUSPECT:
        return until is None or now >= until
    return health is Health.BAD and until is not None and now >= until


def strikes_after_good(strikes: int, good_since: datetime | None, now: datetime) -> int:
    """The strikes that still count for a device that has been in good health since then."""
    return 0 if good_since is not None and now - good_since >= FORGIVEN_AFTER else strikes


def advice(problem: str) -> str:
    """What usually helps, for a problem in the words of the health check."""
    for word, action in _ADVICE:
        if word in problem:
            return action
    return "restart it; when it stays so, take it out for maintenance"


_ADVICE = (
    ("unauthorized", "accept the key on its screen (“always allow”)"),
    ("system server", "restart the device; look for an app that keeps its system server busy"),
    ("boot id", "restart the device; its system does not answer as it should"),
    ("shell", "restart the device; check cable and hub"),
    ("offline", "pull the cable and put it in again, or restart the device"),
    ("not listed", "check cable, hub and power"),
    ("clean", "look at what its last holder left; `farm device check` tries again"),
)
