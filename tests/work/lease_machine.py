"""Random lives of a farm: submit, ask, grant, heartbeat, silence, expiry, kill, late write, extend, release, preempt.

After each step: never two open leases on a device, no job lost, every wait has a reason, tokens grow. And when nothing
new comes, everything that waits gets its turn.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from farm.domain.devices import Health
from farm.domain.journal import Record
from farm.domain.leases import CannotExtend, Lease
from farm.domain.outcomes import Outcome
from farm.store import leases, reservations, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.store.locks import hold_attempt
from farm.store.reservations import Wish
from farm.work.context import Work
from farm.work.journal import Shipper
from farm.work.lost import LostHosts
from farm.work.planner import Planner
from farm.work.settings import WorkSettings
from farm.work.step import set_outcome
from farm.work.verdict import close
from tests.work.factories import add_bundle_and_pack, start_run

START = datetime(2030, 1, 1, tzinfo=UTC)
DEVICES = {"a1": "hostA", "a2": "hostA", "b1": "hostB"}
SELECTORS = ("*", "name=a1", "name in (a2, b1)", "host=hostB")


class Timed(Database):
    """A database whose clock is the machine's."""

    at = START

    def now(self, session: Session | None = None) -> datetime:
        return self.at


class Lines:
    """What a runner wrote that was not shipped before."""

    def __init__(self, records: list[Record]) -> None:
        self._records = records

    def read(self) -> list[Record]:
        found, self._records = self._records, []
        return found


class LeaseMachine(RuleBasedStateMachine):
    """`new_url` gives the URL of an empty farm database."""

    new_url: Callable[[Path], str]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="lm-"))
        self.url = type(self).new_url(self.folder)
        self.seq = count(1)
        self.cut: set[str] = set()  # hosts that nobody hears of
        self.tokens: dict[int, int] = {}
        self.late: list[tuple[int, str]] = []  # (attempt, test) written under a stale token
        self.began: dict[int, tuple[int, int]] = {}  # attempt -> its lease's id and token
        self.planned = False

    def open(self, at: datetime) -> None:
        self.db = Timed(self.url)
        self.db.at = at
        self.planner = Planner(self.db, WorkSettings(), lambda _session, _attempt: None)
        self.lost = LostHosts(self.db)
        self.lost.begin()

    @initialize()
    def begin(self) -> None:
        self.open(START)
        self.db.migrate()
        add_bundle_and_pack(self.db, ArtifactStore(self.folder / "artifacts"), self.folder / "made")
        with self.db.session() as session:
            for host in sorted(set(DEVICES.values())):
                session.add(tables.Host(name=host, drained=False, info={}, seen_at=START))
            session.flush()
            for name, host in DEVICES.items():
                session.add(
                    tables.Device(
                        serial=name, name=name, host=host, virtual=True, labels={"abi": "x86_64"},
                        connection="device", boot_completed=True, seen_at=START,
                    )
                )  # fmt: skip
        self.beat()

    def teardown(self) -> None:
        try:
            if hasattr(self, "db"):
                self.everything_gets_its_turn()
        finally:
            if hasattr(self, "db"):
                self.db.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- what happens ----

    @rule(klass=st.sampled_from(["debug", "pr", "manual", "nightly"]), selector=st.sampled_from(SELECTORS))
    def submit(self, klass: str, selector: str) -> None:
        start_run(self.db, selector=selector, klass=klass, mode="any")
        self.planned = False

    @rule(
        selector=st.sampled_from(SELECTORS),
        lasts=st.sampled_from([20, 120, 7200]),
        wait=st.sampled_from([None, 30, 3600]),
        team=st.sampled_from(["red", "blue"]),
    )
    def ask(self, selector: str, lasts: int, wait: int | None, team: str) -> None:
        now = self.db.at
        until = None if wait is None else now + timedelta(seconds=wait)
        with self.db.session() as session:
            wish = Wish(selector, timedelta(seconds=lasts), "ann", team, wait_until=until)
            _, lease = reservations.request(session, wish, now)
        self.planned &= lease is not None

    @rule()
    def plan(self) -> None:
        self.planner.once()
        self.lost.once()
        self.planned = True
        with self.db.read() as session:
            for lease in leases.open_leases(session):
                if lease.holder.startswith("attempt:"):
                    self.began.setdefault(int(lease.holder[8:]), (lease.id, lease.token))

    @rule(seconds=st.sampled_from([1, 5, 12, 31, 400]))
    def time_passes(self, seconds: int) -> None:
        """Hosts that live beat meanwhile."""
        for _ in range(min(seconds, 40) // 5 + 1):
            self.db.at += timedelta(seconds=min(seconds, 5) if seconds < 100 else seconds / 9)
            self.beat()
        self.planned = False

    def beat(self) -> None:
        with self.db.session() as session:
            alive = set(DEVICES.values()) - self.cut
            for table, column in ((tables.Host, tables.Host.name), (tables.Device, tables.Device.host)):
                session.execute(update(table).where(column.in_(alive)).values(seen_at=self.db.at))
            session.execute(update(tables.Host).where(tables.Host.name.in_(alive)).values(lost_at=None))
            for host in alive:
                leases.renew(session, [lease.id for lease in leases.open_leases(session, host)], self.db.at)

    @rule(host=st.sampled_from(sorted(set(DEVICES.values()))))
    def a_host_is_cut_off_or_comes_back(self, host: str) -> None:
        self.cut ^= {host}
        self.planned = False

    @rule()
    def the_farm_is_killed_and_starts_again(self) -> None:
        at = self.db.at
        self.db.close()
        self.open(at + timedelta(seconds=3))
        self.planned = False

    @precondition(lambda self: self.held())
    @rule(data=st.data())
    def extend(self, data: Any) -> None:
        lease = data.draw(st.sampled_from(self.held()))
        with self.db.session() as session:
            try:
                longer = leases.extend(
                    session, lease.id, timedelta(hours=data.draw(st.sampled_from([1, 30]))), self.db.at
                )
            except CannotExtend:
                return
            assert longer.ends_at > lease.ends_at
            assert lease.reservation_id is not None

    @precondition(lambda self: self.held())
    @rule(data=st.data())
    def release(self, data: Any) -> None:
        lease = data.draw(st.sampled_from(self.held()))
        if lease.reservation_id is None:
            return
        with self.db.session() as session:
            reservations.end(session, lease.reservation_id, self.db.at, "given back")

    @precondition(lambda self: self.held())
    @rule(data=st.data())
    def preempt(self, data: Any) -> None:
        lease = data.draw(st.sampled_from(self.held()))
        with self.db.session() as session:
            if lease.released_at is not None:
                with pytest.raises(leases.NoSuchLease):
                    leases.preempt(session, lease.id, "olga", "the lab moves", self.db.at)
                return
            leases.preempt(session, lease.id, "olga", "the lab moves", self.db.at)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), outcome=st.sampled_from([Outcome.PASSED, Outcome.INFRA_ERROR, Outcome.DEVICE_LOST]))
    def an_attempt_ends(self, data: Any, outcome: Outcome) -> None:
        """On a host that lives: as it says, or, when it lost its lease, as the farm's own trouble."""
        self.end_attempt(data.draw(st.sampled_from(self.running())), outcome)

    @rule()
    def released_devices_are_cleaned(self) -> None:
        """On hosts that live, and not while the attempt that held the device works on."""
        with self.db.session() as session:
            open_now = leases.open_leases(session)
            running = {f"attempt:{ident}" for ident in self.running()}
            for lease in open_now:
                host = session.get_one(tables.Device, lease.device_id).host
                if lease.released_at is not None and host not in self.cut and lease.holder not in running:
                    leases.end(session, lease.id, self.db.at, "cleaned")
            for device in session.scalars(select(tables.Device)):  # looked at, and found to be well
                device.health, device.health_until, device.strikes = Health.GOOD.value, None, 0
        self.planned = False

    @precondition(lambda self: self.began)
    @rule(data=st.data())
    def a_runner_writes(self, data: Any) -> None:
        """Whenever it does, under the token that it began with: once its lease has ended that changes nothing."""
        attempt = data.draw(st.sampled_from(sorted(self.began)))
        seq = next(self.seq)
        fields = {"test": f"smoke/t.py::t{seq}", "outcome": "passed"}
        record = Record(seq, self.db.at.timestamp(), 1.0, "test-end", fields)
        lease, token = self.began[attempt]
        with self.db.read() as session:
            stale = session.get_one(tables.Lease, lease).ended_at is not None
        work = Work(self.db, self.folder, ArtifactStore(self.folder / "artifacts"), WorkSettings())
        Shipper(work, attempt, token, Lines([record])).ship()  # type: ignore[arg-type]
        if stale:
            self.late.append((attempt, fields["test"]))

    # ---- what always holds ----

    @invariant()
    def a_device_has_one_open_lease_at_most_and_its_tokens_grow(self) -> None:
        if not hasattr(self, "db"):
            return
        with self.db.read() as session:
            rows = session.scalars(select(tables.Lease).order_by(tables.Lease.id)).all()
            newest = dict(session.execute(select(tables.Device.id, tables.Device.last_token)).all())
        opened = [row.device_id for row in rows if row.ended_at is None]
        assert len(opened) == len(set(opened))
        for device, token in newest.items():
            given = [row.token for row in rows if row.device_id == device]
            assert given == sorted(set(given))
            assert max(given, default=0) <= token
            assert token >= self.tokens.get(device, 0)
            self.tokens[device] = token
        assert all(row.released_at is not None for row in rows if row.ended_at is not None)

    @invariant()
    def no_job_and_no_reservation_is_lost(self) -> None:
        if not hasattr(self, "db"):
            return
        with self.db.read() as session:
            jobs = session.scalars(select(tables.Job)).all()
            live = session.scalars(select(tables.Attempt.job_id).where(tables.Attempt.phase != "done")).all()
            asked = session.scalars(select(tables.Reservation)).all()
            held = {lease.id: lease for lease in leases.open_leases(session)}
        for job in jobs:
            assert live.count(job.id) == (1 if job.state == "running" else 0), (job.id, job.state)
            assert (job.outcome is not None) is (job.state == "ended")
        for one in asked:
            assert one.state in ("queued", "active", "ended")
            if one.state == "active":
                assert held[one.lease_id or 0].holder == f"reservation:{one.id}"
                assert held[one.lease_id or 0].released_at is None
            if one.state == "ended":
                assert one.ended_at is not None
                assert one.end_reason

    @invariant()
    def whoever_waits_knows_why(self) -> None:
        if not hasattr(self, "db") or not self.planned:
            return
        with self.db.read() as session:
            for job in session.scalars(select(tables.Job).where(tables.Job.state == "queued")):
                assert job.wait_reason, job.id
            for one in session.scalars(select(tables.Reservation).where(tables.Reservation.state == "queued")):
                assert one.wait_reason, one.id

    @invariant()
    def what_came_under_a_stale_token_is_kept_and_not_applied(self) -> None:
        if not self.late:
            return
        with self.db.read() as session:
            for attempt, test in self.late:
                assert session.get(tables.Test, (attempt, test)) is None
            marks = session.scalars(select(tables.JournalMark.late).where(tables.JournalMark.late)).all()
        assert len(marks) == len(self.late)

    def everything_gets_its_turn(self) -> None:
        """Nothing new comes, every host is back: within a bounded number of rounds nothing waits any more."""
        self.cut.clear()
        for _ in range(60):
            self.time_passes(12)
            self.plan()
            for attempt in self.running():
                self.end_attempt(attempt, Outcome.PASSED)
            for lease in self.held():
                if lease.reservation_id is not None:
                    with self.db.session() as session:
                        reservations.end(session, lease.reservation_id, self.db.at, "given back")
            self.released_devices_are_cleaned()
            left = self.waiting()
            if not left:
                break
        assert left == []
        assert self.held() == []

    # ---- looks ----

    def waiting(self) -> list[tuple[str, int, str | None]]:
        """Jobs and reservations that have not ended, with their reason."""
        with self.db.read() as session:
            jobs = session.scalars(select(tables.Job).where(tables.Job.state != "ended")).all()
            asked = session.scalars(select(tables.Reservation).where(tables.Reservation.state != "ended")).all()
        return [("job", j.id, j.wait_reason) for j in jobs] + [("reservation", r.id, r.wait_reason) for r in asked]

    def held(self) -> list[Lease]:
        with self.db.read() as session:
            return leases.open_leases(session)

    def running(self) -> list[int]:
        """Attempts that are not done, on hosts that live."""
        with self.db.read() as session:
            query = select(tables.Attempt).where(tables.Attempt.phase != "done").order_by(tables.Attempt.id)
            return [row.id for row in session.scalars(query) if row.host not in self.cut]

    def end_attempt(self, ident: int, outcome: Outcome) -> None:
        with self.db.session() as session:
            attempt = hold_attempt(session, ident)
            if not leases.still_mine(session, ident, attempt.token):
                outcome = Outcome.INFRA_ERROR
            set_outcome(attempt, outcome, "as the test says")
            close(session, attempt, self.db.at)
        self.planned = False
