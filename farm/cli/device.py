"""`farm device`: what people do about one device by hand."""

from __future__ import annotations

import time
from typing import Any

import click

from farm.cli.client import connect, segment
from farm.cli.errors import CliError
from farm.cli.output import figure, moment, note, print_json
from farm.cli.reason import FOR_DEVICE, reason_option
from farm.cli.spans import span
from farm.domain.outcomes import ExitCode

#: A look takes a second or two; a device that does not answer takes it twenty.
_CHECK_S = 60.0


@click.group("device")
def command() -> None:
    """One device: quarantine, maintenance, release, check, note. NAME is its name, serial number or id."""


@command.command("quarantine")
@click.argument("name")
@reason_option("Shown wherever the device is.", FOR_DEVICE)
@click.option("--for", "lasts", callback=span, metavar="SPAN", help="30m, 2h, 3d; without it: until it is released.")
def quarantine(name: str, reason: str, lasts: float | None) -> int:
    """No new work on NAME; what runs goes on."""
    return _tell(connect().post(_path(name, "quarantine"), {"reason": reason, "for_s": lasts}))


@command.command("maintenance")
@click.argument("name")
@reason_option("Shown wherever the device is.", FOR_DEVICE)
def maintenance(name: str, reason: str) -> int:
    """Take NAME into your hands: no work, no recovery, until it is released."""
    return _tell(connect().post(_path(name, "maintenance"), {"reason": reason}))


@command.command("release")
@click.argument("name")
def release(name: str) -> int:
    """Put NAME back into service; it is looked at first."""
    return _tell(connect().post(_path(name, "release")))


@command.command("note")
@click.argument("name")
@click.argument("text", nargs=-1, required=True)
def write_note(name: str, text: tuple[str, ...]) -> int:
    """Write TEXT on the page of NAME, under your name."""
    connect().post(_path(name, "notes"), {"text": " ".join(text)})
    note(f"Noted on the page of {name}.")
    return 0


@command.command("check")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def check(name: str, as_json: bool) -> int:
    """Look at NAME now, and say what was found. Exit code 0: it can be used; 2: it cannot."""
    client = connect()
    asked = client.post(_path(name, "check"))["asked_at"]
    end, found = time.monotonic() + _CHECK_S, client.get(f"/api/devices/{segment(name)}")
    while not _looked_at(found, asked):
        if time.monotonic() >= end:
            said = found["tile"]["facts"]["health_reason"] or "its host has not looked yet; does its agent run?"
            raise CliError(f"{name} gave no answer within {_CHECK_S:g} s: {said}", "", ExitCode.FARM_TROUBLE)
        time.sleep(0.5)
        found = client.get(f"/api/devices/{segment(name)}")
    if as_json:
        print_json(found)
    else:
        for line in _findings(found):
            print(line)
    return int(ExitCode.PASSED if found["tile"]["facts"]["health"] == "good" else ExitCode.FARM_TROUBLE)


def _looked_at(found: dict[str, Any], asked: str) -> bool:
    """Whether the look that was asked for has been made, and what it means is decided."""
    facts = found["tile"]["facts"]
    at = facts["readiness"]["at"]
    return at is not None and at > asked and facts["health"] != "suspect"


def _findings(found: dict[str, Any]) -> list[str]:
    tile, facts = found["tile"], found["tile"]["facts"]
    ready = facts["readiness"]
    lines = [
        f"{facts['name']}: {tile['availability']}"
        + (f" ({tile['why']})" if tile["why"] != tile["availability"] else ""),
        f"health {facts['health']}" + (f": {facts['health_reason']}" if facts["health_reason"] else ""),
        f"temperature {figure(ready['temperature_c'], '°C')}, free storage "
        + figure(None if ready["free_bytes"] is None else ready["free_bytes"] / 1e6, "MB")
        + f", clock off by {figure(ready['clock_skew_s'], 's')}",
    ]
    if ready["has_battery"]:
        lines.append(f"battery {figure(ready['battery_pct'], '%')}")
    return lines + [f"warning: {text}" for text in found["warnings"]]


def _path(name: str, what: str) -> str:
    return f"/api/devices/{segment(name)}/{what}"


def _tell(standing: dict[str, Any]) -> int:
    until = f" until {moment(standing['until'])}" if standing["until"] else ""
    note(f"{standing['name']}: {standing['health']}{until} ({standing['reason']})")
    return 0
