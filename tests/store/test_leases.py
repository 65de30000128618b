"""Leases: one holder at a time, whoever asks, from wherever."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from farm.domain.leases import HEARTBEAT, LeaseVerdict
from farm.store import leases, tables
from farm.store.db import Database

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=4)


def add_device(db: Database, serial: str = "s1") -> int:
    with db.session() as session:
        if session.get(tables.Host, "local") is None:
            session.add(tables.Host(name="local", drained=False, info={}))
            session.flush()
        row = tables.Device(serial=serial, name=serial, host="local", labels={})
        session.add(row)
        session.flush()
        return row.id


def test_a_second_grant_of_a_held_device_is_refused_and_names_the_holder(db: Database) -> None:
    device = add_device(db)
    with db.session() as session:
        leases.grant(session, device, "reservation:1", None, NOW, LATER)
    with db.session() as session:
        with pytest.raises(leases.AlreadyHeld, match="reservation:1"):
            leases.grant(session, device, "reservation:2", None, NOW, LATER)
        session.add(tables.Setting(key="still", value={"usable": True}))
    with db.read() as session:
        assert session.get(tables.Setting, "still") is not None
        assert len(leases.open_leases(session)) == 1


def test_a_released_device_is_not_granted_before_its_lease_has_ended(db: Database) -> None:
    device = add_device(db)
    with db.session() as session:
        first = leases.grant(session, device, "reservation:1", None, NOW, LATER)
        assert leases.release(session, first.id, NOW, "done")
        assert not leases.release(session, first.id, NOW, "done again")
    with db.session() as session, pytest.raises(leases.AlreadyHeld):
        leases.grant(session, device, "reservation:2", None, NOW, LATER)
    with db.session() as session:
        assert leases.end(session, first.id, NOW, "clean")
        assert not leases.end(session, first.id, NOW, "clean")
        second = leases.grant(session, device, "reservation:2", None, NOW, LATER)
    assert second.token > first.token


def test_a_lease_whose_holder_is_silent_ends_at_its_heartbeat(db: Database) -> None:
    device = add_device(db)
    with db.session() as session:
        lease = leases.grant(session, device, "reservation:1", None, NOW, LATER)
        soon = NOW + HEARTBEAT / 2
        assert leases.renew(session, [lease.id], soon) == [lease.id]
        assert leases.expire(session, NOW + HEARTBEAT, trust_heartbeat=True) == []
        late = soon + HEARTBEAT
        assert leases.expire(session, late, trust_heartbeat=False) == []
        [(expired, verdict)] = leases.expire(session, late, trust_heartbeat=True)
        assert (expired.id, verdict) == (lease.id, LeaseVerdict.SILENT)
        assert leases.renew(session, [lease.id], late) == []
        assert len(leases.open_leases(session)) == 1  # released, and not free before it is clean


def test_the_hard_end_stands_even_right_after_a_start(db: Database) -> None:
    device = add_device(db)
    with db.session() as session:
        leases.grant(session, device, "reservation:1", None, NOW, NOW + timedelta(minutes=1))
        [(_, verdict)] = leases.expire(session, NOW + timedelta(minutes=1), trust_heartbeat=False)
    assert verdict is LeaseVerdict.OVER


GRABBER = textwrap.dedent(
    """
    import random, sys
    from datetime import UTC, datetime, timedelta
    from farm.store import leases
    from farm.store.db import Database

    url, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    db, now, held = Database(url), datetime(2030, 1, 1, tzinfo=UTC), 0
    dice = random.Random(name)
    for n in range(rounds):
        device = dice.choice([1, 2, 3])
        try:
            with db.session() as session:
                lease = leases.grant(session, device, f"{name}:{n}", None, now, now + timedelta(hours=1))
        except leases.AlreadyHeld:
            continue
        held += 1
        with db.session() as session:
            others = [l for l in leases.open_leases(session) if l.device_id == device and l.id != lease.id]
            assert not others, others
            leases.end(session, lease.id, now, "done")
    print(held)
    """
)


def test_many_threads_and_processes_never_hold_one_device_twice(db: Database, tmp_path: Path) -> None:
    for serial in ("s1", "s2", "s3"):
        add_device(db, serial)
    processes = [
        subprocess.Popen([sys.executable, "-c", GRABBER, db.url, f"p{i}", "40"], stdout=subprocess.PIPE, text=True)
        for i in range(3)
    ]
    errors: list[BaseException] = []
    held: list[int] = []

    def grab(name: str) -> None:
        dice = random.Random(name)
        try:
            for n in range(40):
                device = dice.choice([1, 2, 3])
                try:
                    with db.session() as session:
                        lease = leases.grant(session, device, f"{name}:{n}", None, NOW, LATER)
                except leases.AlreadyHeld:
                    continue
                held.append(lease.id)
                with db.session() as session:
                    mine = [x for x in leases.open_leases(session) if x.device_id == device]
                    assert [x.id for x in mine] == [lease.id]
                    leases.end(session, lease.id, NOW, "done")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=grab, args=(f"t{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    outputs = [p.communicate(timeout=120)[0] for p in processes]
    assert errors == []
    assert [p.returncode for p in processes] == [0, 0, 0]
    with db.read() as session:
        rows = session.scalars(select(tables.Lease).order_by(tables.Lease.id)).all()
        assert len(rows) == len(held) + sum(int(o) for o in outputs) > 0
        assert all(row.ended_at is not None for row in rows)
        for device in (1, 2, 3):  # the token of every grant on a device is a new and greater one
            tokens = [row.token for row in rows if row.device_id == device]
            assert tokens == sorted(set(tokens))
