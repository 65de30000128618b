"""The option `--reason` of everything that people do to a device or to somebody's work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from farm.cli.errors import CliError
from farm.domain.outcomes import ExitCode

#: Fewest characters of a reason, as the API has it.
SHORTEST = 3
#: Most characters, by what the reason is for.
FOR_DEVICE, FOR_HOLD, FOR_LEASE = 500, 300, 150


def reason_option(help_text: str, longest: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--reason TEXT`, required. Raises CliError where the farm would refuse the text."""

    def check(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
        text = text.strip()
        if len(text) < SHORTEST:
            raise CliError(
                f"--reason is too short: give at least {SHORTEST} characters",
                "it is shown to others, for example: --reason 'new cable'",
                ExitCode.REFUSED,
            )
        if len(text) > longest:
            raise CliError(
                f"--reason is too long: it has {len(text)} characters, at most {longest} fit", code=ExitCode.REFUSED
            )
        return text

    return click.option("--reason", required=True, metavar="TEXT", callback=check, help=help_text)
