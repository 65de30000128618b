"""What the farm costs: one workload through the farm, and by a bare script with adbutils and pytest, side by side.

    python benchmarks/overhead.py [--seconds 80] [--rounds 1]

Both start the same engine equally often on the same virtual device, push and hash the same files, and stream the same
logcat. The farm's time is from submitting to the run's end with its result in the database, cleaning and verification
included; waiting for the temperature (settle) is excluded on both sides. Order: bare, farm, farm, bare, so that a
machine that changes slowly favours nobody. The farm is down while the bare script runs. Prints a table and JSON, and
writes benchmarks/results/overhead.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from farm.cli import processes  # noqa: E402
from farm.cli.client import connect  # noqa: E402
from farm.cli.demo_parts import Parts  # noqa: E402
from farm.cli.output import parse_time  # noqa: E402
from farm.cli.upload import send_bundle, send_pack  # noqa: E402
from farm.settings import Settings, choose_adb_port, load  # noqa: E402

SERIAL = "overhead-device"
PROFILE = "rk3568"
COOL_C = 45.0
AIM = 1.10


@dataclass(slots=True)
class Bench:
    """One virtual device, one bundle, one state folder."""

    settings: Settings
    bundle: Path
    address: str
    adb: list[str]
    work: dict[str, Any]
    times: dict[str, list[float]] = field(default_factory=lambda: {"bare": [], "farm": []})
    phases: list[dict[str, float]] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)  # of the machine, one minute's average, as each turn begins

    def shell(self, *command: str) -> str:
        """A command on the device, by the stock adb."""
        done = subprocess.run(
            [*self.adb, "-s", self.address, "shell", *command], capture_output=True, text=True, timeout=600, check=True
        )
        return done.stdout

    def connect(self) -> None:
        subprocess.run([*self.adb, "connect", self.address], capture_output=True, timeout=60, check=True)

    def prepare(self) -> None:
        """The same start for everybody: nothing of an earlier turn on the device, and cool."""
        self.loads.append(round(os.getloadavg()[0], 2))
        self.connect()
        self.shell("rm -rf /data/local/tmp/overhead /data/local/tmp/farm")
        until = time.monotonic() + 300
        while self.temperature() > COOL_C and time.monotonic() < until:
            time.sleep(1)

    def temperature(self) -> float:
        """Hottest zone, °C."""
        readings = self.shell("cat /sys/class/thermal/thermal_zone*/temp").split()
        return max(int(reading) for reading in readings) / 1000

    def bare(self) -> None:
        self.prepare()
        with tempfile.TemporaryDirectory() as out:
            arguments = [self.adb[-1], self.address, str(self.bundle), json.dumps(self.work), out]
            began = time.monotonic()
            subprocess.run(
                [sys.executable, str(HERE / "overhead_bare" / "run.py"), *arguments], check=True, timeout=1800
            )
            self.times["bare"].append(time.monotonic() - began)

    def farm(self) -> None:
        self.prepare()
        processes.start_server(self.settings)
        try:
            client = connect(self.settings)
            bundle = send_bundle(client, self.bundle)["hash"]
            pack = send_pack(client, self.pack())["hash"]
            _until(lambda: _ready(client.get("/api/devices")), 120, "the device")
            request = {"bundle": bundle, "pack": pack, "suites": ["load"], "selector": f"serial={SERIAL}"}
            began = time.monotonic()
            number = client.post("/api/runs", request)["id"]
            _until(lambda: client.get("/api/runs?limit=1")["runs"][0]["state"] == "ended", 1800, "the run", 0.2)
            seconds = time.monotonic() - began
            detail = client.get(f"/api/runs/{number}")
        finally:
            processes.stop_server(self.settings)
        if detail["run"]["outcome"] != "passed":
            raise SystemExit(f"the run through the farm was {detail['run']['outcome']}: {detail['jobs']}")
        spans = _spans(detail["jobs"][0]["attempts"][-1])
        self.phases.append(spans)
        self.times["farm"].append(seconds - spans.get("settle", 0.0))

    def pack(self) -> Path:
        folder = self.settings.state / "pack"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(HERE / "overhead_farm", folder, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "load" / "work.json").write_text(json.dumps(self.work))
        return folder

    def calibrate(self, seconds: float) -> None:
        """Choose the repetitions so that the workload takes about `seconds` in the engine itself."""
        self.prepare()
        for name in ("bin/x86_64/farm-engine", self.work["model"]):
            line = [*self.adb, "-s", self.address, "push", str(self.bundle / name), f"/data/local/tmp/overhead/{name}"]
            subprocess.run(line, capture_output=True, timeout=120, check=True)
        few, many = self._engine_seconds(2), self._engine_seconds(10)
        each = max(0.01, (many - few) / 8)
        self.work["repeat"] = max(1, round(seconds / self.work["tests"] / each) - 1)

    def _engine_seconds(self, repeat: int) -> float:
        root, work = "/data/local/tmp/overhead", self.work
        began = time.monotonic()
        self.shell(
            f"{root}/bin/x86_64/farm-engine --model {root}/{work['model']} --events - --threads 1 --ctx 512 "
            f"--ignore-eos --prompt-tokens {work['prompt_tokens']} --n-predict {work['n_predict']} "
            f"--repeat {repeat} > /dev/null"
        )
        return time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=80.0, help="aimed length of the workload")
    parser.add_argument("--rounds", type=int, default=1, help="rounds of bare, farm, farm, bare")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an end from outside tidies up as well
    with tempfile.TemporaryDirectory(prefix="farm-overhead-") as folder:
        result = _run(Path(folder), options.seconds, options.rounds)
    target = HERE / "results" / "overhead.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(result, indent=2) + "\n")
    _print(result)
    return 0


def _run(folder: Path, seconds: float, rounds: int) -> dict[str, Any]:
    inventory = folder / "devices.yaml"
    inventory.write_text("virtual: true\n")
    settings = load({}, state=folder / "state", port=0, inventory=inventory)
    settings.state.mkdir()
    bundle = folder / "bundle"
    _python("engine.package", "--out", str(bundle), "--models", "small-q4_0")
    virtual = str(settings.state / "virtual")
    told = _python("virtual", "start", "--profile", PROFILE, "--serial", SERIAL, "--dir", virtual, "--json")
    bench = Bench(settings, bundle, json.loads(told)["address"], _adb(settings), {
        "tests": 6, "repeat": 1, "prompt_tokens": 32, "n_predict": 64, "model": "models/small-q4_0.gguf",
    })  # fmt: skip
    try:
        bench.calibrate(seconds)
        for _ in range(rounds):
            for turn in (bench.bare, bench.farm, bench.farm, bench.bare):
                turn()
    finally:
        processes.stop_server(settings)
        _python("virtual", "stop", "--all", "--dir", virtual)
        Parts(settings).stop_adb()
        subprocess.run([*bench.adb, "kill-server"], capture_output=True, timeout=30)
    pairs = [farm / bare for bare, farm in zip(bench.times["bare"], bench.times["farm"], strict=True)]
    return {
        "workload": bench.work | {"device": PROFILE, "virtual": True},
        "machine": {"cpus": os.cpu_count(), "load_before_each": bench.loads},
        "bare_s": bench.times["bare"],
        "farm_s": bench.times["farm"],
        "phases_s": bench.phases,
        "pairs": pairs,
        "ratio": median(pairs),
        "aim": AIM,
    }


def _print(result: dict[str, Any]) -> None:
    for name in ("bare", "farm"):
        print(f"{name:>5}  " + "  ".join(f"{seconds:7.2f} s" for seconds in result[f"{name}_s"]))
    for spans in result["phases_s"]:
        print("       " + ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in spans.items()))
    print("load   " + "  ".join(f"{load:.1f}" for load in result["machine"]["load_before_each"][1:]))
    print("pairs  " + "  ".join(f"{pair:.3f}" for pair in result["pairs"]))
    print(f"ratio  {result['ratio']:.3f}  (aim: at most {AIM})")
    if max(result["machine"]["load_before_each"]) > 2 * (os.cpu_count() or 1):
        print("The machine was busy with other things: do not believe these figures.")
    print(json.dumps(result))


def _spans(attempt: dict[str, Any]) -> dict[str, float]:
    return {
        span["phase"]: round((parse_time(span["ended_at"]) - parse_time(span["began_at"])).total_seconds(), 3)
        for span in attempt["phases"]
        if span["ended_at"]
    }


def _ready(fleet: dict[str, Any]) -> bool:
    return any(tile["facts"]["serial"] == SERIAL and tile["availability"] == "ready" for tile in fleet["devices"])


def _until(condition: Callable[[], bool], limit_s: float, what: str, every_s: float = 0.1) -> None:
    processes.wait_until(condition, limit_s, what, every_s)


def _adb(settings: Settings) -> list[str]:
    import adbutils

    return [str(Path(adbutils.__file__).parent / "binaries" / "adb"), "-P", str(choose_adb_port(settings))]


def _python(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=1800, check=True
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
