"""A farm of several hosts for tests: servers and agents as real processes on one real PostgreSQL, virtual devices.

    with Lab(postgres_server, hosts=2, bundle=bundle_folder) as lab:
        run = lab.submit(suites=("steady",))
        lab.kill("h1")                  # kill -9; also pause, resume, stop, start, and with net=True cut and mend
        assert lab.ended(run) == "passed"

Hosts are called h1, h2, …, servers s1, s2, …; device N of host hK has the serial HKDN. With `net` every host lives in a
network namespace of its own (root), so that `cut` really cuts. `work` shortens waits (fields of `WorkSettings`), never
rules. What the farm wrote is below `lab.state`; `lab.story(run)` tells what is known of a run.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import select

from farm.adb.server import AdbServer
from farm.domain.devices import availability
from farm.store import bundles, devices, leases, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work.submit import RunRequest, submit
from farm.work.supervisor import Supervisor
from tests import leftovers
from tests.hosts.net import Network
from tests.postgres import PostgresServer
from tests.waiting import eventually
from virtual import fleet

PACK = Path(__file__).parent.parent / "work" / "pack"
#: Generous: agents, devices and runners on two loaded cores.
LONG_S = 180.0
#: Shorter than in real life, long enough for several devices on two loaded cores.
WORK: dict[str, Any] = {
    "health_every_s": 2.0,
    "planner_tick_s": 0.5,
    "lead_every_s": 0.5,
    "online_wait_s": 8.0,
    "clean_wait_s": 8.0,
    "give_up_s": 60.0,
}


class Lab:
    """`hosts` agents with `devices` each, `servers` servers; nothing runs before `start` (or `with`)."""

    agent_module = "farm.agent"  # what an agent's process runs

    def __init__(
        self,
        postgres: PostgresServer,
        hosts: int = 2,
        devices: int = 1,
        servers: int = 1,
        *,
        bundle: Path | None = None,
        pack: Path = PACK,
        net: bool = False,
        work: dict[str, Any] | None = None,
        profile: str = "rk3568",
    ) -> None:
        self.postgres, self._bundle, self._pack, self._profile = postgres, bundle, pack, profile
        self.work = {**WORK, **(work or {})}
        self.state = leftovers.folder("fl-")
        self.hosts = [f"h{n + 1}" for n in range(hosts)]
        self.servers = [f"s{n + 1}" for n in range(servers)]
        self._devices = devices
        self.net = Network() if net else None
        self.database = postgres.create(migrated=True)
        self.db = Database(self.database)
        self.artifacts = ArtifactStore(self.state / "artifacts")
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Self:
        try:
            self.begin()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self.close()

    # ---- processes ----

    def begin(self) -> None:
        """Devices, servers, agents, bundle and pack; returns once every device can be granted."""
        for host in self.hosts:
            if self.net is not None:
                self.net.add(host)
            (self.state / host).mkdir(exist_ok=True)
            (self.state / host / "devices.yaml").write_text("virtual: true\n")
            for n in range(self._devices):
                self.add_device(host, f"{host.upper()}D{n + 1}")
        for server in self.servers:
            self.start(server)
        for host in self.hosts:
            self.start(host)
        with self.db.session() as session:
            now = self.db.now(session)
            if self._bundle is not None:
                bundles.import_bundle(session, self.artifacts, self._bundle, now, "test")
        with self.db.session() as session:
            bundles.import_pack(session, self.artifacts, self._pack, now, "test")
        self.ready(len(self.hosts) * self._devices)

    def start(self, name: str) -> None:
        """A server or an agent that is not running; returns once it says that it is up."""
        is_agent = name in self.hosts
        folder = self.state / name
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-P", "-m", self.agent_module if is_agent else "farm.server"]
        command += ["--state", str(folder)]
        command += ["--inventory", str(folder / "devices.yaml")]
        command += ["--host", name] if is_agent else ["--no-agent", "--port", "0", "--host", self._address()]
        with (folder / "log").open("ab") as log, self._inside(name):
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment(name),
                start_new_session=True,
                text=True,
            )
        self.processes[name] = process
        said = "The agent of host" if is_agent else "The farm is up"
        already = (folder / "log").read_text().count(said)

        def up() -> bool:
            if process.poll() is not None:
                raise RuntimeError(f"{name} ended with {process.returncode}: {self.log(name)}")
            return (folder / "log").read_text().count(said) > already

        eventually(up, LONG_S, what=f"{name} is up")

    def environment(self, name: str) -> dict[str, str]:
        """What a process of this name is started with."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        adb = self.state / name / "adb-port"
        if not adb.exists():
            adb.write_text(str(port))
        return {
            **os.environ,
            "FARM_DATABASE_URL": self.database.replace("127.0.0.1", self._address()),
            "FARM_ARTIFACTS": str(self.state / "artifacts"),
            "FARM_WORK": json.dumps(self.work),
            "FARM_ADB_PORT": adb.read_text(),
            "FARM_LOCKS": str(self.state / name / "locks"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }

    def kill(self, name: str) -> None:
        """kill -9 of the process alone; what it started (runners, adb server) is not it."""
        self._signal(name, signal.SIGKILL)
        self.processes.pop(name).wait(30)

    def pause(self, name: str) -> None:
        """SIGSTOP: it does nothing, and its connections stay open."""
        self._signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._signal(name, signal.SIGCONT)

    def stop(self, name: str) -> None:
        """An orderly end."""
        self._signal(name, signal.SIGTERM)
        self.processes.pop(name).wait(60)

    def restart(self, name: str) -> None:
        self.kill(name)
        self.start(name)

    def cut(self, host: str) -> None:
        """The host's link is down, without a word to either side. Needs `net`."""
        assert self.net is not None
        self.net.cut(host)

    def mend(self, host: str) -> None:
        assert self.net is not None
        self.net.mend(host)

    def kill_adb(self, host: str) -> None:
        pid = self._adb(host).pid()
        if pid is not None:
            os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        for name, process in list(self.processes.items()):
            if process.poll() is None:
                self.resume(name)
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)
        for host in self.hosts:
            for folder in (self.state / host / "attempts").glob("*"):
                Supervisor(folder).kill()
            fleet.stop_all(self.state / host / "virtual")
            if (self.state / host / "adb-port").exists():
                with self._inside(host):
                    self._adb(host).stop()
        self.db.close()
        self.postgres.drop(self.database)
        if self.net is not None:
            self.net.close()
        shutil.rmtree(self.state, ignore_errors=True)

    def _adb(self, host: str) -> AdbServer:
        return AdbServer(int((self.state / host / "adb-port").read_text()), self.state / host / "adb")

    def _signal(self, name: str, number: int) -> None:
        self.processes[name].send_signal(number)

    def _inside(self, name: str) -> Any:
        return nullcontext() if self.net is None else self.net.inside(name)

    def _address(self) -> str:
        """Where PostgreSQL and the servers are found from a host."""
        return "127.0.0.1" if self.net is None else self.net.gateway

    # ---- devices and runs ----

    def add_device(self, host: str, serial: str, **options: Any) -> fleet.Running:
        with self._inside(host):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = int(probe.getsockname()[1])
            return fleet.start(
                self._profile, serial, self.state / host / "virtual", port=port, **{"data_mb": 128, **options}
            )

    def fault(self, serial: str, kind: str, **arguments: Any) -> None:
        """Something goes wrong with a device: `fleet.fault`."""
        host = serial.partition("D")[0].lower()
        fleet.fault(self.state / host / "virtual", serial, kind, **arguments)

    def available(self) -> dict[str, str]:
        """Each device's availability, by serial, as the planner sees it."""
        with self.db.read() as session:
            now = self.db.now(session)
            return {d.serial: availability(d, now)[0].value for d in devices.facts(session)}

    def ready(self, count: int) -> None:
        """Wait until so many devices can be granted."""
        try:
            eventually(lambda: list(self.available().values()).count("ready") >= count, LONG_S, what=f"{count} ready")
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.available()}; {self.logs()}") from None

    def submit(self, **more: Any) -> int:
        """A run of the suite `steady` on every device."""
        return submit(self.db, RunRequest(**{"bundle": "reference", "suites": ("steady",), **more}))

    def ended(self, run: int, limit_s: float = LONG_S) -> str:
        """Wait for the run's end; its outcome."""

        def look() -> str | None:
            with self.db.read() as session:
                row = session.get_one(tables.Run, run)
                return row.outcome if row.state == "ended" else None

        try:
            return str(eventually(look, limit_s, what=f"run {run} ends"))
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.story(run)}; {self.logs()}") from None

    def attempts(self, run: int) -> list[tables.Attempt]:
        with self.db.read() as session:
            query = select(tables.Attempt).join(tables.Job).where(tables.Job.run_id == run)
            return list(session.scalars(query.order_by(tables.Attempt.id)))

    def passed(self, run: int) -> Counter[str]:
        """How often each test passed, over all attempts of the run."""
        with self.db.read() as session:
            query = select(tables.Test.test_id).join(tables.Attempt).join(tables.Job)
            return Counter(session.scalars(query.where(tables.Job.run_id == run, tables.Test.outcome == "passed")))

    def kept(self, attempt_id: int) -> set[str]:
        """Names of what the store has of an attempt."""
        with self.db.read() as session:
            query = select(tables.Artifact.name).where(tables.Artifact.attempt_id == attempt_id)
            return set(session.scalars(query))

    def underway(self, run: int, count: int = 1) -> None:
        """Wait until so many tests have passed and the run goes on."""
        eventually(lambda: sum(self.passed(run).values()) >= count, LONG_S, what=f"{count} tests passed")

    def reached(self, run: int, phase: str) -> None:
        """Wait until the run's newest attempt is in this phase."""
        eventually(lambda: [a.phase for a in self.attempts(run)][-1:] == [phase], LONG_S, interval=0.02, what=phase)

    def lost(self, host: str) -> bool:
        """Whether the host is given up for lost now."""
        with self.db.read() as session:
            return session.get_one(tables.Host, host).lost_at is not None

    def open_leases(self) -> int:
        with self.db.read() as session:
            return len(leases.open_leases(session))

    def overlapping(self) -> list[tuple[int, int]]:
        """Pairs of leases that were open on one device at the same time: there must be none."""
        with self.db.read() as session:
            rows: Sequence[tables.Lease] = session.scalars(select(tables.Lease).order_by(tables.Lease.granted_at)).all()
        return [
            (a.id, b.id)
            for i, a in enumerate(rows)
            for b in rows[i + 1 :]
            if a.device_id == b.device_id and (a.ended_at is None or b.granted_at < a.ended_at)
        ]

    # ---- for a failure's message ----

    def log(self, name: str) -> str:
        """The end of what a process wrote."""
        path = self.state / name / "log"
        return path.read_text()[-2500:] if path.exists() else "no log"

    def logs(self) -> str:
        return "\n".join(f"--- {name}: {self.log(name)}" for name in [*self.servers, *self.hosts])

    def story(self, run: int) -> str:
        """What is known of a run."""
        attempts = [(a.id, a.host, a.phase, a.outcome, a.reason, a.waiting_for) for a in self.attempts(run)]
        with self.db.read() as session:
            rows = session.scalars(select(tables.Job).where(tables.Job.run_id == run))
            jobs = [(j.id, j.state, j.outcome, j.wait_reason) for j in rows]
        return f"attempts {attempts}, jobs {jobs}"
