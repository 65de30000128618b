"""The planner's speed at farms of many devices, and its plan for a day beside other schedulers' rules.

    python benchmarks/scheduling.py [--quick] [--seeds 5] [--out benchmarks/results/scheduling.json]

Speed: a full pass from nothing over 1,000 devices and 20,000 waiting jobs (aim 0.5 s), one new job and one freed device
at that size (aim 10 ms each), 10,000 x 100,000 reported. The day: 3,000 jobs over 60 devices of seven types, four
teams, all classes, some failures; makespan over a bound that no schedule can beat (aim 1.03), waits by class and
team. Each reference policy plays the same days. Devices and jobs are made up; seeds are kept.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.policies.bound import lower_bound
from benchmarks.policies.first_fit import FirstFit
from benchmarks.policies.labgrid import Labgrid
from benchmarks.policies.lava import Lava
from farm.domain.devices import Availability
from farm.domain.scheduling import Arrived, DeviceSeen, PlannedDevice, WaitingJob, apply, plan
from farm.domain.scheduling.ahead import estimated_starts
from farm.domain.scheduling.why import explain, reasons
from farm.domain.selectors import parse
from farm.domain.simulation import FarmPolicy, Policy, Result, Scenario, read_scenario, simulate, summarise

Made = TypeVar("Made")

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = 3600.0
AIM_FULL_S, AIM_EVENT_S, AIM_MAKESPAN = 0.5, 0.010, 1.03

#: type -> (how many of 60, labels)
TYPES: dict[str, tuple[int, dict[str, Any]]] = {
    "pixel-8-pro": (14, {"soc": "Tensor G3", "ram_gb": 12, "android": 15, "backend:vulkan": True, "kind": "phone"}),
    "pixel-6": (12, {"soc": "Tensor G1", "ram_gb": 8, "android": 14, "backend:vulkan": True, "kind": "phone"}),
    "dimensity-9300": (10, {"soc": "MT6989", "ram_gb": 16, "android": 14, "backend:vulkan": True, "kind": "phone"}),
    "snapdragon-8g3": (8, {"soc": "SM8650", "ram_gb": 16, "android": 14, "backend:vulkan": True, "kind": "phone"}),
    "rk3588": (6, {"soc": "RK3588", "ram_gb": 16, "android": 12, "kind": "board"}),
    "rk3568": (7, {"soc": "RK3568", "ram_gb": 4, "android": 11, "kind": "board"}),
    "old-phone": (3, {"soc": "SDM660", "ram_gb": 4, "android": 10, "kind": "phone"}),
}
#: selector -> how often it is asked for; from *anything* to *this one kind*.
SELECTORS = {
    "*": 18,
    "kind=phone": 16,
    "ram_gb>=8": 14,
    "backend:vulkan": 12,
    "soc=RK3568": 9,
    'soc="Tensor G3"': 9,
    "soc=MT6989": 7,
    "ram_gb>=16": 6,
    "kind=board": 5,
    "soc=SDM660": 2,
}
CLASSES = {"debug": 3, "pr": 45, "manual": 17, "nightly": 35}
TEAMS = {"vision": 55, "speech": 25, "kernels": 15, "infra": 5}
TEAM_CYCLE = list(TEAMS)


def a_day(seed: int, jobs: int = 3000, failures: int = 20) -> Scenario:
    """Ten hours of pull requests and manual runs, a flood by one team at noon, the nightly queue in the evening."""
    dice = random.Random(seed)
    devices = [
        {"id": f"{kind}-{n}", "labels": {**labels, "type": kind}}
        for kind, (count, labels) in TYPES.items()
        for n in range(count)
    ]
    made = []
    for n in range(jobs):
        klass = dice.choices(list(CLASSES), list(CLASSES.values()))[0]
        team = dice.choices(list(TEAMS), list(TEAMS.values()))[0]
        submit = dice.uniform(10 * HOUR, 12 * HOUR) if klass == "nightly" else dice.uniform(0, 10 * HOUR)
        if team == "vision" and klass == "pr" and dice.random() < 0.5:
            submit = 4 * HOUR + dice.uniform(0, 600)  # one team's flood
        duration = min(3000.0, max(60.0, dice.lognormvariate(6.5, 0.6)))
        estimate = duration * dice.lognormvariate(0, 0.25) if dice.random() < 0.9 else None
        selector = dice.choices(list(SELECTORS), list(SELECTORS.values()))[0]
        made.append(
            {"id": f"j{n}", "submit_s": round(submit, 1), "class": klass, "team": team, "selector": selector,
             "estimate_s": None if estimate is None else round(estimate, 1), "duration_s": round(duration, 1)}
        )  # fmt: skip
    broken = [
        {"device": dice.choice(devices)["id"], "at_s": round(dice.uniform(0, 14 * HOUR), 1),
         "for_s": round(dice.uniform(120, 1800), 1)}
        for _ in range(failures)
    ]  # fmt: skip
    return read_scenario({"devices": devices, "jobs": made, "failures": broken})


def big_fleet(count: int, dice: random.Random, busy: float) -> list[PlannedDevice]:
    kinds, weights = list(TYPES), [n for n, _ in TYPES.values()]
    made = []
    for n in range(count):
        kind = dice.choices(kinds, weights)[0]
        facts = {key: str(value).lower() if value is True else str(value) for key, value in TYPES[kind][1].items()}
        facts |= {"type": kind, "pool": dice.choice(["ci", "perf", "lab"]), "host": f"h{n % 40}", "name": f"d{n}"}
        held = dice.random() < busy
        until = NOW + timedelta(seconds=dice.uniform(1, 1200)) if held else None
        made.append(
            PlannedDevice(
                n, f"d{n}", facts, Availability.RUNNING if held else Availability.READY, "", type=kind,
                bundle=dice.choice("abcdef"), temperature_c=dice.uniform(25, 40),
                holder="attempt:1" if held else None, until=until,
            )
        )  # fmt: skip
    return made


def big_queue(count: int, devices: int, dice: random.Random) -> list[WaitingJob]:
    """A third pinned by matrices; the rest by some 200 different wishes, of 12 teams."""
    pools = ["", " pool=ci", " pool=perf", " pool in (ci, lab)", " not pool=perf"]
    wishes = [(parse(s + p),) for s in SELECTORS for p in pools if s != "*" or p]
    wishes += [(parse(f"ram_gb>={gb} {s}"),) for gb in (4, 6, 8, 12) for s in SELECTORS if s != "*"]
    made = []
    for n in range(count):
        pinned = dice.randrange(devices) if dice.random() < 1 / 3 else None
        made.append(
            WaitingJob(
                n, dice.choices(list(CLASSES), list(CLASSES.values()))[0],
                NOW - timedelta(seconds=dice.uniform(0, 6 * HOUR)), dice.choice(wishes),
                team=f"team{dice.randrange(12)}", pinned=pinned, bundle=dice.choice("abcdefgh"),
                estimate_s=dice.uniform(60, 1800),
            )
        )  # fmt: skip
    return made


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds by the clock, and of this process's own CPU (to which a busy machine adds nothing)."""

    wall_s: float
    cpu_s: float


def timed(work: Callable[[], Made]) -> tuple[Took, Made]:
    wall, cpu = time.perf_counter(), time.process_time()
    made = work()
    return Took(time.perf_counter() - wall, time.process_time() - cpu), made


def speed(devices: int, jobs: int, rounds: int, seed: int = 1) -> dict[str, Any]:
    """Full passes from nothing, then single events, each one `apply`."""
    dice = random.Random(seed)
    fleet, queue = big_fleet(devices, dice, 0.95), big_queue(jobs, devices, dice)
    idle = big_fleet(devices, random.Random(seed), 0.0)
    gc.collect()
    full = [timed(lambda: plan(NOW, fleet, queue)) for _ in range(rounds)]
    fresh = [timed(lambda: plan(NOW, idle, queue)) for _ in range(rounds)]
    index = full[-1][1][0]
    arrivals = []
    for n in range(200):
        job = replace(big_queue(1, devices, dice)[0], id=jobs + n, queued_at=NOW)
        arrivals.append(timed(partial(apply, index, Arrived(job), NOW)))
    freed = []
    for device in dice.sample(fleet, min(200, len(fleet))):
        free = replace(device, state=Availability.READY, why="ready", holder=None, until=None)
        freed.append(timed(partial(apply, index, DeviceSeen(free), NOW)))
    some = next(iter(index.jobs))
    return {
        "devices": devices,
        "jobs": jobs,
        "rounds": rounds,
        "groups": len(index.all_groups()),
        "full_pass": spread_of(full),
        "full_pass_grants": len(full[-1][1][1].grants),
        "full_pass_all_idle": spread_of(fresh),
        "full_pass_all_idle_grants": len(fresh[-1][1][1].grants),
        "new_job": spread_of(arrivals),
        "freed_device": spread_of(freed),
        "freed_device_grants": sum(len(made[1].grants) for _, made in freed),
        "why": spread_of([timed(lambda: explain(index, some))]),
        "first_200_reasons": spread_of([timed(lambda: reasons(index, 200))]),
        "foretell_200_steps": spread_of([timed(lambda: estimated_starts(index, steps=200))]),
    }


def spread_of(found: Sequence[tuple[Took, Any]]) -> dict[str, dict[str, float]]:
    return {"wall_s": spread([t.wall_s for t, _ in found]), "cpu_s": spread([t.cpu_s for t, _ in found])}


def spread(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "median": statistics.median(ordered),
        "p95": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
        "max": ordered[-1],
    }


POLICIES: dict[str, Callable[[Scenario], Policy]] = {
    "this farm": lambda s: FarmPolicy(s.devices, s.jobs),
    "first come, first fit": lambda s: FirstFit(s.devices, s.jobs),
    "labgrid's rule": lambda s: Labgrid(s.devices, s.jobs),
    "LAVA's rule": lambda s: Lava(s.devices, s.jobs),
}


def days(seeds: Sequence[int], jobs: int) -> dict[str, Any]:
    """Every policy on the same days."""
    made: dict[str, Any] = {}
    for name, policy in POLICIES.items():
        played = [a_played_day(seed, jobs, policy) for seed in seeds]

        def middle(of: str, key: str, days: list[dict[str, Any]] = played) -> float:
            return float(statistics.median(day[of][key]["p95"] for day in days))

        made[name] = {
            "over_bound": spread([day["over_bound"] for day in played]),
            "p95_wait_by_class_s": {klass: middle("wait_s_by_class", klass) for klass in CLASSES},
            "p95_wait_by_team_s": {team: middle("wait_s_by_team", team) for team in TEAMS},
            "days": played,
        }
    return made


def a_played_day(seed: int, jobs: int, policy: Callable[[Scenario], Policy]) -> dict[str, Any]:
    scenario = a_day(seed, jobs)
    took, (schedule, lost) = timed(lambda: simulate(scenario, policy(scenario)))
    summary, bound = summarise(Result(scenario, schedule, lost)), lower_bound(scenario)
    over = summary["makespan_s"] / bound
    return {"seed": seed, "took_cpu_s": took.cpu_s, "lower_bound_s": bound, "over_bound": over, **summary}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="small sizes, one day: to see that it runs")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    before = os.getloadavg()
    sizes = [(100, 1000)] if options.quick else [(1000, 20_000), (10_000, 100_000)]
    found = [speed(d, j, options.rounds if d <= 1000 else 1) for d, j in sizes]
    compared = days([1] if options.quick else range(1, options.seeds + 1), 300 if options.quick else 3000)
    report = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "load_before": before,
        "load_after": os.getloadavg(),
        "aims": {"full_pass_s": AIM_FULL_S, "event_s": AIM_EVENT_S, "makespan_over_bound": AIM_MAKESPAN},
        "speed": found,
        "days": compared,
    }
    show(report)
    if options.out is not None:
        options.out.write_text(json.dumps(report, indent=1) + "\n")
        print(f"written: {options.out}")
    return 0


def show(report: dict[str, Any]) -> None:
    load = f"load {report['load_before'][0]:.1f} to {report['load_after'][0]:.1f}"
    print(f"{load} on {report['machine']['cores']} cores; milliseconds by the clock (of own CPU)")
    aims = {
        "full_pass": AIM_FULL_S,
        "full_pass_all_idle": AIM_FULL_S,
        "new_job": AIM_EVENT_S,
        "freed_device": AIM_EVENT_S,
    }
    for size in report["speed"]:
        print(f"{size['devices']} devices x {size['jobs']} jobs ({size['groups']} groups)")
        for key in (*aims, "why", "first_200_reasons", "foretell_200_steps"):
            wall, cpu = size[key]["wall_s"], size[key]["cpu_s"]
            aim = f"  aim {aims[key] * 1000:.0f}" if key in aims and size["devices"] <= 1000 else ""
            figures = " ".join(f"{q} {wall[q] * 1000:9.2f} ({cpu[q] * 1000:9.2f})" for q in ("median", "p95"))
            print(f"  {key:20} {figures}{aim}")
    print(f"{'a day: p95 waits, min':24}{'makespan':>9} " + "".join(f"{k:>9}" for k in (*CLASSES, *TEAMS)))
    for name, day in report["days"].items():
        waits = [*day["p95_wait_by_class_s"].values(), *day["p95_wait_by_team_s"].values()]
        print(f"{name:24}{day['over_bound']['median']:9.4f} " + "".join(f"{w / 60:9.1f}" for w in waits))
    print(f"makespan: over the lower bound, median of the days (aim {AIM_MAKESPAN})")


if __name__ == "__main__":
    raise SystemExit(main())
