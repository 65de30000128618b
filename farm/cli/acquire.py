"""`farm acquire`: a device for a while."""

from __future__ import annotations

import platform
import shlex
import time
from typing import Any

import click

from farm.cli.client import Client, connect
from farm.cli.errors import CliError
from farm.cli.output import moment, note, print_json
from farm.cli.signals import stopped_by_signals
from farm.cli.spans import span
from farm.domain.outcomes import ExitCode

#: One question waits so long for its answer, seconds: well below the client's own limit.
_ASK_S = 20.0


@click.command("acquire")
@click.argument("selector", default="*")
@click.option("--device", metavar="NAME", help="This very device: its name, serial number or id.")
@click.option("--for", "for_s", callback=span, default="1h", show_default=True, help="How long, e.g. 10m or 2h.")
@click.option("--wait", "wait_s", callback=span, help="Give up when none is free within this time (exit code 4).")
@click.option("--purpose", help="Shown to others who wait.")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def command(
    selector: str, device: str | None, for_s: float, wait_s: float | None, purpose: str | None, as_json: bool
) -> int:
    """Lease a device that SELECTOR picks, waiting for one if need be; `farm lease release` gives it back."""
    client = connect()
    asked = {"selector": selector, "device": device, "for_s": for_s, "wait_s": wait_s, "purpose": purpose}
    with stopped_by_signals():
        found = client.post("/api/reservations", {key: value for key, value in asked.items() if value is not None})
        try:
            found = _settled(client, found, None if wait_s is None else time.monotonic() + wait_s)
        except BaseException:
            _withdraw(client, found["id"])
            raise
    if found["state"] != "active":
        raise CliError(f"no device within the wait: {found['end_reason']}", "farm lease list", ExitCode.WAIT_EXPIRED)
    lease = found["lease"]
    adb = _adb(client, lease["device"]["id"])
    if as_json:
        print_json(found | {"adb": adb})
        return 0
    print(f"{lease['device']['name']}  {lease['device']['serial']}  ", end="")
    print(f"reservation {found['id']} · lease {lease['id']} until {moment(lease['ends_at'])}")
    if adb is not None:
        note(_use(adb))
    note(f"Give it back with `farm lease release {lease['id']}`.")
    return 0


def _adb(client: Client, device: int) -> dict[str, Any] | None:
    """How adb reaches it; None where the farm does not say: what was leased is told all the same."""
    try:
        found: dict[str, Any] | None = client.get(f"/api/devices/{device}").get("adb")
    except CliError:
        return None
    return found


def _use(adb: dict[str, Any]) -> str:
    """The line to type, and on which machine, where that is not this one."""
    if adb["port"] is None:
        return f"Use it on its host {adb['host']}: the port of the farm's adb server is not known here."
    line = f"adb -P {adb['port']} -s {shlex.quote(adb['serial'])} shell"
    here = adb["node"] == platform.node()
    where = "" if here else f", on the machine {adb['node'] or 'that it is attached to'} (host {adb['host']})"
    return f"Use it{where}: {line}"


def _withdraw(client: Client, ident: int) -> None:
    """What nobody waits for any more must not be granted later."""
    try:
        client.send("DELETE", f"/api/reservations/{ident}")
    except CliError as error:
        note(f"reservation {ident} could not be withdrawn: {error.message}; later: `farm lease withdraw {ident}`")
    else:
        note(f"reservation {ident} is withdrawn")


def _settled(client: Client, found: dict[str, Any], until: float | None) -> dict[str, Any]:
    """The reservation once it waits no more, or the time is over."""
    said: object = ...  # nothing yet: its number is told even where no reason is known
    while found["state"] == "queued":
        left = _ASK_S if until is None else until - time.monotonic()
        if left <= 0:
            client.send("DELETE", f"/api/reservations/{found['id']}")
            return {**found, "state": "ended", "end_reason": found["wait_reason"] or "none was free"}
        if found["wait_reason"] != said:
            said = found["wait_reason"]
            note(f"reservation {found['id']} waits: {said or 'for the planner'}")
        found = client.get(f"/api/reservations/{found['id']}", {"wait_s": round(max(0.05, min(left, _ASK_S)), 3)})
    return found
