"""`farm simulate FILE`: a lab played through before it is built. Needs no farm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from farm.cli.errors import CliError
from farm.cli.output import duration, note, print_json, table
from farm.domain.names import did_you_mean
from farm.domain.outcomes import ExitCode
from farm.domain.words import count

#: Largest scenario that is read, bytes.
MAX_FILE = 256 * 1024 * 1024


@click.command("simulate")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--weight", "weights", multiple=True, metavar="TEAM=WEIGHT", help="A team's share; 1 where not given.")
@click.option("--json", "as_json", is_flag=True, help="The whole schedule as JSON on standard output.")
def command(file: Path, weights: tuple[str, ...], as_json: bool) -> int:
    """Play a scenario (JSON: devices, jobs, failures) through with the farm's own plan.

    \b
    {"devices":  [{"id": "rk-1", "labels": {"soc": "RK3568"}}],
     "jobs":     [{"id": "j1", "submit_s": 0, "class": "pr", "team": "vision",
                   "selector": "soc=RK3568", "estimate_s": 300, "duration_s": 280}],
     "failures": [{"device": "rk-1", "at_s": 100, "for_s": 600}]}

    Times are seconds from the start. A job that a failure cuts off runs again; `lost` lists what was cut off.
    """
    from farm.domain.simulation import FarmPolicy, Result, ScenarioError, read_scenario, simulate

    try:
        scenario = read_scenario(_load(file))
    except ScenarioError as wrong:
        raise CliError(f"{file}: {wrong}", "see `farm simulate --help` for the format", ExitCode.REFUSED) from None
    shares = _shares(weights, {job.team for job in scenario.jobs})
    schedule, lost = simulate(scenario, FarmPolicy(scenario.devices, scenario.jobs, shares))
    document = Result(scenario, schedule, lost).document()
    if as_json:
        print_json(document)
    else:
        _print(document["summary"])
    return 0


def _load(file: Path) -> Any:
    try:
        with click.open_file(str(file), "rb") as source:
            text = source.read(MAX_FILE + 1)
    except OSError as error:
        raise CliError(f"{file} cannot be read: {error.strerror}", code=ExitCode.REFUSED) from None
    if len(text) > MAX_FILE:
        raise CliError(f"{file} is larger than {MAX_FILE} bytes", code=ExitCode.REFUSED)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CliError(f"{file} is no JSON: {error}", code=ExitCode.REFUSED) from None


def _shares(weights: tuple[str, ...], teams: set[str]) -> dict[str, float]:
    """Weight by team. Raises CliError for one that the scenario does not know: it would change nothing."""
    shares: dict[str, float] = {}
    for team, weight in map(_weight, weights):
        if team not in teams:
            known = ", ".join(sorted(teams)[:10]) + (" …" if len(teams) > 10 else "")
            near = did_you_mean(team, teams) or (f"its teams: {known}" if teams else "it has no job")
            raise CliError(f"--weight: no job of the scenario is of a team {team!r}", near, ExitCode.REFUSED)
        shares[team] = weight
    return shares


def _weight(text: str) -> tuple[str, float]:
    team, _, figure = text.partition("=")
    try:
        weight = float(figure)
        assert team
        assert 0 < weight < 1e6
    except (ValueError, AssertionError):
        raise CliError(f"--weight {text!r}: write TEAM=WEIGHT, for example vision=2", code=ExitCode.REFUSED) from None
    return team, weight


def _print(summary: dict[str, Any]) -> None:
    if not summary["jobs"]:
        note("The scenario has no job: nothing happens.")
        return
    busy = "—" if summary["busy"] is None else f"{summary['busy']:.0%}"
    print(
        f"{count(summary['jobs'], 'job')} on {count(summary['devices'], 'device')}, over after "
        f"{duration(summary['makespan_s'])}; busy for {busy} of that; "
        f"cut off by failures: {count(summary['lost'], 'run')}."
    )
    rows = [("all", "", summary["wait_s"])]
    rows += [("class", name, spread) for name, spread in summary["wait_s_by_class"].items()]
    rows += [("team", name, spread) for name, spread in summary["wait_s_by_team"].items()]
    table(
        ("WAIT OF", "", "JOBS", "MEDIAN", "95 %", "LONGEST"),
        ([of, name, s["n"], *(duration(s[q]) for q in ("p50", "p95", "max"))] for of, name, s in rows),
        right=("JOBS", "MEDIAN", "95 %", "LONGEST"),
    )
