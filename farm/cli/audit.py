"""`farm audit`: who did what, newest first."""

from __future__ import annotations

import click

from farm.cli.client import connect
from farm.cli.output import moment, note, print_json, table
from farm.domain.words import facts


@click.command("audit")
@click.option("--who", help="Only what this user did; `nobody`: who failed to log in.")
@click.option("--action", metavar="WORD", help="Only this, e.g. token.create; or a noun: token, run, device, hold, …")
@click.option("--target", metavar="WORDS", help="Only what was done to this, e.g. 'device husky-1' or 'run 12'.")
@click.option("--limit", type=click.IntRange(1, 500), default=40, show_default=True)
@click.option("--before", type=click.IntRange(1), metavar="LINE", help="Only lines older than this one.")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def command(
    who: str | None, action: str | None, target: str | None, limit: int, before: int | None, as_json: bool
) -> int:
    """Who did what to what, and what became different (admin). Newest first; no line holds a secret."""
    asked = {"who": who, "action": action, "target": target}
    page = connect().get("/api/audit", {**asked, "limit": limit, "before": before})
    if as_json:
        print_json(page)
        return 0
    if not page["lines"]:
        filtered = any(asked.values()) or before is not None
        note("No line says that. Leave an option out, or see all: `farm audit`." if filtered else "Nothing yet.")
        return 0
    table(
        ("LINE", "WHEN", "WHO", "ACTION", "TARGET", "WHAT", "FROM"),
        (
            [
                line["id"], moment(line["at"]), line["who"], line["action"], line["target"], facts(line["detail"]),
                line["address"] or "—",
            ]
            for line in page["lines"]
        ),
        right=("LINE",),
    )  # fmt: skip
    if page["before"]:
        kept = "".join(f" --{key} {value!r}" for key, value in asked.items() if value)
        note(f"Older ones: `farm audit{kept} --before {page['before']}`")
    return 0
