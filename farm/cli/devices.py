"""`farm devices`: the fleet as a table."""

from __future__ import annotations

from typing import Any

import click

from farm.cli.client import connect
from farm.cli.output import ago, cell, figure, note, print_json, table

#: Availability → style: what can be used is green, what needs a hand is magenta (the farm's own colour).
STYLES = {
    "ready": "green",
    "running": "cyan",
    "reserved": "cyan",
    "cleaning": "cyan",
    "quarantined": "magenta",
    "stale": "magenta",
    "gone": "dim",
}


@click.command("devices")
@click.option("--on", "selector", default="*", metavar="SELECTOR", help="Only those that match, e.g. 'soc=RK3568'.")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def command(selector: str, as_json: bool) -> int:
    """Devices, and whether they can be used now."""
    client = connect()
    fleet = client.get("/api/devices")
    devices: list[dict[str, Any]] = fleet["devices"]
    if selector.strip() not in ("", "*"):
        devices = _matching(client.post("/api/runs/preview", {"selector": selector}), devices)
    if as_json:
        print_json(fleet | {"devices": devices})
        return 0
    for one in fleet["unidentified"]:
        note(f"{one['address']} on {one['host']} is {one['state']}: {one['remedy']}")
    for alert in fleet["alerts"]:
        since = ago(alert["at"])
        note(f"! {alert['message']} ({since})")
    for line in fleet["inventory_errors"]:
        note(f"{line} (the inventory before it stays in force)")
    if not devices and fleet["devices"]:
        return 0  # the selector's answer was printed: what is nearest, and what it lacks
    if not devices:
        note("No device yet. Plug one in with USB debugging on, or start virtual ones: `farm demo`.")
        return 0
    table(
        ("NAME", "MODEL", "IS", "WHY", "°C", "BATTERY", "POOL", "SERIAL"), map(_row, devices), right=("°C", "BATTERY")
    )
    waiting = fleet["queue"]["length"]
    if waiting:
        why = fleet["queue"]["oldest_why"] or "`farm runs` says for what"
        note(f"{waiting} {'job waits' if waiting == 1 else 'jobs wait'}: {why}")
    return 0


def _matching(preview: dict[str, Any], devices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from farm.cli.errors import CliError
    from farm.domain.outcomes import ExitCode

    error = preview["error"]
    if error:
        raise CliError(f"selector: {error['message']}", error["suggestion"] or "", ExitCode.REFUSED)
    serials = {device["serial"] for device in preview["matching"]}
    found = [device for device in devices if device["facts"]["serial"] in serials]
    if not found and preview["nearest"]:
        note("Nothing matches. Nearest: " + preview["nearest_words"])
    return found


def _row(device: dict[str, Any]) -> list[object]:
    facts = device["facts"]
    ready = facts["readiness"]
    battery = "none" if ready["has_battery"] is False else figure(ready["battery_pct"], "%")
    model = device["model"] + (" (virtual)" if facts["virtual"] else "")
    state = device["availability"]
    pool = facts["pool"] or ("" if facts["listed"] else "unlisted")
    temperature = "?" if ready["temperature_c"] is None else f"{ready['temperature_c']:.0f}"
    return [
        facts["name"], model, cell(state, STYLES.get(state, "yellow")), device["why"],
        temperature, battery, pool, facts["serial"],
    ]  # fmt: skip
