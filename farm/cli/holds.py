"""`farm pause`, `farm drain`, `farm resume`: no new work on a device, a host, a pool or the whole farm, and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click

from farm.cli.client import Client, connect
from farm.cli.errors import CliError
from farm.cli.output import note, print_json, table
from farm.cli.reason import FOR_HOLD, reason_option
from farm.cli.spans import span
from farm.domain.outcomes import ExitCode

_SCOPES = ("device", "host", "pool", "farm")
_POLL_S = 1.0

_Command = Callable[..., int]


def _target(function: _Command) -> _Command:
    function = click.argument("name", required=False)(function)
    return click.argument("scope", type=click.Choice(_SCOPES))(function)


def _named(scope: str, name: str | None) -> str:
    if scope == "farm":
        if name:
            raise CliError(f"`farm` has no name: leave {name!r} out", code=ExitCode.REFUSED)
        return ""
    if not name:
        raise CliError(f"which {scope}? Name it", "`farm devices` lists them", ExitCode.REFUSED)
    return name


@click.command("pause")
@_target
@reason_option("Whoever waits is shown it.", FOR_HOLD)
@click.option("--for", "for_s", callback=span, metavar="SPAN", help="Ends by itself, for example after 2h.")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def pause(scope: str, name: str | None, reason: str, for_s: float | None, as_json: bool) -> int:
    """No new work on a device, host, pool or the whole farm. What runs goes on."""
    held = _place(connect(), scope, _named(scope, name), reason, for_s)
    if as_json:
        print_json(held)
        return 0
    note(f"{held['words']}. Nothing new starts on its {held['devices']} devices; {len(held['busy'])} still work.")
    return 0


@click.command("drain")
@_target
@reason_option("Whoever waits is shown it.", FOR_HOLD)
@click.option("--wait", "limit", callback=span, metavar="SPAN", default="0s", help="Wait so long until nothing runs.")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def drain(scope: str, name: str | None, reason: str, limit: float, as_json: bool) -> int:
    """As `farm pause`; with --wait it returns once nothing runs there (exit code 4 when that takes longer)."""
    client, ref = connect(), _named(scope, name)
    held = _place(client, scope, ref, reason, None)
    until, said = time.monotonic() + limit, ""
    while held["busy"] and time.monotonic() < until:
        words = f"waits for {', '.join(held['busy'][:5])}"
        if words != said:
            note(words)
            said = words
        time.sleep(min(_POLL_S, max(0.0, until - time.monotonic())))
        held = _again(client, held)
    if as_json:
        print_json(held)
    elif not held["busy"]:
        note(f"{held['words']}. Nothing runs there any more.")
    else:
        note(f"{held['words']}. Still at work: {', '.join(held['busy'][:5])}; `farm drain … --wait 1h` waits for them.")
    return int(ExitCode.WAIT_EXPIRED) if held["busy"] and limit else 0


@click.command("resume")
@_target
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def resume(scope: str, name: str | None, as_json: bool) -> int:
    """Lift every hold on exactly this."""
    gone = connect().post("/api/holds/lift", {"scope": scope, "name": _named(scope, name)})
    if as_json:
        print_json(gone)
        return 0
    what = "the farm" if scope == "farm" else f"{scope} {name}"
    lifted = gone["lifted"]
    note(
        f"{what} was not held."
        if not lifted
        else f"{what} is given work again: {', '.join(h['reason'] for h in lifted)}"
    )
    return 0


@click.command("holds")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def command(as_json: bool) -> int:
    """What is paused or drained, by whom and why."""
    found = connect().get("/api/holds")
    if as_json:
        print_json(found)
        return 0
    if not found["holds"]:
        note("Nothing is held: every device that is ready gets work. `farm pause device NAME --reason …` holds one.")
        return 0
    table(("HOLD", "DEVICES", "STILL AT WORK", "UNTIL"), (_row(entry) for entry in found["holds"]), right=("DEVICES",))
    return 0


def _row(entry: dict[str, Any]) -> list[object]:
    return [
        entry["words"],
        entry["devices"],
        ", ".join(entry["busy"]) or "—",
        entry["hold"]["until"] or "lifted by hand",
    ]


def _place(client: Client, scope: str, name: str, reason: str, for_s: float | None) -> dict[str, Any]:
    body = {"scope": scope, "name": name, "reason": reason, "for_s": for_s}
    held: dict[str, Any] = client.post("/api/holds", body)
    return held


def _again(client: Client, held: dict[str, Any]) -> dict[str, Any]:
    """The hold as it stands now."""
    named = {"scope": held["hold"]["scope"], "name": held["hold"]["ref"]}
    for entry in client.get("/api/holds", named)["holds"]:
        if entry["hold"]["id"] == held["hold"]["id"]:
            return dict(entry)
    raise CliError(f"somebody has lifted it: {held['words']}", "`farm holds` lists what is held", ExitCode.CANCELLED)
