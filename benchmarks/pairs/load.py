"""Clients that lease and release, or pages that watch; prints one line of JSON at its end.

    python -m benchmarks.pairs.load open   PORT TOKEN --rate 100 --seconds 10
    python -m benchmarks.pairs.load closed PORT TOKEN --clients 16 --seconds 10
    python -m benchmarks.pairs.load watch  PORT TOKEN --clients 20          # until its standard input ends
    python -m benchmarks.pairs.load hand-over PORT TOKEN --rounds 30

In the open loop a pair's time counts from when it was due, not from when a connection was free: a server that stalls
cannot hide it. A pair is the question for a place, its answer with the lease (after a wait in the queue, if it must),
and the release.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.pairs.http import Http, watch

WANTED = {"selector": "pool=places", "for_s": 60}
#: Pairs that are given up: the server answers nothing any more.
LIMIT_S = 60.0


@dataclass
class Times:
    """Milliseconds of each pair and its two halves; `queued`: pairs that did not get a place at once."""

    pair: list[float] = field(default_factory=list)
    lease: list[float] = field(default_factory=list)
    release: list[float] = field(default_factory=list)
    queued: int = 0
    failed: int = 0
    reasons: list[str] = field(default_factory=list)

    def result(self, seconds: float) -> dict[str, Any]:
        return {
            "pairs": len(self.pair),
            "pairs_per_s": round(len(self.pair) / seconds, 1),
            "queued": self.queued,
            "failed": self.failed,
            "reasons": self.reasons[:3],
            **{name: spread(getattr(self, name)) for name in ("pair", "lease", "release")},
        }


def spread(times: Sequence[float]) -> dict[str, float | None]:
    """Percentiles in milliseconds; None: not measured."""
    if not times:
        return {"p50_ms": None, "p99_ms": None, "max_ms": None}
    ordered = sorted(times)
    half, most = (ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.99))
    return {"p50_ms": round(half, 2), "p99_ms": round(most, 2), "max_ms": round(ordered[-1], 2)}


async def one_pair(http: Http, times: Times, due: float, wanted: dict[str, Any]) -> None:
    try:
        async with asyncio.timeout(LIMIT_S):
            status, answer = await http.ask("POST", "/api/reservations", wanted)
            if status != 201:
                raise RuntimeError(f"{status}: {answer}")
            if answer["state"] != "active":
                times.queued += 1
            while answer["state"] == "queued":
                _, answer = await http.ask("GET", f"/api/reservations/{answer['id']}?wait_s=30")
            leased = time.monotonic()
            status, answer = await http.ask("POST", f"/api/leases/{answer['lease']['id']}/release")
            if status != 200:
                raise RuntimeError(f"{status}: {answer}")
    except (OSError, RuntimeError, TimeoutError, TypeError, KeyError, asyncio.IncompleteReadError) as error:
        times.failed += 1
        times.reasons.append(f"{type(error).__name__}: {error}"[:300])
        http.close()
        return
    ended = time.monotonic()
    times.lease.append((leased - due) * 1000)
    times.release.append((ended - leased) * 1000)
    times.pair.append((ended - due) * 1000)


async def open_loop(options: argparse.Namespace, wanted: dict[str, Any]) -> dict[str, Any]:
    """Pairs begin at a fixed rate, whatever became of those before."""
    times, tasks = Times(), set[asyncio.Task[None]]()
    idle: list[Http] = []
    began = time.monotonic() + 0.2

    async def run(due: float) -> None:
        http = idle.pop() if idle else Http(options.port, options.token)
        await one_pair(http, times, due, wanted)
        idle.append(http)

    for number in range(int(options.rate * options.seconds)):
        due = began + number / options.rate
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        task = asyncio.create_task(run(due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    return times.result(time.monotonic() - began)


async def closed_loop(options: argparse.Namespace, wanted: dict[str, Any]) -> dict[str, Any]:
    """Each client begins its next pair when its last one is done."""
    times, began = Times(), time.monotonic()

    async def client() -> None:
        http = Http(options.port, options.token)
        while time.monotonic() - began < options.seconds:
            await one_pair(http, times, time.monotonic(), wanted)
        http.close()

    await asyncio.gather(*(client() for _ in range(options.clients)))
    return times.result(time.monotonic() - began)


async def hand_over(options: argparse.Namespace, wanted: dict[str, Any]) -> dict[str, Any]:
    """From the release to the next one's answer that it has the place."""
    first, second = Http(options.port, options.token), Http(options.port, options.token)
    found = []
    for _ in range(options.rounds):
        _, held = await first.ask("POST", "/api/reservations", {**wanted, "device": "place-0"})
        while held["state"] == "queued":
            _, held = await first.ask("GET", f"/api/reservations/{held['id']}?wait_s=30")
        _, queued = await second.ask("POST", "/api/reservations", {**wanted, "device": "place-0"})
        waiting = asyncio.create_task(second.ask("GET", f"/api/reservations/{queued['id']}?wait_s=60"))
        await asyncio.sleep(0.2)
        released = time.monotonic()
        await first.ask("POST", f"/api/leases/{held['lease']['id']}/release")
        _, got = await waiting
        assert got["state"] == "active", got
        found.append((time.monotonic() - released) * 1000)
        await second.ask("POST", f"/api/leases/{got['lease']['id']}/release")
    return {"rounds": len(found), **spread(found), "mean_ms": round(statistics.fmean(found), 2)}


async def watchers(options: argparse.Namespace) -> dict[str, Any]:
    counts: list[int] = []
    tasks = [asyncio.create_task(watch(options.port, options.token, counts)) for _ in range(options.clients)]
    began = time.monotonic()
    print(json.dumps({"watching": options.clients}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    ended = [task for task in tasks if task.done()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {"events": sum(counts), "events_per_s": round(sum(counts) / (time.monotonic() - began)), "lost": len(ended)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("open", "closed", "watch", "hand-over"))
    parser.add_argument("port", type=int)
    parser.add_argument("token")
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--selector", default=WANTED["selector"])
    options = parser.parse_args()
    wanted = {**WANTED, "selector": options.selector}
    if options.what == "watch":
        made = asyncio.run(watchers(options))
    else:
        made = asyncio.run(
            {"open": open_loop, "closed": closed_loop, "hand-over": hand_over}[options.what](options, wanted)
        )
    print(json.dumps(made), flush=True)


if __name__ == "__main__":
    main()
