"""Lost and deaf devices are brought back rung by rung; each rung is in the device's history."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from farm.adb import health
from farm.adb.health import HealthReport
from farm.domain.devices import Health
from farm.store import devices, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work.context import Work
from farm.work.hold import lock_of
from farm.work.inventory import InventoryKeeper
from farm.work.looks import Looks
from farm.work.recovery import Recoveries, filled, run_command
from farm.work.settings import WorkSettings
from tests.waiting import eventually
from tests.work.factories import add_device

OK = HealthReport(ok=True, boot_id="b", boot_completed=True, apps_ok=True, storage_ok=True)
DEAF = HealthReport(ok=False, problems=["its shell did not return what it was asked to"], ill=True)


class Bench:
    """A host with one device whose answers and clock the test sets."""

    def __init__(self, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
        self.work = work
        self.report = OK
        self.reboots = 0
        self.now = work.db.now()
        monkeypatch.setattr(health, "check", lambda _device, **_options: self.report)
        monkeypatch.setattr(Work, "device", lambda _work, _address: self)
        monkeypatch.setattr(Database, "now", lambda _db, _session=None: self.now)
        self.restart()

    def reboot(self) -> None:
        self.reboots += 1

    def restart(self) -> None:
        """The farm's process is another one now."""
        keeper = InventoryKeeper(self.work.db, self.work.state / "devices.yaml", "local")
        keeper.poll()
        self.looks = Looks(self.work)
        self.recoveries = Recoveries(self.work, keeper, self.looks)
        self.recoveries.begin()

    def row(self) -> tables.Device:
        with self.work.db.read() as session:
            return session.get_one(tables.Device, 1)

    def connection(self, word: str) -> None:
        with self.work.db.session() as session:
            session.get_one(tables.Device, 1).connection = word

    def run(self, seconds: float) -> None:
        """The agent's passes of so many seconds."""
        for _ in range(int(seconds)):
            self.now += timedelta(seconds=1)
            row = self.row()
            if self.recoveries.wanted(row, leased=False, now=self.now):
                self.recoveries.step(1)
            elif row.connection == "device":
                self.looks.look(1)

    def history(self, kind: str = "recovery") -> list[str]:
        with self.work.db.read() as session:
            query = select(tables.DeviceEvent).where(tables.DeviceEvent.kind == kind).order_by(tables.DeviceEvent.id)
            return [e.detail.get("rung") or e.detail["health"] for e in session.scalars(query)]


@pytest.fixture
def bench(db: Database, store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("FARM_LOCKS", str(tmp_path / "locks"))
    add_device(db, "d1")
    return Bench(Work(db, tmp_path, store, WorkSettings()), monkeypatch)


def test_a_device_that_is_away_for_a_moment_leaves_no_trace_in_its_health(bench: Bench) -> None:
    bench.run(2)
    bench.connection("gone")
    bench.run(3)
    bench.connection("device")
    bench.run(5)
    assert bench.history() == []
    assert (bench.row().health, bench.history("health")) == ("good", [])


def test_an_absent_device_is_given_up_to_a_person_with_advice_and_is_good_again_when_it_is_back(bench: Bench) -> None:
    bench.run(2)
    bench.connection("gone")
    bench.run(80)
    assert bench.history() == ["settle", "online", "given-up"]
    row = bench.row()
    assert (row.health, row.health_by) == ("suspect", "recovery")
    assert "power_cycle" in str(row.health_action)
    assert "online: adb does not list it" in str(row.health_log)
    bench.run(200)
    assert bench.history() == ["settle", "online", "given-up"]
    bench.connection("device")
    bench.run(3)
    assert (bench.row().health, bench.row().health_action) == ("good", None)


def test_the_hosts_own_command_cycles_the_port_of_an_absent_device(bench: Bench, tmp_path: Path) -> None:
    script = tmp_path / "cycle.py"
    script.write_text("import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])")
    command = [sys.executable, str(script), str(tmp_path / "cycled"), "port of {serial}"]
    (tmp_path / "devices.yaml").write_text(f"hosts: {{local: {{power_cycle: {command!r}}}}}\n")
    bench.restart()
    bench.run(2)
    bench.connection("gone")
    bench.run(70)
    assert (tmp_path / "cycled").read_text() == "port of d1"
    bench.connection("device")
    bench.run(3)
    assert bench.history() == ["settle", "online", "power-cycle", "online", "recovered"]
    assert bench.history("recovery-action") == ["power-cycle"]
    assert bench.row().health == "good"


def test_a_deaf_device_is_rebooted_and_then_quarantined_for_longer_each_time(bench: Bench) -> None:
    bench.report = DEAF
    bench.run(120)
    assert bench.history() == ["settle", "shell", "reboot", "online", "shell", "given-up"]
    assert bench.reboots == 1
    row = bench.row()
    assert (row.health, row.health_by) == ("bad", "recovery")
    assert "tried: reboot" in str(row.health_reason)
    first = _rest(row)
    bench.run(first.total_seconds() + 120)
    assert bench.reboots == 2
    assert _rest(bench.row()) == 2 * first
    bench.report = OK
    bench.run(_rest(bench.row()).total_seconds() + 5)
    assert bench.row().health == "good"


def _rest(row: tables.Device) -> timedelta:
    assert row.health_until is not None
    assert row.health_at is not None
    until: datetime = row.health_until
    return until - row.health_at


def test_a_recovery_goes_on_where_a_restart_of_the_farm_interrupted_it(bench: Bench) -> None:
    bench.report = DEAF
    bench.run(60)
    assert bench.history()[-2:] == ["online", "shell"]
    bench.restart()
    bench.run(60)
    assert bench.history() == ["settle", "shell", "reboot", "online", "shell", "given-up"]
    assert bench.reboots == 1


def test_a_device_that_is_leased_or_in_maintenance_is_left_alone(bench: Bench) -> None:
    bench.run(2)
    bench.connection("gone")
    assert not bench.recoveries.wanted(bench.row(), leased=True, now=bench.now)
    with bench.work.db.session() as session:
        session.get_one(tables.Device, 1).health = "maintenance"
    bench.run(100)
    assert bench.history() == []


def test_a_quarantine_of_a_persons_is_not_talked_over(bench: Bench) -> None:
    with bench.work.db.session() as session:
        devices.set_health(session, 1, Health.BAD, "broken screen", "ada", bench.now)
    bench.run(2)
    bench.connection("gone")
    bench.run(100)
    assert (bench.row().health, bench.row().health_reason) == ("bad", "broken screen")


def test_nothing_is_done_to_a_device_that_somebody_at_the_desk_holds(bench: Bench) -> None:
    lock = lock_of(bench.work, bench.row())
    assert lock.try_acquire("a desk")
    try:
        bench.report = DEAF
        bench.run(50)
    finally:
        lock.release()
    assert bench.reboots == 0
    with bench.work.db.read() as session:
        [event] = session.scalars(select(tables.DeviceEvent).where(tables.DeviceEvent.kind == "recovery-action"))
    assert "a desk" in event.detail["result"]


def test_a_command_gets_the_device_as_a_plain_argument_and_never_as_an_option() -> None:
    assert filled(["cycle", "{serial}; rm -rf /"], "d1", None) == ["cycle", "d1; rm -rf /"]
    assert filled(["cycle", "--port={address}"], "d1", "usb:1-1") == ["cycle", "--port=usb:1-1"]
    with pytest.raises(ValueError, match="option"):
        filled(["cycle", "{serial}"], "--all", None)


def test_what_a_command_came_to_is_told() -> None:
    assert run_command(["true"]) == "done"
    failed = run_command([sys.executable, "-c", "import sys; sys.exit('no such hub')"])
    assert failed.endswith("ended with 1: no such hub")


def test_a_power_cycle_brings_an_unplugged_virtual_device_back(real_farm: Any) -> None:
    """The host's command replugs it: every part but the hub is real."""
    replug = (
        "from virtual import fleet; import pathlib, sys; fleet.fault(pathlib.Path(sys.argv[1]), sys.argv[2], 'replug')"
    )
    command = [sys.executable, "-c", replug, str(real_farm.state / "virtual"), "{serial}"]
    (real_farm.state / "devices.yaml").write_text(f"virtual: true\nhosts: {{local: {{power_cycle: {command!r}}}}}\n")
    real_farm.settings = {"recovery_pace": 4.0}
    real_farm.add_device("rk3568", "V1")
    real_farm.start()
    real_farm.ready(1)
    real_farm.fault("V1", "unplug")

    def rungs() -> list[str]:
        with real_farm.db.read() as session:
            query = select(tables.DeviceEvent).where(tables.DeviceEvent.kind == "recovery")
            return [e.detail["rung"] for e in session.scalars(query.order_by(tables.DeviceEvent.id))]

    eventually(lambda: rungs()[-1:] in (["recovered"], ["given-up"]), 150, what="the recovery ends")
    assert rungs()[-1] == "recovered", (rungs(), real_farm.log_tail())
    assert "power-cycle" in rungs()
    real_farm.ready(1)
    assert real_farm.device().health == "good"


@pytest.mark.slow
def test_a_virtual_device_whose_shell_does_not_answer_is_rebooted_and_works_again(real_farm: Any) -> None:
    """Five looks that end at their time limit, then the ladder: minutes, as with a real phone."""
    real_farm.settings = {"recovery_pace": 6.0}
    real_farm.add_device("rk3568", "V1")
    real_farm.start()
    real_farm.ready(1)
    boot = real_farm.device().boot_id
    real_farm.fault("V1", "slow-shell", delay_ms=600_000)

    def events(kind: str) -> list[dict[str, Any]]:
        with real_farm.db.read() as session:
            query = select(tables.DeviceEvent).where(tables.DeviceEvent.kind == kind)
            return [e.detail for e in session.scalars(query.order_by(tables.DeviceEvent.id))]

    eventually(lambda: [e["rung"] for e in events("recovery")][-1:] == ["recovered"], 400, what="it is recovered")
    assert {"rung": "reboot", "result": "done"} in events("recovery-action")
    real_farm.ready(1)
    assert real_farm.device().boot_id != boot
    assert len(events("rebooted")) == 1
