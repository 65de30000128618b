"""`farm run`: queue a run, and wait for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from farm.cli.client import Client, HttpError, connect
from farm.cli.errors import CliError
from farm.cli.output import cell, console, note, print_json
from farm.cli.show import print_run
from farm.cli.summary import exit_code, exit_words, summary
from farm.domain.outcomes import ExitCode

DEFAULT_WAIT_S = 4 * 3600


@click.command("run")
@click.argument("bundle")
@click.option(
    "--suite", "suites", multiple=True, required=True, metavar="NAME", help="A suite of the pack; repeatable."
)
@click.option("--on", "selector", default="*", show_default=True, metavar="SELECTOR", help="Which devices.")
@click.option("--any", "any_device", is_flag=True, help="One job on whichever device is free first, not one on each.")
@click.option("--shards", type=click.IntRange(2, 100), metavar="N", help="Share the tests out over N jobs.")
@click.option("--pack", metavar="PACK", help="Suite pack: folder, hash or name.  [default: the built-in one]")
@click.option("--test", "tests", multiple=True, metavar="ID", help="Only this test; repeatable.")
@click.option("--env", "env", multiple=True, metavar="[DEVICE:]KEY=VALUE", help="Variable of the engine; repeatable.")
@click.option("--class", "klass", type=click.Choice(["debug", "pr", "manual", "nightly"]), default="manual")
@click.option("--confirm", is_flag=True, help="Run what fails again on a second device of the model.")
@click.option("--title", help="What the run is called.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait for the end and exit accordingly.")
@click.option("--timeout", type=click.FloatRange(0), default=DEFAULT_WAIT_S, metavar="SECONDS", help="Longest wait.")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def command(
    bundle: str,
    suites: tuple[str, ...],
    selector: str,
    any_device: bool,
    shards: int | None,
    pack: str | None,
    tests: tuple[str, ...],
    env: tuple[str, ...],
    klass: str,
    confirm: bool,
    title: str | None,
    wait: bool,
    timeout: float,
    as_json: bool,
) -> int:
    """Queue a run of BUNDLE (a folder with bundle.yaml, a hash, or a name) and wait for it.

    Exit codes: 0 passed, 1 failed, 2 the farm's own trouble, 3 refused, 4 the wait expired, 5 cancelled.
    """
    client = connect()
    request: dict[str, Any] = {
        "suites": list(suites),
        "selector": selector,
        "pack": resolve_pack(client, pack) if pack else None,
        "klass": klass,
        "title": title,
        "mode": "shard" if shards else "any" if any_device else "each",
        **({"shards": shards} if shards else {}),
        "confirm": confirm,
        "tests": list(tests) or None,
        "env": parse_env(env),
    }
    request["bundle"] = resolve_bundle(client, bundle, request)
    run_id = submit(client, request)
    note(f"Run {run_id}: {client.page(f'/runs/{run_id}')}")
    if not wait:
        if as_json:
            print_json({"id": run_id, "url": client.page(f"/runs/{run_id}")})
        return 0
    detail = follow(client, run_id, timeout)
    shown = summary(detail)
    if as_json:
        print_json({**shown, "url": client.page(f"/runs/{run_id}")})
    else:
        print_run(detail)
    if words := exit_words(shown):
        note(words)
    return exit_code(shown["outcome"])


def submit(client: Client, request: dict[str, Any]) -> int:
    """Queue the run; a refusal shows the nearest devices and what differs."""
    with _explained():
        return int(client.post("/api/runs", request)["id"])


def follow(client: Client, run_id: int, timeout_s: float) -> dict[str, Any]:
    """Wait for the run, showing it on standard error. Ctrl-C leaves it running and says so."""
    from farm.cli.watch import shown, wait_for_run

    try:
        with shown() as show:
            return wait_for_run(client, run_id, timeout_s, show)
    except KeyboardInterrupt:
        raise CliError(
            f"no longer waiting; run {run_id} goes on", f"`farm cancel {run_id}` ends it", ExitCode.CANCELLED
        ) from None


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except HttpError as refused:
        _explain(refused)
        raise


def _explain(refused: HttpError) -> None:
    detail = refused.error.get("detail")
    nearest = detail.get("nearest") if isinstance(detail, dict) else None
    if not isinstance(nearest, list) or not nearest or not sys.stderr.isatty():
        return
    for miss in nearest[:5]:
        words = miss.get("why") if isinstance(miss, dict) else miss
        console(stderr=True).print(cell(f"  nearest: {words}", "dim"))


def resolve_bundle(client: Client, bundle: str, request: dict[str, Any]) -> str:
    """A folder is sent first (what the farm lacks of it), unless `request`, the rest of the run, would be refused with
    it; anything else is a hash or a name already."""
    if not _is_folder(bundle):
        return bundle
    from farm.cli.upload import send_bundle

    def check(manifest: dict[str, Any]) -> None:
        with _explained():
            client.post("/api/runs/check", {**request, "bundle": manifest["name"], "abis": list(manifest["files"])})

    return str(send_bundle(client, Path(bundle), check)["hash"])


def resolve_pack(client: Client, pack: str) -> str:
    if not _is_folder(pack):
        return pack
    from farm.cli.upload import send_pack

    return str(send_pack(client, Path(pack))["hash"])


def _is_folder(text: str) -> bool:
    return ("/" in text or text in (".", "..")) or Path(text).is_dir()


def parse_env(entries: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """`KEY=VALUE` for every device, `DEVICE:KEY=VALUE` for one. Raises CliError."""
    env: dict[str, dict[str, str]] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        device, _, key = name.rpartition(":")
        if not equals or not key:
            raise CliError(f"--env {entry!r}: write KEY=VALUE or DEVICE:KEY=VALUE", code=ExitCode.REFUSED)
        env.setdefault(device or "*", {})[key] = value
    return env
