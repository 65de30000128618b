"""What `farm bundle` and `farm suite` share: a folder that was sent, and the list of what the farm has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from farm.cli.client import connect
from farm.cli.output import ago, note, print_json, table
from farm.domain.words import size

Row = dict[str, Any]


def print_sent(made: Row, as_json: bool) -> int:
    """The hash of what was sent on standard output, the rest beside it."""
    if as_json:
        print_json(made)
    else:
        click.echo(made["hash"])
        note(f"{made['name']}, {size(made['bytes'])}, {'new' if made['new'] else 'was there already'}")
    return 0


def print_list(
    kind: str, empty: str, columns: Sequence[str], cells: Callable[[Row], Iterable[str]], as_json: bool
) -> int:
    """What the farm has of `kind` (bundles, packs), newest first: hash and name, `columns`, size and age."""
    found = connect().get(f"/api/{kind}")
    if as_json:
        print_json(found)
    elif not found[kind]:
        note(empty)
    else:
        rows = (
            [row["hash"][:12], row["name"], *cells(row), size(row["bytes"]), ago(row["created_at"])]
            for row in found[kind]
        )
        table(("HASH", "NAME", *columns, "SIZE", "SENT"), rows, right=("SIZE",))
    return 0
