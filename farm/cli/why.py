"""`farm why JOB`: what a job waits for."""

from __future__ import annotations

from typing import Any

import click

from farm.cli.client import connect
from farm.cli.output import cell, duration, note, parse_time, print_json, table
from farm.domain.words import count

#: So many devices are named with what must happen to them.
_NAMED = 3


@click.command("why")
@click.argument("job", type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def command(job: int, as_json: bool) -> int:
    """Why a job waits: its place, what would satisfy it, who holds that and until when, when it should start.

    `farm show RUN` has the number in its column JOB, and `farm run` names it while the job waits.
    """
    client = connect()
    told = client.get(f"/api/jobs/{job}/why")
    if as_json:
        print_json(told)
        return 0
    print_why(told)
    page = f"/runs/{told['run_id']}"
    note(f"\n{client.page(page)}")
    return 0


def print_why(told: dict[str, Any]) -> None:
    """The answer, for people."""
    print(f"job {told['job_id']} of run {told['run_id']} ({told['klass']}, team {told['team']}): {told['reason']}")
    if told["position"] is None:
        return
    now = told["at"]
    print(f"waits for {duration(_between(told['queued_at'], now))}; wants {told['wants']}", end="")
    print(f"; {told['rivals']} before it want one of the same devices" if told["rivals"] else "")
    if told["share"]:
        print(told["share"])
    start = told["estimated_start"]
    print(f"expected to start in {duration(_between(now, start))}" if start else _once(told), end="")
    print(f", to take {duration(told['expected_s'])}" if told["expected_s"] is not None else "")
    off = told["accuracy"]
    if off["median_error_s"] is None:
        print("how good such estimates are is not known yet")
    else:
        print(_accuracy(off["n"], duration(off["median_error_s"])))
    if told["candidates"]:
        table(
            ("DEVICE", "IS", "WHY", "FREE IN", ""),
            ([c["name"], c["state"], c["why"], _until(c, now), _avoided(c)] for c in told["candidates"]),
        )
    if told["more_candidates"]:
        note(f"and {told['more_candidates']} more")


def _once(told: dict[str, Any]) -> str:
    """What must happen before it starts, where all that it could have is away."""
    needs = [(c["name"], c.get("once")) for c in told["candidates"]]
    if not needs or told["more_candidates"] or not all(once for _, once in needs):
        return "nobody can say when it will start"
    named = "; or ".join(f"{name} is there for it: {once}" for name, once in needs[:_NAMED])
    more = f"; or one of {len(needs) - _NAMED} more" if needs[_NAMED:] else ""
    return f"starts once {named}{more}"


def _accuracy(judged: int, error: str) -> str:
    if judged == 1:
        return f"the only estimate so far was off by {error}"
    return f"half of the last {count(judged, 'estimate')} were off by at most {error}"


def _until(candidate: dict[str, Any], now: str) -> object:
    if candidate["until"]:
        return duration(max(0.0, _between(now, candidate["until"])))
    return cell("unknown" if candidate["state"] != "ready" else "", "dim")


def _avoided(candidate: dict[str, Any]) -> str:
    return "it failed there" if candidate["avoided"] else ""


def _between(first: str, second: str) -> float:
    return (parse_time(second) - parse_time(first)).total_seconds()
