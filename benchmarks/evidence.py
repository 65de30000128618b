"""How fast evidence is read and kept: logs scanned, a bugreport, series taken in and shown, what the sampler costs.

    python benchmarks/evidence.py [--log-mb 100] [--bugreport-mb 200] [--samples 2000000] [--out FILE.json]

Each part prints its figure beside its aim and beside the bare thing on the same machine: a loop over the lines of the
same file, the bytes of the values themselves. Logs are made by `benchmarks/logs.py`: what a phone says all day, an
everyday line that reads like trouble in 500, real trouble in 20,000. CPU seconds of this process unless said otherwise;
the median of the rounds is printed, raw values are kept in the file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sqlalchemy import select

from benchmarks import logs
from engine import build
from farm.domain.journal import Record
from farm.evidence.auto import Auto
from farm.evidence.log import Log
from farm.store import results, series, tables
from farm.store.db import Database, sqlite_url
from farm.store.reads import attempts as reads
from runner.sample_loop import command
from virtual import sandbox

AIM_SCAN, AIM_INGEST, AIM_SAMPLER = 40.0, 50_000.0, 0.01
PIECE = 1 << 18
NOW = datetime(2030, 1, 1, tzinfo=UTC)
#: A phone's signals, and how they are shipped: 30 points to a record.
SIGNALS, POINTS = 100, 30


def timed(work: Callable[[], object]) -> float:
    """CPU seconds."""
    began = time.process_time()
    work()
    return time.process_time() - began


# ---- logs


def bare(path: Path) -> None:
    """What any scanner has to do: every line once."""
    count = 0
    with path.open(encoding="utf-8") as file:
        for _line in file:
            count += 1


def scan(path: Path) -> dict[str, Any]:
    """All detectors over the text in pieces, as the farm reads a log."""
    log = Log()
    with path.open(encoding="utf-8") as file:
        while piece := file.read(PIECE):
            log.feed_text(piece)
    return log.finish()


def recognise(path: Path) -> dict[str, Any]:
    """`farm evidence auto FILE`: line by line, whatever it is."""
    auto = Auto()
    with path.open(encoding="utf-8") as file:
        for line in file:
            auto.feed(line)
    return auto.finish()


def scanning(folder: Path, megabytes: int, rounds: int) -> dict[str, Any]:
    kinds = {"everyday": {}, "quiet": {"everyday": 10**9, "trouble": 10**9}, "noisy": {"everyday": 50}}
    report: dict[str, Any] = {}
    for name, options in kinds.items():
        path = folder / f"{name}.log"
        path.write_text(logs.text(megabytes if name == "everyday" else megabytes / 4, **options))
        size = path.stat().st_size / 1e6
        found = scan(path)
        report[name] = {
            "mb": size,
            "scan_mb_s": [size / timed(partial(scan, path)) for _ in range(rounds)],
            "bare_mb_s": [size / timed(partial(bare, path)) for _ in range(rounds)],
            "found": {kind: len(facts.get("incidents") or facts.get("anrs") or ()) for kind, facts in found.items()},
        }
        path.unlink()
    return report


def bugreport(folder: Path, megabytes: int) -> dict[str, Any]:
    """Sections of a bugreport round logs; one ANR trace and one tombstone in it."""
    path = folder / "bugreport.txt"
    with path.open("w") as file:
        file.write("== dumpstate: 2030-01-01 10:00:00\n------ SYSTEM LOG (logcat -b all -d) ------\n")
        made = 0
        while made < megabytes * 1e6:
            text = logs.text(10, seed=made + 1)
            file.write(text)
            made += len(text)
        file.write("------ MEMORY INFO (/proc/meminfo) ------\nMemTotal: 8000000 kB\nMemAvailable: 100000 kB\n")
    size = path.stat().st_size / 1e6
    seconds = timed(lambda: recognise(path))
    path.unlink()
    return {"mb": size, "s": seconds, "mb_s": size / seconds}


# ---- series


def _database(folder: Path) -> Database:
    db = Database(sqlite_url(folder / "farm.sqlite"))
    db.migrate()
    with db.session() as session:
        session.add(tables.Host(name="local", drained=False, info={}))
        session.flush()
        session.add(tables.Device(id=1, serial="s", name="s", host="local", labels={}))
        bundle = {"name": "b", "version": "1", "adapter": "events", "manifest": {}, "bytes": 1, "created_at": NOW}
        session.add(tables.Bundle(hash="b", **bundle))
        session.add(tables.SuitePack(hash="p", name="p", manifest={}, bytes=1, created_at=NOW))
        session.flush()
        run = {"title": "t", "klass": "manual", "suites": ["s"], "selector": "*", "request": {}}
        session.add(tables.Run(id=1, created_at=NOW, bundle_hash="b", pack_hash="p", **run))
        session.flush()
        session.add(tables.Job(id=1, run_id=1, ordinal=0, selector="*", suites=["s"], klass="manual", queued_at=NOW))
        session.flush()
        attempt = {"job_id": 1, "number": 1, "device_id": 1, "host": "local", "token": 1, "created_at": NOW}
        session.add(tables.Attempt(id=1, workflow_id="w", **attempt))
    return db


def _records(count: int) -> list[Record]:
    """Journal records of so many points, as a phone's sampler ships them: temperatures, clocks, memory."""
    chance = random.Random(1)
    made: list[Record] = []
    values = [40.0 + chance.random() * 5 for _ in range(SIGNALS)]
    moment = 0.0
    while len(made) * POINTS < count:
        times = [round(moment + n, 3) for n in range(POINTS)]
        for signal in range(SIGNALS):
            points = []
            for _ in range(POINTS):
                values[signal] = round(values[signal] + chance.choice((-0.1, 0.0, 0.0, 0.1)), 1)
                points.append(values[signal])
            fields = {"device": "s", "name": f"temperature/zone{signal}", "unit": "°C", "t": times, "values": points}
            made.append(Record(len(made), NOW.timestamp() + moment, moment, "series", fields))
        moment += POINTS
    return made


def ingest(folder: Path, samples: int) -> dict[str, Any]:
    """Journal records into rows, a hundred to a transaction; a thread reads the page once a second meanwhile."""
    db = _database(folder)
    records = _records(samples)
    stop, shown = threading.Event(), [0]

    def show() -> None:
        while not stop.wait(1.0):
            with db.read() as session:
                reads.attempt(session, 1, NOW)
            shown[0] += 1

    watcher = threading.Thread(target=show)
    watcher.start()
    began = time.monotonic()
    for start in range(0, len(records), 100):
        with db.session() as session:
            results.apply(session, session.get_one(tables.Attempt, 1), records[start : start + 100], NOW, late=False)
    seconds = time.monotonic() - began
    stop.set()
    watcher.join()
    points = len(records) * POINTS
    before = _bytes(db)
    after = _joined(db)
    db.close()
    return {
        "samples": points,
        "wall_s": seconds,
        "samples_per_s": points / seconds,
        "pages_read_meanwhile": shown[0],
        "bytes_per_million": {
            "as shipped": before / points * 1e6,
            "joined": after / points * 1e6,
            "float64 pairs": 16e6,
        },
    }


def _bytes(db: Database) -> int:
    with db.read() as session:
        return sum(len(data) for data in session.scalars(select(tables.SeriesChunk.data)))


def _joined(db: Database) -> int:
    with db.read() as session:
        crowded = series.crowded(session, [1])
    for one in crowded:
        with db.session() as session:
            series.join(session, *one)
    return _bytes(db)


# ---- the sampler


def sampler_cost(folder: Path, seconds: float) -> dict[str, Any]:
    """CPU seconds per second of tool and shell loop, over the files of a phone with 60 zones, at each rate."""
    root = folder / "root"
    _phone(root)
    tool = build.build("static-x86_64", build.DEFAULT_OUT, os.cpu_count() or 1, lambda _line: None).programs[
        "farm-devtool"
    ]
    report: dict[str, Any] = {}
    for hz in (1, 10):
        words = [str(tool), "sample", "--hz", str(hz), "--root", str(root)]
        report[f"tool at {hz} Hz"] = _cost(words, seconds)
        report[f"shell at {hz} Hz"] = _cost([sandbox.tool("mksh"), "-c", command(hz, 3600, str(root))], seconds)
    return report


def _phone(root: Path) -> None:
    files = {
        f"sys/class/thermal/thermal_zone{n}/{name}": text
        for n in range(60)
        for name, text in (("type", f"z{n}"), ("temp", "41500"))
    }
    files |= {
        f"sys/class/thermal/cooling_device{n}/{name}": text
        for n in range(30)
        for name, text in (("type", f"c{n}"), ("cur_state", "0"))
    }
    for policy in (0, 4, 7):
        base = f"sys/devices/system/cpu/cpufreq/policy{policy}"
        files |= {f"{base}/{name}": "1800000" for name in ("scaling_cur_freq", "scaling_max_freq", "cpuinfo_max_freq")}
    for name in ("stat", "meminfo", "vmstat", "loadavg", "uptime"):
        files[f"proc/{name}"] = Path("/proc", name).read_text().rstrip("\n")
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def _cost(words: list[str], seconds: float) -> float:
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    time.sleep(1.0)  # looking round once is not sampling
    before, began = _cpu_s(process.pid), time.monotonic()
    time.sleep(seconds)
    used, elapsed = _cpu_s(process.pid) - before, time.monotonic() - began
    assert process.stdin is not None
    process.stdin.close()
    process.wait(20)
    return used / elapsed


def _cpu_s(pid: int) -> float:
    """/proc/PID/schedstat: nanoseconds on a CPU; clock ticks would be too coarse."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


# ---- all of it


def main() -> int:
    parser = argparse.ArgumentParser(description="How fast evidence is read and kept.")
    parser.add_argument("--log-mb", type=int, default=100)
    parser.add_argument("--bugreport-mb", type=int, default=200)
    parser.add_argument("--samples", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sampler-s", type=float, default=20.0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    report: dict[str, Any] = {"machine": f"{platform.machine()}, {os.cpu_count()} cores", "load": os.getloadavg()}
    with tempfile.TemporaryDirectory(prefix="farm-bench-evidence-") as temporary:
        folder = Path(temporary)
        report["scanning"] = scanning(folder, options.log_mb, options.rounds)
        for name, one in report["scanning"].items():
            fast, plain = statistics.median(one["scan_mb_s"]), statistics.median(one["bare_mb_s"])
            print(f"log, {name:<9} {fast:>8.1f} MB/s per core   bare line loop {plain:.0f}   aim ≥ {AIM_SCAN:.0f}")
        report["bugreport"] = one = bugreport(folder, options.bugreport_mb)
        print(f"bugreport      {one['s']:>8.1f} s for {one['mb']:.0f} MB ({one['mb_s']:.1f} MB/s)")
        report["series"] = one = ingest(folder, options.samples)
        pages = one["pages_read_meanwhile"]
        print(
            f"series         {one['samples_per_s']:>8.0f} samples/s, {pages} pages meanwhile   aim ≥ {AIM_INGEST:.0f}"
        )
        for name, size in one["bytes_per_million"].items():
            print(f"               {size / 1e6:>8.2f} MB per million samples, {name}")
        report["sampler"] = sampler_cost(folder, options.sampler_s)
        for name, cost in report["sampler"].items():
            print(f"sampler        {100 * cost:>8.3f} % of a core, {name}   aim ≤ {100 * AIM_SAMPLER:.0f} %")
    if options.out is not None:
        options.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
