"""Holds as pages and the API show them: each with what still runs under it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from farm.domain.devices import DeviceFacts, holder_words
from farm.domain.holds import Hold
from farm.store import holds
from farm.store.reads.devices import facts_of


@dataclass(frozen=True, slots=True)
class Standing:
    """A hold in force. `busy`: the devices under it that somebody still holds: `d1 (run 7 of ann, team red)`."""

    hold: Hold
    words: str
    devices: int
    busy: tuple[str, ...]


def standing(session: Session, now: datetime) -> list[Standing]:
    """Every hold in force, the oldest first."""
    known = facts_of(session)
    return [_standing(hold, known) for hold in holds.in_force(session, now)]


def standing_one(session: Session, hold: Hold) -> Standing:
    return _standing(hold, facts_of(session))


def _standing(hold: Hold, known: list[DeviceFacts]) -> Standing:
    under = [one for one in known if hold.names(one.serial, one.host, one.pool)]
    busy = tuple(f"{one.name} ({holder_words(one)})" for one in under if one.lease_holder is not None)
    return Standing(hold, hold.words(), len(under), busy)
