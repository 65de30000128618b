"""Tests' handle on a real farm process with virtual devices: start it, kill it, submit, look at what came of it."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import select

from farm.adb.device import Device
from farm.adb.server import AdbServer
from farm.store import bundles, leases, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database, sqlite_url
from farm.work.submit import RunRequest, submit
from tests import leftovers
from tests.waiting import eventually
from virtual import fleet

ENTRY = Path(__file__).with_name("farm_process.py")
#: Generous: three devices and a runner on two loaded cores.
LONG_S = 150.0


class RealFarm:
    """State folder, adb server and database of one farm; `process` is the farm while it runs.

    `settings`: limits of this farm that differ from those of `farm_process`, for the next start.
    """

    def __init__(self, **settings: float) -> None:
        self.settings = settings
        self.state = leftovers.folder("fw-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.adb_port = int(probe.getsockname()[1])
        self.db = Database(sqlite_url(self.state / "farm.sqlite"))
        self.db.migrate()
        self.artifacts = ArtifactStore(self.state / "artifacts")
        self.process: subprocess.Popen[str] | None = None
        (self.state / "devices.yaml").write_text("virtual: true\n")

    def start(self) -> None:
        """Returns once the farm is up."""
        with (self.state / "stderr").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(ENTRY), str(self.state), str(self.adb_port), json.dumps(self.settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "up\n", (self.state / "stderr").read_text()[-3000:]

    def kill(self) -> None:
        """kill -9 of the whole farm: its process and its adb server; runners and devices are not the farm."""
        self.kill_process()
        self.kill_adb()

    def kill_process(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def kill_adb(self) -> None:
        pid = AdbServer(self.adb_port, self.state / "adb").pid()
        if pid is not None:
            import os

            os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """An orderly end of the farm's process."""
        if self.process is not None and self.process.poll() is None:
            try:
                self.process.communicate("", timeout=60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(30)

    def close(self) -> None:
        self.stop()
        for folder in (self.state / "attempts").glob("*"):
            from farm.work.supervisor import Supervisor

            Supervisor(folder).kill()
        fleet.stop_all(self.state / "virtual")
        AdbServer(self.adb_port, self.state / "adb").stop()
        self.db.close()
        shutil.rmtree(self.state, ignore_errors=True)

    # ---- what is there ----

    def add_device(self, profile: str = "rk3568", serial: str = "V1", **options: Any) -> fleet.Running:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        return fleet.start(profile, serial, self.state / "virtual", port=port, **{"data_mb": 256, **options})

    def fault(self, serial: str, kind: str, **arguments: Any) -> None:
        fleet.fault(self.state / "virtual", serial, kind, **arguments)

    def add_bundle(self, folder: Path) -> None:
        with self.db.session() as session:
            bundles.import_bundle(session, self.artifacts, folder, datetime.now(UTC), "test")

    def add_pack(self, folder: Path) -> None:
        with self.db.session() as session:
            bundles.import_pack(session, self.artifacts, folder, datetime.now(UTC), "test")

    def ready(self, count: int) -> None:
        """Wait until so many devices can be granted."""

        def look() -> bool:
            from farm.domain.devices import availability
            from farm.store import devices

            with self.db.read() as session:
                states = [availability(d, datetime.now(UTC))[0] for d in devices.facts(session)]
            return states.count("ready") >= count  # type: ignore[arg-type]

        try:
            eventually(look, LONG_S, what=f"{count} devices are ready")
        except AssertionError as error:
            raise AssertionError(f"{error}; the farm's log ends: {self.log_tail()}") from None

    def submit(self, **more: Any) -> int:
        return submit(self.db, RunRequest(**{"bundle": "reference", "suites": ("smoke",), **more}))

    # ---- what came of it ----

    def ended(self, run: int) -> str:
        """Wait for the run's end; its outcome."""

        def look() -> str | None:
            with self.db.read() as session:
                row = session.get_one(tables.Run, run)
                return row.outcome if row.state == "ended" else None

        try:
            return str(eventually(look, LONG_S, what=f"run {run} ends"))
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.story(run)}; {self.log_tail()}") from None

    def attempts(self, run: int) -> list[tables.Attempt]:
        with self.db.read() as session:
            query = select(tables.Attempt).join(tables.Job).where(tables.Job.run_id == run)
            return list(session.scalars(query.order_by(tables.Attempt.id)))

    def tests(self, attempt: int) -> dict[str, str | None]:
        with self.db.read() as session:
            rows = session.scalars(select(tables.Test).where(tables.Test.attempt_id == attempt))
            return {row.test_id: row.outcome for row in rows}

    def passed(self, run: int) -> Counter[str]:
        """How often each test passed, over all attempts of the run."""
        outcomes = [item for attempt in self.attempts(run) for item in self.tests(attempt.id).items()]
        return Counter(test for test, outcome in outcomes if outcome == "passed")

    def underway(self, run: int, count: int = 1) -> None:
        """Wait until so many tests have passed and the run goes on."""
        eventually(lambda: sum(self.passed(run).values()) >= count, LONG_S, what=f"{count} tests passed")

    def artifacts_of(self, attempt: int) -> dict[str, str]:
        with self.db.read() as session:
            rows = session.scalars(select(tables.Artifact).where(tables.Artifact.attempt_id == attempt))
            return {row.name: row.sha256 for row in rows}

    def phase(self, run: int) -> str | None:
        """Where the run's newest attempt is."""
        found = self.attempts(run)
        return found[-1].phase if found else None

    def reached(self, run: int, phase: str) -> None:
        """Wait until the run's newest attempt is in this phase."""
        try:
            eventually(lambda: self.phase(run) == phase, LONG_S, interval=0.02, what=f"run {run} is in {phase}")
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.story(run)}") from None

    def device(self) -> tables.Device:
        """The row of the only device."""
        with self.db.read() as session:
            [row] = session.scalars(select(tables.Device))
            return row

    def shell(self, command: str) -> str:
        """What a command prints on the only device."""
        return Device("127.0.0.1", self.adb_port, str(self.device().address)).shell(command, timeout_s=60).stdout

    def open_leases(self) -> int:
        with self.db.read() as session:
            return len(leases.open_leases(session))

    def log_tail(self) -> str:
        """The end of what the farm process wrote."""
        return "".join(p.read_text()[-3000:] for p in (self.state / "farm.log", self.state / "stderr") if p.exists())

    def story(self, run: int) -> str:
        """What is known of a run, for a failure's message."""
        rows = [(a.id, a.phase, a.outcome, a.reason, a.waiting_for) for a in self.attempts(run)]
        with self.db.read() as session:
            asked = select(tables.Test).where(tables.Test.attempt_id.in_([a.id for a in self.attempts(run)]))
            tests = [
                (t.test_id, t.outcome, t.cause, t.message) for t in session.scalars(asked) if t.outcome != "passed"
            ]
            jobs = [
                (j.state, j.outcome, j.wait_reason)
                for j in session.scalars(select(tables.Job).where(tables.Job.run_id == run))
            ]
        return f"attempts {rows}, jobs {jobs}, tests {tests}"
