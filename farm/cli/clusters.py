"""`farm clusters`: incidents that are one fault: list, show, name, mute, unmute."""

from __future__ import annotations

from typing import Any

import click

from farm.cli.client import connect
from farm.cli.output import ago, cell, console, note, print_json, table
from farm.cli.reason import FOR_HOLD, reason_option
from farm.domain.words import count

_JSON = click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")


@click.group("clusters", invoke_without_command=True)
@_JSON
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> int:
    """Incidents that are one fault. Without a word: list."""
    return show_list(False, as_json) if ctx.invoked_subcommand is None else 0


@command.command("list")
@click.option("--muted", is_flag=True, help="Muted ones too.")
@_JSON
def list_clusters(muted: bool, as_json: bool) -> int:
    """Every cluster with first and last seen, devices, bundles and rate."""
    return show_list(muted, as_json)


def show_list(muted: bool, as_json: bool) -> int:
    found = connect().get("/api/clusters", {"muted": "true"} if muted else None)
    if as_json:
        print_json(found)
        return 0
    if not found["clusters"]:
        note("No incidents yet: what goes wrong in a run is gathered here by what it is.")
        return 0
    table(
        ("CLUSTER", "FAULT", "INCIDENTS", "DEVICES", "BUNDLES", "RATE, 7 DAYS", "FIRST", "LAST"),
        (
            [
                c["id"],
                _title(c),
                c["incidents"],
                c["devices"],
                c["bundles"],
                rate_words(c["rate"]),
                ago(c["first_seen"]),
                ago(c["last_seen"]),
            ]
            for c in found["clusters"]
        ),
        right=("CLUSTER", "INCIDENTS", "DEVICES", "BUNDLES"),
    )
    return 0


def _title(cluster: dict[str, Any]) -> str:
    muted = " (muted)" if cluster["muted_at"] else ""
    return f"{cluster['name'] or cluster['title'][:100]}{muted}"


def rate_words(rate: dict[str, Any]) -> str:
    """`4.0 % (1.1–13.5), 2 of 50`; an em dash where nothing was counted."""
    if rate["value"] is None:
        return "—"
    low, high = 100 * rate["low"], 100 * rate["high"]
    return f"{100 * rate['value']:.1f} % ({low:.1f}–{high:.1f}), {rate['hits']} of {rate['total']}"


@command.command("show")
@click.argument("cluster", type=click.IntRange(1, 2**31 - 1))
@_JSON
def show(cluster: int, as_json: bool) -> int:
    """One cluster: signatures, devices, bundles, newest incidents."""
    found = connect().get(f"/api/clusters/{cluster}")
    if as_json:
        print_json(found)
        return 0
    head = found["cluster"]
    lines = [
        f"cluster {head['id']}: {head['name'] or head['title']}",
        f"{count(head['incidents'], 'incident')} in {count(head['attempts'], 'attempt')}; "
        f"{rate_words(head['rate'])} of 7 days' attempts",
        f"first {ago(head['first_seen'])}, last {ago(head['last_seen'])}",
    ]
    if head["muted_at"]:
        lines.append(f"muted by {head['muted_by']} {ago(head['muted_at'])}: {head['mute_reason']}")
    for line in lines:
        console().print(cell(line))
    table(("SIGNATURE", "INCIDENTS", "WHAT"), ([s["key"], s["incidents"], s["title"]] for s in found["signatures"]))
    table(("DEVICE", "INCIDENTS"), ([device["name"], count] for device, count in found["devices"]))
    table(("BUNDLE", "VERSION", "INCIDENTS"), ([b["name"], b["version"], b["incidents"]] for b in found["bundles"]))
    table(
        ("WHEN", "ATTEMPT", "DEVICE", "INCIDENT"),
        ([ago(i["at"]), i["attempt_id"] or "—", i["device"]["name"], i["summary"][:160]] for i in found["incidents"]),
    )
    return 0


@command.command("name")
@click.argument("cluster", type=click.IntRange(1, 2**31 - 1))
@click.argument("name")
@_JSON
def rename(cluster: int, name: str, as_json: bool) -> int:
    """Call CLUSTER by NAME (empty: none any more). A named one is never joined to another."""
    done = connect().send("PUT", f"/api/clusters/{cluster}/name", {"name": name})
    return _told(done, as_json, f"Cluster {cluster}: {done['name'] or 'no name'}")


@command.command("mute")
@click.argument("cluster", type=click.IntRange(1, 2**31 - 1))
@reason_option("Why: people who look for it are shown this.", FOR_HOLD)
@_JSON
def mute(cluster: int, reason: str, as_json: bool) -> int:
    """Leave CLUSTER out of lists; it goes on counting."""
    done = connect().send("PUT", f"/api/clusters/{cluster}/mute", {"muted": True, "reason": reason})
    return _told(done, as_json, f"Cluster {cluster} is muted. `farm clusters unmute {cluster}` shows it again.")


@command.command("unmute")
@click.argument("cluster", type=click.IntRange(1, 2**31 - 1))
@_JSON
def unmute(cluster: int, as_json: bool) -> int:
    """Show CLUSTER again."""
    done = connect().send("PUT", f"/api/clusters/{cluster}/mute", {"muted": False})
    return _told(done, as_json, f"Cluster {cluster} is shown again.")


def _told(done: dict[str, Any], as_json: bool, words: str) -> int:
    if as_json:
        print_json(done)
    else:
        note(words)
    return 0
