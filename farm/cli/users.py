"""`farm users`: list, add, set."""

from __future__ import annotations

import click

from farm.cli.client import connect, segment
from farm.cli.output import ago, note, print_json, table

ROLES = ["viewer", "member", "operator", "admin"]
as_json_option = click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")


@click.group("users", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> int:
    """Users (admin): list, add, set. Without a word: list."""
    return show(False) if ctx.invoked_subcommand is None else 0


def show(as_json: bool) -> int:
    found = connect().get("/api/users")
    if as_json:
        print_json(found)
        return 0
    table(
        ("USER", "TEAM", "ROLE", "TOKENS", "SEEN", "FROM", "STATE"),
        (
            [
                user["name"], user["team"], user["role"], user["tokens"],
                ago(user["seen_at"]) if user["seen_at"] else "never", user["issuer"] or "here",
                "disabled" if user["disabled_at"] else "",
            ]
            for user in found["users"]
        ),
        right=("TOKENS",),
    )  # fmt: skip
    return 0


@command.command("list")
@as_json_option
def list_users(as_json: bool) -> int:
    """Everybody, the disabled ones last."""
    return show(as_json)


@command.command("add")
@click.argument("name")
@click.option("--team", default="default", show_default=True, help="Made when there is none.")
@click.option("--role", type=click.Choice(ROLES), default="member", show_default=True)
def add(name: str, team: str, role: str) -> int:
    """Make user NAME. Hand them a token: `farm tokens create NAME --user NAME`."""
    connect().post("/api/users", {"name": name, "team": team, "role": role})
    note(f"Made {name} ({role}, team {team}). A token for them: `farm tokens create first --user {name}`.")
    return 0


@command.command("set")
@click.argument("name")
@click.option("--team", help="Made when there is none.")
@click.option("--role", type=click.Choice(ROLES))
@click.option("--disable/--enable", "disabled", default=None, help="Disabling ends their sessions and tokens at once.")
def change(name: str, team: str | None, role: str | None, disabled: bool | None) -> int:
    """Change user NAME; it holds from their next request on."""
    wanted = {"team": team, "role": role, "disabled": disabled}
    given = {key: value for key, value in wanted.items() if value is not None}
    if not given:
        raise click.UsageError("What is to change? --team, --role, --disable or --enable.")
    changed = connect().send("PATCH", f"/api/users/{segment(name)}", given)["changed"]
    if "disabled" in changed:
        changed["state"] = "disabled" if changed.pop("disabled") else "enabled"
    words = ", ".join(f"{key} {value}" for key, value in changed.items())
    note(f"{name}: {words}" if changed else f"{name} is so already.")
    return 0
