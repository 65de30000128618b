"""`farm login`: a one-time link for a browser, or a token for this command line, kept per server."""

from __future__ import annotations

import os
import sys
from urllib.parse import urlsplit

import click

from farm.cli.client import Client, connect, server_url
from farm.cli.credentials import load_credentials
from farm.cli.errors import CliError
from farm.cli.output import note
from farm.domain.outcomes import ExitCode

MAX_TOKEN = 200


@click.command("login")
@click.option("--url", metavar="URL", help="Log this command line in to the farm there, with a token.")
@click.option(
    "--token", "from_input", is_flag=True, help="Read the token from standard input instead of asking for it."
)
@click.option("--browser", is_flag=True, help="Print a link that logs a browser in (what it does without --url).")
@click.option("--forget", is_flag=True, help="Log out: forget the token of --url, or of the current farm.")
def command(url: str | None, from_input: bool, browser: bool, forget: bool) -> int:
    """Print a link that logs a browser in as you, once, within ten minutes.

    With --url: ask for a token (make one on the farm's page "My tokens") and keep it for that farm, in a file that you
    alone can read. Commands then talk to that farm where no other is named.
    """
    if forget:
        return _forget(url)
    if url or from_input:
        client = _log_in(url or os.environ.get("FARM_URL", ""), from_input)
        if not browser:
            return 0
    else:
        client = connect()
    click.echo(client.page(client.post("/api/login-links")["path"]))
    return 0


def _log_in(url: str, from_input: bool) -> Client:
    if not url:
        raise CliError("which farm?", "farm login --url https://farm.example.com", ExitCode.REFUSED)
    url = server_url(url, "--url")
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        note(f"Warning: {url} is not encrypted: whoever sees the traffic can read the token.")
    client = Client(url, _ask(url, from_input))
    me = client.get("/api/me")  # a token that does not work is not kept
    credentials = load_credentials()
    credentials.keep(url, client.token)
    note(f"Logged in to {url} as {me['name']} (team {me['team']}; {', '.join(me['scopes'])}).")
    note(f"The token is kept in {credentials.path}.")
    return client


def _ask(url: str, from_input: bool) -> str:
    """A token never stands in the arguments: other users of the machine can read those."""
    if from_input or not sys.stdin.isatty():
        token = sys.stdin.readline(MAX_TOKEN + 2).strip()
    else:
        token = str(click.prompt(f"Token for {url}", hide_input=True, err=True)).strip()
    if not token or len(token) > MAX_TOKEN or not token.isascii() or not token.isprintable():
        raise CliError(
            "that is no token", "make one on the farm's page `My tokens`, or ask its admin", ExitCode.REFUSED
        )
    return token


def _forget(url: str | None) -> int:
    credentials = load_credentials()
    wanted = server_url(url, "--url") if url else credentials.current
    if wanted is None or not credentials.forget(wanted):
        raise CliError("no token is kept for that farm" if url else "no token is kept", "", ExitCode.REFUSED)
    note(f"The token for {wanted} is forgotten here; `farm tokens revoke` ends one at the farm.")
    return 0
