"""What a lease costs: asking, getting, giving back, handing over; and what is lost when something dies.

    python benchmarks/leases.py [--seconds 8] [--places 1 50 200] [--databases sqlite postgresql] [--out FILE.json]
                                [--only loads work kill hung channel cli clean]

| part      | what                                                                                            |
|-----------|-------------------------------------------------------------------------------------------------|
| `loads`   | open loop at 100 pairs/s and closed loop, with and without watchers, hand-over                   |
| `work`    | processor time of a pair in the application alone: comparable on a machine that others use       |
| `kill`    | leases kept after kill -9 of the server                                                          |
| `hung`    | an agent of another host stopped under load, then killed; seen by its silence (PostgreSQL)       |
| `channel` | an agent with a channel to the server, killed: seen when the channel closes (PostgreSQL)         |
| `cli`     | commands, a process each                                                                         |
| `clean`   | snapshot and verified cleaning of a virtual device                                               |

The product's own application, planner and agent's heart over real HTTP, on SQLite and on a real PostgreSQL with fsync;
clients and watchers are processes of their own. A place is a device row that its host's heart keeps fresh. Cleaning is
excluded: a place has nothing to clean; what cleaning takes is measured on a virtual device. All figures are of this
machine; `load` says how busy it was.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sqlalchemy import func, select

from benchmarks.pairs.processes import FarmServer, Process, loads
from benchmarks.pairs.server import HOST, add_places
from farm.store import leases, tables
from farm.store.db import Database, sqlite_url
from tests.postgres import PostgresServer
from tests.waiting import eventually

WATCHERS = 20
RATE = 100
AIMS = {
    "pair_p99_ms_at_100_per_s_with_20_watchers": 25.0,
    "hand_over_p50_ms": 200.0,
    "stall_ms_from_a_hung_agent": 50.0,
    "agent_loss_seen_s": 12.0,
    "leases_lost_by_kill_9": 0,
    "cli_command_s": 0.15,
}
PARTS = ("loads", "work", "kill", "hung", "channel", "cli", "clean")
#: Durable, as an operator would run it.
POSTGRES = {"fsync": "on", "full_page_writes": "on", "autovacuum": "on"}


def main() -> int:
    options = _options()
    began = loads()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="bl-") as folder, _postgres(options.databases) as server:
        for kind in options.databases:
            found[kind] = _on(kind, Path(folder), server, options)
        if "cli" in options.only:
            found["cli"] = _cli(Path(folder, "cli"))
        if "clean" in options.only:
            found["clean"] = _clean(Path(folder, "clean"))
    result = {
        "what": "leases",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()},
        "load": {"before": began, "after": loads()},
        "seconds": options.seconds,
        "cleaning": "excluded: a place has nothing to clean"
        + ("" if "clean" in options.only else "; real cleaning: not measured"),
        "only": options.only,
        "aims": AIMS,
        **found,
    }
    _print_table(result)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


def _on(kind: str, folder: Path, server: PostgresServer | None, options: argparse.Namespace) -> dict[str, Any]:
    """Every part that is asked for, on one kind of database; a farm and a database of its own each."""
    made: dict[str, Any] = {}

    def fresh(name: str) -> tuple[Path, str]:
        state = folder / f"{kind}-{name}"
        return state, _url(kind, state, server)

    for places in options.places if "loads" in options.only else ():
        print(f"{kind}, {places} places", file=sys.stderr)
        made[str(places)] = _measure(*fresh(str(places)), places, options)
    if "work" in options.only:
        made["work"] = _work(fresh("work")[1])
    if "kill" in options.only:
        made["kill_9"] = _kill_9(*fresh("kill"))
    if kind == "postgresql" and "hung" in options.only:
        made["hung_agent"] = _hung_agent(*fresh("hung"))
    if kind == "postgresql" and "channel" in options.only:
        made["channel"] = _channel(*fresh("channel"))
    return made


def _work(url: str) -> dict[str, Any]:
    words = [sys.executable, "-m", "benchmarks.pairs.work", "--database", url]
    root = Path(__file__).resolve().parent.parent
    return dict(json.loads(subprocess.run(words, capture_output=True, check=True, cwd=root, timeout=300).stdout))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=8.0, help="of each load")
    parser.add_argument("--places", type=int, nargs="+", default=[1, 50, 200])
    parser.add_argument("--databases", nargs="+", choices=("sqlite", "postgresql"), default=["sqlite", "postgresql"])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="these parts; all of them")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/leases.json"))
    return parser.parse_args()


@contextmanager
def _postgres(kinds: list[str]) -> Iterator[PostgresServer | None]:
    server = PostgresServer(settings=POSTGRES) if "postgresql" in kinds else None
    try:
        yield server
    finally:
        if server is not None:
            server.close()


def _url(kind: str, state: Path, server: PostgresServer | None) -> str:
    state.mkdir(parents=True)
    if kind == "sqlite":
        return sqlite_url(state / "farm.sqlite")
    assert server is not None
    return server.create(migrated=True)


def _measure(state: Path, url: str, places: int, options: argparse.Namespace) -> dict[str, Any]:
    """Every kind of load on one farm, with and without watchers."""
    farm = FarmServer(state, url, places)
    try:
        seconds = options.seconds
        farm.load("closed", clients=1, seconds=1)  # what is loaded at the first use is not measured
        made: dict[str, Any] = {
            "closed_1": farm.load("closed", clients=1, seconds=seconds),
            "closed_16": farm.load("closed", clients=16, seconds=seconds),
            "open_100": farm.load("open", rate=RATE, seconds=seconds),
            "hand_over": farm.load("hand-over", rounds=20),
        }
        with farm.watched(WATCHERS) as seen:
            made["open_100_watched"] = farm.load("open", rate=RATE, seconds=seconds)
        made["open_100_watched"]["watchers"] = seen
        with farm.watched(WATCHERS) as seen:
            made["closed_16_watched"] = farm.load("closed", clients=16, seconds=seconds)
        made["closed_16_watched"]["watchers"] = seen
        made["load"] = loads()
        return made
    finally:
        farm.stop()


def _kill_9(state: Path, url: str) -> dict[str, Any]:
    """kill -9 of the server with leases held: which of them stand after its next start."""
    farm = FarmServer(state, url, 50)
    db = Database(url)
    try:
        held = _hold(db, 25)
        farm.kill()
        farm = FarmServer(state, url, 50)
        time.sleep(3.0)
        with db.read() as session:
            now = [(lease.id, lease.token) for lease in leases.open_leases(session) if lease.released_at is None]
        return {"held": len(held), "kept": len(set(held) & set(now)), "lost": len(set(held) - set(now))}
    finally:
        db.close()
        farm.stop()


def _hold(db: Database, count: int) -> list[tuple[int, int]]:
    from datetime import timedelta

    from farm.store.reservations import Wish, request

    held = []
    for _ in range(count):
        with db.session() as session:
            _, lease = request(session, Wish("pool=places", timedelta(hours=1), "ann", "red"), db.now(session))
        assert lease is not None
        held.append((lease.id, lease.token))
    return held


def _hung_agent(state: Path, url: str) -> dict[str, Any]:
    """Another host's agent is stopped (SIGSTOP) under load on these places, then killed: who notices, who waits."""
    farm = FarmServer(state, url, 50)
    db = Database(url)
    agent = None
    try:
        add_places(db, 10, "elsewhere")
        agent = Process("heart", url, str(state), "elsewhere")
        agent.line()
        wanted = {"selector": f"host={HOST}"}
        before = farm.load("open", rate=50, seconds=6, **wanted)
        agent.signal(signal.SIGSTOP)
        during = farm.load("open", rate=50, seconds=6, **wanted)
        agent.signal(signal.SIGCONT)
        time.sleep(3.0)
        return {
            "pairs_before": before["pair"],
            "pairs_during": during["pair"],
            "stall_ms": round(max(0.0, during["pair"]["max_ms"] - before["pair"]["max_ms"]), 2),
            "loss_seen_s": _loss_seen_s(db, agent),
            "loss_seen_by": "silence: this agent has no channel",
        }
    finally:
        if agent is not None:
            agent.stop()
        db.close()
        farm.stop()


def _channel(state: Path, url: str) -> dict[str, Any]:
    """An agent that is connected to the server is killed: its channel closes with its process."""
    farm = FarmServer(state, url, 5)
    db = Database(url)
    agent = None
    try:
        add_places(db, 10, "elsewhere")
        agent = Process("heart", url, str(state), "elsewhere", f"http://127.0.0.1:{farm.port}")
        agent.line()
        time.sleep(3.0)  # it is known to be there, and nothing more is said of it
        return {"loss_seen_s": _loss_seen_s(db, agent), "loss_seen_by": "the end of its channel"}
    finally:
        if agent is not None:
            agent.stop()
        db.close()
        farm.stop()


def _loss_seen_s(db: Database, agent: Process) -> float:
    """Kill the agent of `elsewhere`; seconds until the farm says that something became of that host."""
    with db.read() as session:
        since = session.scalar(select(func.max(tables.Change.id))) or 0
    agent.kill()
    died = time.monotonic()

    def told() -> bool:
        with db.read() as session:
            change = tables.Change
            query = select(change.id).where(change.id > since, change.topic == "host", change.ref == "elsewhere")
            return session.scalar(query.limit(1)) is not None

    eventually(told, 60, interval=0.02, what="the loss is announced")
    return round(time.monotonic() - died, 2)


def _cli(state: Path) -> dict[str, Any]:
    """How long a command takes, a process each, against a farm that is up."""
    state.mkdir()
    farm = FarmServer(state, sqlite_url(state / "farm.sqlite"), 5)
    environment = {**os.environ, "FARM_URL": f"http://127.0.0.1:{farm.port}", "FARM_TOKEN": farm.token}
    try:
        made = {}
        for words in (["lease", "list"], ["acquire", "device=none", "--wait", "1s"], ["--version"]):
            times = []
            for _ in range(11):
                began = time.monotonic()
                subprocess.run(
                    [sys.executable, "-m", "farm.cli.main", *words], capture_output=True, env=environment, timeout=60
                )
                times.append(time.monotonic() - began)
            made[" ".join(words)] = {"p50_s": round(statistics.median(times), 3), "min_s": round(min(times), 3)}
        return made
    finally:
        farm.stop()


def _clean(state: Path) -> dict[str, Any]:
    """Snapshot and verified cleaning of a virtual device, with what a lease leaves: seconds."""
    from farm.adb.clean import restore, snapshot
    from farm.adb.device import Device
    from farm.adb.errors import AdbError
    from farm.adb.server import AdbServer
    from tests.adb.conftest import free_port
    from virtual import fleet

    server = AdbServer(free_port(), state / "adb", usb=False)
    server.start()
    running = fleet.start("rk3568", "CLEAN1", state / "vd", data_mb=256, port=free_port())
    try:
        device = Device(server.host, server.port, running.address, serial="CLEAN1")

        def online() -> bool:
            try:
                server.connect(running.address)
                return device.state() == "device"
            except AdbError:
                return False

        eventually(online, 60, what="the device is online")
        looks, cleans = [], []
        for _ in range(5):
            began = time.monotonic()
            before = snapshot(device)
            looks.append(time.monotonic() - began)
            device.check_shell("for i in 1 2 3 4 5; do echo x > /data/local/tmp/left-$i; done; setprop debug.left 1")
            began = time.monotonic()
            report = restore(device, before)
            cleans.append(time.monotonic() - began)
            assert report.ok, report
        return {
            "snapshot_p50_s": round(statistics.median(looks), 3),
            "clean_p50_s": round(statistics.median(cleans), 3),
        }
    finally:
        fleet.stop_all(state / "vd")
        server.stop()
        shutil.rmtree(state, ignore_errors=True)


def _print_table(result: dict[str, Any]) -> None:
    print(
        f"{'database':<11}{'places':>7}  {'load':<20}{'pairs/s':>8}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}{'queued':>8}"
    )
    for kind in ("sqlite", "postgresql"):
        for places, found in result.get(kind, {}).items():
            for name, one in found.items() if places.isdigit() else ():
                pair = one.get("pair", one) if isinstance(one, dict) else {}
                if "p50_ms" in pair:
                    print(
                        f"{kind:<11}{places:>7}  {name:<20}{one.get('pairs_per_s', ''):>8}{pair['p50_ms']!s:>9}"
                        f"{pair['p99_ms']!s:>9}{pair['max_ms']!s:>9}{one.get('queued', ''):>8}"
                    )
        print(json.dumps({name: one for name, one in result.get(kind, {}).items() if not name.isdigit()}))
    print(json.dumps({"cli": result.get("cli"), "clean": result.get("clean"), "load": result["load"]}))


if __name__ == "__main__":
    sys.exit(main())
