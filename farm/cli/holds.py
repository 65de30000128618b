"""`farm pause`, `farm drain`, `farm resume`: no new work on a device, a host, a pool or the whole farm, and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click

from farm.cli.client import Client, connect
from farm.cli.errors import CliError
from farm.cli.output import moment, note, print_json, table
from farm.cli.reason import FOR_HOLD, reason_option
from farm.cli.spans import span
from farm.domain.outcomes import ExitCode
from farm.domain.words import count

_SCOPES = ("device", "host", "pool", "farm")
_POLL_S = 1.0
#: Of those that still work so many are named.
_NAMED = 5

_Command = Callable[..., int]


def _target(function: _Command) -> _Command:
    function = click.argument("name", required=False)(function)
    return click.argument("scope", type=click.Choice(_SCOPES))(function)


def _options(function: _Command) -> _Command:
    """What `pause` and `drain` have in common."""
    function = click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")(function)
    ends = "Ends by itself, for example after 2h; without it: when somebody resumes it."
    function = click.option("--for", "for_s", callback=span, metavar="SPAN", help=ends)(function)
    function = reason_option("Whoever waits is shown it.", FOR_HOLD)(function)
    return _target(function)


def _named(scope: str, name: str | None) -> str:
    if scope == "farm":
        if name:
            raise CliError(f"`farm` has no name: leave {name!r} out", code=ExitCode.REFUSED)
        return ""
    if not name:
        raise CliError(f"which {scope}? Name it", "`farm devices` lists them", ExitCode.REFUSED)
    return name


@click.command("pause")
@_options
def pause(scope: str, name: str | None, reason: str, for_s: float | None, as_json: bool) -> int:
    """No new work on a device, host, pool or the whole farm. What runs goes on; see `farm drain` to wait for that."""
    held = _place(connect(), scope, _named(scope, name), reason, for_s)
    if as_json:
        print_json(held)
        return 0
    note(f"{_words(held)}.")
    busy = f"; still at work: {_busy(held)}" if held["busy"] else ""
    note(f"Nothing new starts on {count(held['devices'], 'device')}{busy}.")
    return 0


@click.command("drain")
@_options
@click.option(
    "--wait",
    "limit",
    callback=span,
    metavar="SPAN",
    default="4h",
    show_default=True,
    help="Wait at most so long until nothing runs there; 0s: do not wait.",
)
def drain(scope: str, name: str | None, reason: str, for_s: float | None, as_json: bool, limit: float) -> int:
    """As `farm pause`, and wait until nothing runs there any more: exit code 0 then, 4 when that takes longer.

    The pause stays when the wait is over or is broken off; `farm resume` lifts it.
    """
    client, ref = connect(), _named(scope, name)
    held = _place(client, scope, ref, reason, for_s)
    until, said = time.monotonic() + limit, ""
    while held["busy"] and time.monotonic() < until:
        words = f"{_words(held)}. Waits for {_busy(held)}"
        if words != said:
            note(words)
            said = words
        time.sleep(min(_POLL_S, max(0.0, until - time.monotonic())))
        held = _again(client, held)
    if as_json:
        print_json(held)
    elif not held["busy"]:
        note(f"{_words(held)}. Nothing runs there any more.")
    else:
        note(f"{_words(held)}. Still at work: {_busy(held)}.")
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
    if not lifted:
        note(f"{what} was not held.")
        return 0
    note(f"{lifted[0]['what']} is given work again: {', '.join(hold['reason'] for hold in lifted)}")
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
    until = entry["hold"]["until"]
    return [
        entry["words"],
        entry["devices"],
        ", ".join(entry["busy"]) or "—",
        moment(until) if until else "somebody resumes it",
    ]


def _words(held: dict[str, Any]) -> str:
    """`device d1 is paused by ada: new cable, until 14:05 (in 2 h)`."""
    until = held["hold"]["until"]
    return f"{held['words']}, until {moment(until)}" if until else str(held["words"])


def _busy(held: dict[str, Any]) -> str:
    more = len(held["busy"]) - _NAMED
    return ", ".join(held["busy"][:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _place(client: Client, scope: str, name: str, reason: str, for_s: float | None) -> dict[str, Any]:
    body = {"scope": scope, "name": name, "reason": reason, "for_s": for_s}
    held: dict[str, Any] = client.post("/api/holds", body)
    return held


def _again(client: Client, held: dict[str, Any]) -> dict[str, Any]:
    """The hold as it stands now. Raises CliError CANCELLED when it stands no more."""
    hold = held["hold"]
    for entry in client.get("/api/holds", {"scope": hold["scope"], "name": hold["ref"]})["holds"]:
        if entry["hold"]["id"] == hold["id"]:
            return dict(entry)
    over = "its time is over" if hold["until"] else "somebody has lifted it"
    raise CliError(f"{over}: {held['words']}", "`farm holds` lists what is held", ExitCode.CANCELLED)
