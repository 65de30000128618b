"""Handing over: a device that becomes free goes to who waits for it, in the transaction that frees it."""

from __future__ import annotations

from datetime import timedelta

from farm.domain.leases import Lease
from farm.store import handover, leases, reservations, tables
from farm.store.db import Database
from tests.store.test_reservations import HOUR, NOW, add_device, ask, row_of, wish


def free(db: Database, lease: Lease | None) -> bool:
    assert lease is not None
    with db.session() as session:
        return handover.free(session, lease.id, NOW, "clean")


def states(db: Database, *idents: int) -> list[str]:
    return [row_of(db, ident).state for ident in idents]


def test_those_who_wait_are_served_in_order_of_age_by_whoever_gives_back(db: Database) -> None:
    device = add_device(db)
    _, held = ask(db, wish())
    first, second = (ask(db, wish(), NOW + timedelta(seconds=n))[0] for n in (1, 2))
    with db.session() as session:
        assert handover.free(session, held.id if held else 0, NOW + timedelta(seconds=3), "clean")
        [lease] = leases.open_leases(session)
    assert (lease.device_id, lease.holder, lease.ends_at) == (
        device,
        f"reservation:{first}",
        NOW + timedelta(seconds=3) + HOUR,
    )
    assert states(db, first, second) == ["active", "queued"]
    assert not free(db, held)


def test_nobody_gets_a_device_that_was_not_cleaned(db: Database) -> None:
    device = add_device(db)
    _, held = ask(db, wish())
    waiting, _ = ask(db, wish())
    with db.session() as session:
        session.get_one(tables.Device, device).health = "bad"
    assert free(db, held)
    assert states(db, waiting) == ["queued"]


def test_only_who_could_use_the_device_is_served(db: Database) -> None:
    add_device(db, "a", soc="x")
    other = add_device(db, "b", soc="y")
    _, first = ask(db, wish("soc=x"))
    _, second = ask(db, wish("soc=y"))
    older, _ = ask(db, wish("soc=x"))
    wanting, _ = ask(db, wish("soc=y"))
    assert free(db, second)
    assert states(db, older, wanting) == ["queued", "active"]
    assert first is not None
    with db.read() as session:
        assert {lease.device_id for lease in leases.open_leases(session)} == {first.device_id, other}


def test_where_teams_or_wishes_compete_the_planner_decides(db: Database) -> None:
    add_device(db)
    _, held = ask(db, wish())
    red, _ = ask(db, wish())
    blue, _ = ask(db, wish(team="blue", created_by="bob"))
    assert free(db, held)
    assert states(db, red, blue) == ["queued", "queued"]


def test_a_pause_is_kept_and_so_is_a_quota(db: Database) -> None:
    add_device(db)
    _, held = ask(db, wish())
    waiting, _ = ask(db, wish())
    with db.session() as session:
        session.add(tables.Hold(scope="farm", ref="", reason="move", by="op", at=NOW))
    assert free(db, held)
    assert states(db, waiting) == ["queued"]


def test_a_team_at_its_quota_waits_on(db: Database) -> None:
    for name in "ab":
        add_device(db, name)
    _, first = ask(db, wish())
    _, second = ask(db, wish())
    waiting, _ = ask(db, wish())
    with db.session() as session:
        session.add(tables.Team(name="red", weight=1.0, max_devices=1, created_at=NOW))
    assert free(db, first)
    assert states(db, waiting) == ["queued"]
    assert free(db, second)
    assert states(db, waiting) == ["active"]


def test_a_wish_that_was_withdrawn_or_given_up_is_not_served(db: Database) -> None:
    add_device(db)
    _, held = ask(db, wish())
    withdrawn, _ = ask(db, wish())
    over, _ = ask(db, wish(wait_until=NOW))
    later, _ = ask(db, wish(begins_at=NOW + HOUR))
    with db.session() as session:
        assert reservations.end(session, withdrawn, NOW, "withdrawn")
        assert not reservations.end(session, withdrawn, NOW, "withdrawn")
    assert free(db, held)
    assert states(db, withdrawn, over, later) == ["ended", "queued", "queued"]
    with db.read() as session:
        assert leases.open_leases(session) == []
