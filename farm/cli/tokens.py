"""`farm tokens`: list, create, revoke."""

from __future__ import annotations

import click

from farm.cli.client import connect
from farm.cli.output import ago, moment, note, print_json, table
from farm.cli.whoami import quota

SCOPES = ["read", "submit", "reserve", "operate", "admin"]


@click.group("tokens")
def command() -> None:
    """Tokens for programs: list, create, revoke."""


@command.command("list")
@click.option("--all", "everybody", is_flag=True, help="Everybody's (admin).")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def list_tokens(everybody: bool, as_json: bool) -> int:
    """Your tokens, newest first; secrets are not kept and cannot be shown."""
    found = connect().get("/api/tokens", {"all": "true" if everybody else None})
    if as_json:
        print_json(found)
        return 0
    if not found["tokens"]:
        note("No token yet. Make one: `farm tokens create NAME --scope read --scope submit`.")
        return 0
    table(
        ("ID", "NAME", "USER", "TEAM", "SCOPES", "QUOTA", "USED", "ENDS"),
        (
            [
                token["id"], token["name"], token["user"], token["team"], ", ".join(token["scopes"]), quota(token),
                ago(token["used_at"]) if token["used_at"] else "never",
                moment(token["expires_at"]) if token["expires_at"] else "when revoked",
            ]
            for token in found["tokens"]
        ),
        right=("ID",),
    )  # fmt: skip
    return 0


@command.command("create")
@click.argument("name")
@click.option(
    "--scope", "scopes", multiple=True, type=click.Choice(SCOPES), default=("read", "submit"), show_default=True
)
@click.option("--days", type=click.IntRange(1, 3650), help="How long it lasts; default: until revoked.")
@click.option("--max-devices", type=click.IntRange(1), help="Devices that it may hold at once.")
@click.option("--max-waiting", type=click.IntRange(1), help="Jobs of it that may wait at once.")
@click.option("--user", help="Whose it is (admin; made when there is none).")
@click.option("--team", help="Whom its work counts for; default: the user's team.")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def create(
    name: str,
    scopes: tuple[str, ...],
    days: int | None,
    max_devices: int | None,
    max_waiting: int | None,
    user: str | None,
    team: str | None,
    as_json: bool,
) -> int:
    """Make a token NAME and print it: it is shown this once. It never has more than what you came with."""
    made = connect().post(
        "/api/tokens",
        {
            "name": name,
            "scopes": list(scopes),
            "days": days,
            "max_devices": max_devices,
            "max_waiting": max_waiting,
            "user": user,
            "team": team,
        },
    )
    if as_json:
        print_json(made)
        return 0
    note(f"Token {made['id']}, shown this once:")
    click.echo(made["token"])
    return 0


@command.command("revoke")
@click.argument("ident", metavar="ID", type=click.IntRange(1))
def revoke(ident: int) -> int:
    """End token ID at once, and the browser sessions begun with it."""
    connect().send("DELETE", f"/api/tokens/{ident}")
    note(f"Token {ident} has ended.")
    return 0
