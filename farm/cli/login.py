"""`farm login`: a one-time link for a browser."""

from __future__ import annotations

import click

from farm.cli.client import connect


@click.command("login")
def command() -> int:
    """Print a link that logs a browser in as you, once, within ten minutes."""
    client = connect()
    click.echo(client.page(client.post("/api/login-links")["path"]))
    return 0
