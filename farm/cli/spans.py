"""Options that take a span of time (`farm.domain.spans`)."""

from __future__ import annotations

import click

from farm.domain import spans


def span(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    """For `callback=` of an option: its text in seconds. Raises click.BadParameter."""
    if text is None:
        return None
    try:
        return spans.seconds(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
