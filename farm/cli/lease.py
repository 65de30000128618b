"""`farm lease`: who holds what; made longer, given back, taken away."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from farm.cli.client import connect
from farm.cli.output import duration, moment, note, parse_time, print_json, table
from farm.cli.reason import FOR_LEASE, reason_option
from farm.cli.spans import span

LEASE = click.argument("lease", type=click.IntRange(1))


@click.group("lease")
def command() -> None:
    """Leases: who holds a device, until when."""


@command.command("list")
@click.option("--mine", is_flag=True, help="Only your own.")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def list_leases(mine: bool, as_json: bool) -> int:
    """Devices that are held or being cleaned, and what waits for one."""
    found = connect().get("/api/leases", {"mine": str(mine).lower()})  # all in one question: each costs its time
    held: list[dict[str, Any]] = found["leases"]
    waiting = found["waiting"]
    if as_json:
        print_json({"leases": held, "waiting": waiting, "taken": found["taken"]})
        return 0
    for one in found["taken"]:
        note(f"! your lease {one['id']} of {one['device']['name']} was {one['end_reason']}")
    if not held and not waiting:
        note("Nobody holds a device. `farm acquire SELECTOR --for 1h` leases one.")
        return 0
    if held:
        table(("LEASE", "DEVICE", "HOLDER", "USER", "TEAM", "ENDS IN", "IS"), map(_row, held), right=("LEASE",))
    for one in waiting:
        note(f"reservation {one['id']} of {one['created_by']} waits: {one['wait_reason'] or 'for the planner'}")
    return 0


@command.command("extend")
@LEASE
@click.option("--by", "by_s", callback=span, required=True, help="How much longer, e.g. 30m.")
def extend(lease: int, by_s: float) -> int:
    """Make a lease longer."""
    made = connect().post(f"/api/leases/{lease}/extend", {"by_s": by_s})
    print(f"lease {lease} of {made['device']['name']} ends at {moment(made['ends_at'])}")
    return 0


@command.command("release")
@LEASE
def release(lease: int) -> int:
    """Give a device back: it is cleaned, then free."""
    done = connect().post(f"/api/leases/{lease}/release")
    why = f" ({done['end_reason']})" if done.get("end_reason") else ""
    note(
        f"Lease {lease} is released; its device is being cleaned."
        if done["released"]
        else f"Lease {lease} was over{why}."
    )
    return 0


@command.command("withdraw")
@click.argument("reservation", type=click.IntRange(1))
def withdraw(reservation: int) -> int:
    """Take a wish for a device back, by the number of its reservation; a device that it has by now is given back."""
    done = connect().send("DELETE", f"/api/reservations/{reservation}")
    note(f"reservation {reservation} is withdrawn" if done["ended"] else f"reservation {reservation} was over")
    return 0


@command.command("preempt")
@LEASE
@reason_option("Its holder is shown this.", FOR_LEASE)
def preempt(lease: int, reason: str) -> int:
    """Take a device away from its holder (operators). A job that loses it so keeps its place in the queue."""
    done = connect().post(f"/api/leases/{lease}/preempt", {"reason": reason})
    note(f"Lease {lease} was taken from {done['user'] or done['holder'].replace(':', ' ')}.")
    return 0


def _holder(lease: dict[str, Any]) -> str:
    """`run 12`, `reservation 4`."""
    return f"run {lease['run_id']}" if lease["run_id"] is not None else str(lease["holder"]).replace(":", " ")


def _row(lease: dict[str, Any]) -> list[object]:
    left = (parse_time(lease["ends_at"]) - datetime.now(UTC)).total_seconds()
    state = "being cleaned" if lease["released_at"] else "ends soon" if lease["warned_at"] else "held"
    return [
        lease["id"], lease["device"]["name"], _holder(lease), lease["user"] or "—", lease["team"] or "—",
        duration(max(0.0, left)), state,
    ]  # fmt: skip
