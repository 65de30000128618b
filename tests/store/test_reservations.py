"""Reservations: a free device at once, else a place in the queue, and never past somebody who waits."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from farm.domain.leases import LONGEST, CannotExtend, Lease
from farm.store import leases, reservations, tables
from farm.store.db import Database
from farm.store.reservations import Wish

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def add_device(db: Database, serial: str = "s1", **labels: str) -> int:
    with db.session() as session:
        if session.get(tables.Host, "local") is None:
            session.add(tables.Host(name="local", drained=False, info={}))
            session.flush()
        row = tables.Device(
            serial=serial, name=serial, host="local", labels=labels, connection="device", seen_at=NOW, health="good"
        )
        session.add(row)
        session.flush()
        return row.id


def wish(selector: str = "*", **more: object) -> Wish:
    return Wish(**{"selector": selector, "lasts": HOUR, "created_by": "ann", "team": "red", **more})  # type: ignore[arg-type]


def ask(db: Database, wanted: Wish, now: datetime = NOW) -> tuple[int, Lease | None]:
    with db.session() as session:
        return reservations.request(session, wanted, now)


def row_of(db: Database, ident: int) -> tables.Reservation:
    with db.read() as session:
        return session.get_one(tables.Reservation, ident)


def test_a_free_device_is_had_at_once_and_the_lease_says_whose_it_is(db: Database) -> None:
    device = add_device(db)
    ident, lease = ask(db, wish())
    assert lease is not None
    assert (lease.device_id, lease.holder, lease.user, lease.team) == (device, f"reservation:{ident}", "ann", "red")
    assert lease.ends_at == NOW + HOUR
    row = row_of(db, ident)
    assert (row.state, row.lease_id) == ("active", lease.id)


def test_what_is_held_is_waited_for_and_the_planners_grant_begins_it(db: Database) -> None:
    device = add_device(db)
    _, first = ask(db, wish())
    second, none = ask(db, wish())
    assert none is None
    assert first is not None
    with db.session() as session:
        [waits] = reservations.waiting(session, NOW)
        assert waits.id == second
        with pytest.raises(leases.AlreadyHeld):
            reservations.begin(session, second, device, NOW)
    with db.session() as session:
        leases.end(session, first.id, NOW, "clean")
        lease = reservations.begin(session, second, device, NOW)
        assert lease is not None
        assert lease.token > first.token
        assert reservations.begin(session, second, device, NOW) is None


def test_only_a_device_that_the_selector_picks_is_given(db: Database) -> None:
    add_device(db, "a", soc="x")
    wanted = add_device(db, "b", soc="y")
    _, lease = ask(db, wish("soc=y"))
    assert lease is not None
    assert lease.device_id == wanted


def test_among_equals_the_coolest_and_least_worn_is_given(db: Database) -> None:
    hot, worn, fresh = (add_device(db, name) for name in ("hot", "worn", "fresh"))
    with db.session() as session:
        session.get_one(tables.Device, hot).temperature_c = 44.0
        session.get_one(tables.Device, worn).used_s = 100.0
    assert [lease.device_id for lease in (ask(db, wish())[1] for _ in range(3)) if lease] == [fresh, worn, hot]


def test_an_earlier_wish_for_the_same_device_is_not_overtaken(db: Database) -> None:
    device = add_device(db, "a", soc="x")
    _, first = ask(db, wish())
    waiting, _ = ask(db, wish("soc=x"))
    assert first is not None
    with db.session() as session:
        leases.end(session, first.id, NOW, "clean")  # free again, and the planner has not come by yet
    late, lease = ask(db, wish())
    assert lease is None
    other = add_device(db, "b", soc="y")
    _, lease = ask(db, wish())  # nobody before this one wants a device with soc=y … but the one that takes anything
    assert lease is None
    with db.session() as session:
        reservations.begin(session, waiting, device, NOW)
        reservations.begin(session, late, other, NOW)
    add_device(db, "c")
    assert row_of(db, waiting).state == row_of(db, late).state == "active"


def test_a_job_that_waits_is_not_overtaken_nor_is_a_hold_passed_over(db: Database) -> None:
    add_device(db)
    with db.session() as session:
        hold = tables.Hold(scope="farm", ref="", reason="move", by="op", at=NOW)
        session.add(hold)
    assert ask(db, wish())[1] is None
    with db.session() as session:
        for row in session.scalars(select(tables.Hold)):
            row.lifted_at = NOW
        for reservation in session.scalars(select(tables.Reservation)):
            reservations.end(session, reservation.id, NOW, "withdrawn")
    assert ask(db, wish())[1] is not None


def test_a_team_and_a_token_get_no_more_devices_than_their_quota(db: Database) -> None:
    for name in "abc":
        add_device(db, name)
    with db.session() as session:
        session.add(tables.Team(name="red", weight=1.0, max_devices=1, created_at=NOW))
    assert ask(db, wish())[1] is not None
    assert ask(db, wish())[1] is None
    with db.read() as session:
        assert reservations.over_quota(session, "red", None) == "team red holds 1 of 1 device"
        assert reservations.over_quota(session, "blue", None) is None


def test_a_wish_ends_when_its_wait_is_over_and_says_what_it_waited_for(db: Database) -> None:
    add_device(db)
    ask(db, wish())
    ident, _ = ask(db, wish(wait_until=NOW + timedelta(seconds=5)))
    later = NOW + timedelta(seconds=5)
    with db.session() as session:
        assert reservations.note_reason(session, ident, "s1 is reserved", NOW)
        assert not reservations.note_reason(session, ident, "s1 is reserved", NOW)
        assert not reservations.any_expired(session, NOW)
        assert reservations.any_expired(session, later)
        assert reservations.waiting(session, later) == []
        assert reservations.expire(session, later) == [ident]
    row = row_of(db, ident)
    assert (row.state, row.end_reason) == ("ended", "the wait is over: s1 is reserved")


def test_a_reservation_ends_with_its_lease_and_with_the_leases_reason(db: Database) -> None:
    add_device(db)
    ident, lease = ask(db, wish())
    assert lease is not None
    with db.session() as session:
        leases.expire(session, NOW + HOUR, trust_heartbeat=False)
    row = row_of(db, ident)
    assert (row.state, row.ended_at, row.end_reason) == ("ended", NOW + HOUR, "its hard end passed")


def test_an_operator_takes_a_device_away_and_its_holder_sees_who_and_why(db: Database) -> None:
    add_device(db)
    ident, lease = ask(db, wish())
    assert lease is not None
    with db.session() as session:
        leases.preempt(session, lease.id, "olga", "the lab moves", NOW)
        with pytest.raises(leases.NoSuchLease):
            leases.preempt(session, lease.id, "olga", "again", NOW)
    assert row_of(db, ident).end_reason == "preempted by olga because the lab moves"
    with db.session() as session:
        leases.end(session, lease.id, NOW, "cleaned")
        row = session.get_one(tables.Lease, lease.id)
    assert (row.preempted_by, row.end_reason) == ("olga", "preempted by olga because the lab moves")


def test_a_holder_is_warned_once_before_the_end_and_again_after_an_extension(db: Database) -> None:
    add_device(db)
    ident, lease = ask(db, wish())
    assert lease is not None
    near = NOW + HOUR - timedelta(minutes=5)
    with db.session() as session:
        leases.renew(session, [lease.id], near)
        assert not leases.any_over(session, near - timedelta(seconds=1))
        assert leases.any_over(session, near)
        assert [x.id for x in leases.warn(session, near)] == [lease.id]
        session.flush()
        assert leases.warn(session, near) == []
        longer = leases.extend(session, lease.id, HOUR, near)
        assert longer.ends_at == NOW + 2 * HOUR
        assert leases.warn(session, near) == []
        assert [x.id for x in leases.warn(session, near + HOUR)] == [lease.id]
    with db.read() as session:
        told = session.scalars(select(tables.Change).where(tables.Change.topic == "reservation")).all()
    assert {row.ref for row in told} == {str(ident)}
    assert len(told) == 4  # begun, warned, extended, warned


def test_no_extension_goes_past_the_policys_cap(db: Database) -> None:
    add_device(db)
    _, lease = ask(db, wish())
    assert lease is not None
    with db.session() as session:
        with pytest.raises(CannotExtend, match="at most 24 h in all: 23 h more"):
            leases.extend(session, lease.id, LONGEST, NOW)
        leases.extend(session, lease.id, LONGEST - HOUR, NOW)
        with pytest.raises(CannotExtend, match="0 s more"):
            leases.extend(session, lease.id, timedelta(seconds=1), NOW)
        leases.release(session, lease.id, NOW, "done")
        with pytest.raises(CannotExtend, match="over"):
            leases.extend(session, lease.id, timedelta(seconds=1), NOW)
        leases.end(session, lease.id, NOW, "clean")
        with pytest.raises(leases.NoSuchLease):
            leases.extend(session, lease.id, timedelta(seconds=1), NOW)


def test_the_time_under_leases_is_the_devices_wear(db: Database) -> None:
    device = add_device(db)
    _, lease = ask(db, wish())
    assert lease is not None
    with db.session() as session:
        leases.end(session, lease.id, NOW + timedelta(seconds=90), "clean")
        assert not leases.end(session, lease.id, NOW + timedelta(seconds=900), "clean")
    with db.read() as session:
        assert session.get_one(tables.Device, device).used_s == 90.0


def test_many_who_ask_at_once_never_wait_for_each_other_in_a_circle(db: Database) -> None:
    for number in range(4):
        add_device(db, f"s{number}")
    errors: list[BaseException] = []

    def ask_and_give_back() -> None:
        try:
            for _ in range(20):
                ident, lease = ask(db, wish())
                with db.session() as session:
                    if lease is None:
                        reservations.end(session, ident, NOW, "withdrawn")
                    else:
                        leases.end(session, lease.id, NOW, "clean")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=ask_and_give_back) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert errors == []
    with db.read() as session:
        assert leases.open_leases(session) == []
