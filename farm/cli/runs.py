"""`farm runs`: the list, newest first."""

from __future__ import annotations

import click

from farm.cli.client import connect
from farm.cli.output import ago, note, outcome_text, print_json, table


@click.command("runs")
@click.option("--state", type=click.Choice(["queued", "running", "ended"]), help="Only runs in this state.")
@click.option("--team", help="Only this team's.")
@click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True)
@click.option("--before", type=click.IntRange(1), metavar="RUN", help="Only runs older than this one.")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def command(state: str | None, team: str | None, limit: int, before: int | None, as_json: bool) -> int:
    """Runs, newest first."""
    page = connect().get("/api/runs", {"state": state, "team": team, "limit": limit, "before": before})
    if as_json:
        print_json(page)
        return 0
    if not page["runs"]:
        note("No run yet. Queue one: `farm run BUNDLE --suite smoke`, or see `farm demo`.")
        return 0
    table(
        ("RUN", "OUTCOME", "TITLE", "BUNDLE", "SUITES", "DEVICES", "QUEUED", "TEAM", "BY"),
        (
            [
                run["id"], outcome_text(run["outcome"], run["state"]), run["title"],
                f"{run['bundle_name']} {run['bundle_hash'][:8]}", ", ".join(run["suites"]),
                f"{run['jobs']['ended']}/{run['jobs']['total']}" + (" (virtual)" if run["virtual"] else ""),
                ago(run["created_at"]), run["team"], run["created_by"] or "—",
            ]
            for run in page["runs"]
        ),
        right=("RUN",),
    )  # fmt: skip
    if page["before"]:
        note(f"Older ones: `farm runs --before {page['before']}`")
    return 0
