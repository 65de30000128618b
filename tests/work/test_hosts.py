"""Hosts that are away or not ready: nothing is begun there, who waits is told why, and what was lost is waited for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from farm import app
from farm.domain.causes import Cause
from farm.domain.devices import Availability, availability
from farm.domain.outcomes import Outcome
from farm.settings import load
from farm.store import alerts, devices, free_devices, hosts, leases, queue, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.store.reads.devices import facts_of
from farm.store.reads.fleet import fleet
from farm.work.context import Work
from farm.work.heart import Heart
from farm.work.planner import Planner
from farm.work.settings import WorkSettings
from farm.work.step import set_outcome
from farm.work.verdict import close
from tests.work.factories import add_bundle_and_pack, add_device, see_again, start_attempt, start_run

FULL = "about 10 MB are free in /farm/attempts, below 268 MB: free some"


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    made = Database(database_url)
    made.migrate()
    yield made
    made.close()


def beat(db: Database, unready: str | None = None) -> None:
    with db.session() as session:
        hosts.beat(session, "local", db.now(session), unready)


def lose(db: Database) -> None:
    with db.session() as session:
        hosts.lose(session, "local", db.now(session))


def seen_by(db: Database) -> set[tuple[Availability, str]]:
    """What everybody who looks makes of the one device: planner, selectors, pages; none may see another thing."""
    with db.read() as session:
        now = db.now(session)
        planned = [(d.state, d.why) for d in queue.planned_devices(session, now, queue.Limits())]
        told = [availability(d, now) for d in (*devices.facts(session), *facts_of(session))]
        shown = [(tile.availability, tile.why) for tile in fleet(session, now).tiles]
    return {*planned, *told, *shown}


def at_once(db: Database) -> list[str]:
    """Devices that a wish could have in the very transaction that asks."""
    with db.read() as session:
        return [device.name for device in free_devices.ready(session, None, db.now(session))]


def planned(db: Database) -> int:
    """How many attempts there are after a pass of the planner."""
    Planner(db, WorkSettings(), lambda _session, _attempt: None).once()
    with db.read() as session:
        return len(session.scalars(select(tables.Attempt)).all())


def test_a_device_whose_host_was_lost_a_moment_ago_is_away_for_everybody(db: Database) -> None:
    add_device(db, "d1")
    beat(db)
    assert seen_by(db) == {(Availability.READY, "ready")}
    assert at_once(db) == ["d1"]
    lose(db)
    [(word, why)] = seen_by(db)
    assert word is Availability.STALE
    assert why.startswith("its host local is away since ")
    assert why.endswith(" UTC")
    assert at_once(db) == []


def test_the_host_of_a_farm_of_one_process_is_never_away_while_that_answers(db: Database) -> None:
    add_device(db, "d1")
    beat(db)
    lose(db)
    with db.session() as session:
        for table in (tables.Host, tables.Device):
            session.execute(update(table).values(seen_at=db.now(session) - timedelta(minutes=5)))
    assert {word for word, _ in seen_by(db)} == {Availability.STALE}
    db.here = "far"
    assert {word for word, _ in seen_by(db)} == {Availability.STALE}
    db.here = "local"
    assert seen_by(db) == {(Availability.READY, "ready")}
    with db.session() as session:
        session.execute(update(tables.Device).values(health="bad", health_reason="too many strikes"))
        session.execute(update(tables.Host).values(lost_at=None))
    assert seen_by(db) == {(Availability.QUARANTINED, "too many strikes")}
    with db.read() as session:
        now = db.now(session)
        assert hosts.fallen_silent(session, now) == []
        assert [host.silent for host in fleet(session, now).hosts] == [False]
        assert "host-lost" not in {alert.kind for alert in alerts.due(session, now)}
    with db.session() as session:
        session.execute(update(tables.Device).values(connection="gone"))
    assert seen_by(db) == {(Availability.GONE, "adb does not list it")}  # of devices it is no proof


def test_a_farm_of_one_process_says_which_host_it_is_and_a_server_among_many_is_none(tmp_path: Path) -> None:
    settings = load({}, state=tmp_path / "farm", host_name="lab")
    farm = app.build(settings)
    for agent, here in ((False, None), (True, "lab")):
        app._work(settings, farm.app.state.farm, agent)
        assert farm.db.here == here
    farm.db.close()


def test_a_host_that_is_not_ready_gets_no_work_until_it_is_and_says_why(
    db: Database, store: ArtifactStore, tmp_path: Path
) -> None:
    add_device(db, "d1")
    add_bundle_and_pack(db, store, tmp_path / "src")
    beat(db, FULL)
    run = start_run(db)
    assert planned(db) == 0
    with db.read() as session:
        now = db.now(session)
        job = session.scalars(select(tables.Job).where(tables.Job.run_id == run)).one()
        assert job.wait_reason == f"position 1 of 1: d1 is not-ready (its host local is not ready: {FULL})"
        [host] = fleet(session, now).hosts
        assert (host.silent, host.unready) == (False, FULL)
        assert ("host-unready", f"host local is given no work: {FULL}") in [
            (alert.kind, alert.message) for alert in alerts.due(session, now)
        ]
    assert seen_by(db) == {(Availability.NOT_READY, f"its host local is not ready: {FULL}")}
    assert at_once(db) == []
    beat(db)
    assert planned(db) == 1


def test_that_a_host_is_ready_or_not_is_announced_once(db: Database) -> None:
    def changes(unready: str | None) -> list[str]:
        with db.read() as session:
            before = session.scalar(select(func.max(tables.Change.id))) or 0
        beat(db, unready)
        with db.read() as session:
            change = tables.Change
            return [row.topic for row in session.scalars(select(change).where(change.id > before).order_by(change.id))]

    add_device(db, "d1")
    beat(db)
    assert changes(FULL) == ["host", "device"]
    assert changes(FULL.replace("10 MB", "20 MB")) == []  # the figure may move with every beat
    assert changes(None) == ["host", "device"]


def test_the_heart_says_how_much_room_there_is(db: Database, store: ArtifactStore, tmp_path: Path) -> None:
    add_device(db, "d1")

    def unready(min_free_bytes: int) -> str | None:
        Heart(Work(db, tmp_path, store, WorkSettings(min_free_bytes=min_free_bytes))).beat()
        with db.read() as session:
            return session.get_one(tables.Host, "local").unready

    assert unready(1 << 60) is None  # there is no such folder: not measured
    (tmp_path / "attempts").mkdir()
    assert f"free in {tmp_path}/attempts, below" in str(unready(1 << 60))
    assert unready(1) is None


def lost_attempt(db: Database, store: ArtifactStore, folder: Path) -> None:
    """The only attempt of a job was lost a long time ago; its lease has ended."""
    start_attempt(db, store, folder)
    with db.session() as session:
        now = db.now(session)
        attempt = session.get_one(tables.Attempt, 1)
        set_outcome(attempt, Outcome.INFRA_ERROR, "its host was lost", Cause.HOST_LOST)
        [lease] = leases.open_leases(session)
        leases.end(session, lease.id, now, "cleaned")
        close(session, attempt, now - timedelta(hours=5))


def test_a_retry_waits_for_a_host_that_is_away_and_says_so(db: Database, store: ArtifactStore, tmp_path: Path) -> None:
    lost_attempt(db, store, tmp_path / "src")
    lose(db)
    assert planned(db) == 1
    with db.read() as session:
        job = session.get_one(tables.Job, 1)
        assert (job.state, job.outcome) == ("queued", None)
        assert "its host local is away since" in str(job.wait_reason)
    see_again(db)
    beat(db)
    with db.session() as session:
        session.execute(update(tables.Device).values(health="good"))
    assert planned(db) == 2


def test_a_retry_gives_up_on_a_device_that_its_own_host_does_not_see(
    db: Database, store: ArtifactStore, tmp_path: Path
) -> None:
    lost_attempt(db, store, tmp_path / "src")
    beat(db)
    with db.session() as session:
        session.execute(update(tables.Device).values(connection="gone", seen_at=datetime.now(UTC)))
    planned(db)
    with db.read() as session:
        job = session.get_one(tables.Job, 1)
    assert (job.state, job.outcome) == ("ended", "infra-error")
    assert job.wait_reason == "d1 did not come back within 120 s after 1 try"
