"""Teams: who shares a weight in the queue and a quota.

A team's name stands on users, tokens and runs; its row holds what the planner needs to know. A team without a row
weighs 1 and has no quota.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from farm.domain.words import count
from farm.store.bus import touch
from farm.store.people import Quota
from farm.store.tables import Run, Team, Token, User

DEFAULT = "default"


class InUse(ValueError):
    """The team cannot go: somebody or something still belongs to it."""


@dataclass(frozen=True, slots=True)
class TeamInfo:
    """A team as lists show it. `weight`: its share of the farm relative to the others'."""

    name: str
    weight: float
    max_devices: int | None
    max_waiting: int | None
    users: int
    created_at: datetime


def ensure(session: Session, name: str, now: datetime) -> Team:
    """The team of that name, made with weight 1 and no quota when there is none."""
    team = session.get(Team, name)
    if team is None:
        team = Team(name=name, weight=1.0, created_at=now)
        session.add(team)
        session.flush()
    return team


def change(
    session: Session, name: str, now: datetime, weight: float, max_devices: int | None, max_waiting: int | None
) -> None:
    """Make the team, or change it; the planner is told."""
    team = ensure(session, name, now)
    team.weight, team.max_devices, team.max_waiting = weight, max_devices, max_waiting
    touch(session, "team", name, at=now)


def teams(session: Session) -> list[TeamInfo]:
    """Every team by name, with how many users it has."""
    members = select(User.team, func.count()).where(User.disabled_at.is_(None)).group_by(User.team)
    counts: dict[str, int] = {row[0]: row[1] for row in session.execute(members)}
    return [
        TeamInfo(
            team.name, team.weight, team.max_devices, team.max_waiting, counts.get(team.name, 0), team.created_at
        )
        for team in session.scalars(select(Team).order_by(Team.name))
    ]  # fmt: skip


def weights(session: Session) -> dict[str, float]:
    """Team -> weight, of the teams that have a row."""
    return {team.name: team.weight for team in session.scalars(select(Team))}


def quota(session: Session, name: str) -> Quota:
    """What the team may have at once."""
    team = session.get(Team, name)
    return Quota(team.max_devices, team.max_waiting) if team is not None else Quota()


def remove(session: Session, name: str) -> dict[str, float | None] | None:
    """Take away a team that nobody is in: what its weight and quotas were; None when there is none. Raises InUse."""
    team = session.get(Team, name)
    if team is None:
        return None
    if name == DEFAULT:
        raise InUse("the team 'default' takes in whoever belongs to no other: it stays")
    counted = select(func.count())
    holders = (
        ("user", "users", counted.select_from(User).where(User.team == name)),
        ("token", "tokens", counted.select_from(Token).where(Token.team == name, Token.revoked_at.is_(None))),
        ("open run", "open runs", counted.select_from(Run).where(Run.team == name, Run.state != "ended")),
    )
    for one, many, query in holders:
        if found := session.scalar(query) or 0:
            raise InUse(f"team {name!r} still has {count(found, one, many)}")
    was = {"weight": team.weight, "max_devices": team.max_devices, "max_waiting": team.max_waiting}
    session.delete(team)
    session.flush()
    return was
