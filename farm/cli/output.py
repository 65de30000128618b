"""How the command line shows things: JSON for programs, tables for people, relative times, marks of outcomes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from farm.cli.errors import Answer, plain
from farm.domain.outcomes import MEANING, Colour, Outcome

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

STYLES = {Colour.OK: "green", Colour.BAD: "red", Colour.FARM: "magenta", Colour.MUTED: "dim"}
_PIPE_WIDTH = 500
NOT_MEASURED = "not measured"


def print_json(value: Any) -> None:
    """The JSON document of a command, on standard output."""
    Answer.written = True
    print(json.dumps(value, indent=2, ensure_ascii=False))


def note(text: str) -> None:
    """A line for the person who watches; never on standard output."""
    print(plain(text), file=sys.stderr, flush=True)


def console(stderr: bool = False) -> Console:
    from rich.console import Console

    to = sys.stderr if stderr else sys.stdout
    # A pipe has no width: one row stays one line there, for grep and cut.
    return Console(stderr=stderr, highlight=False, soft_wrap=False, width=None if to.isatty() else _PIPE_WIDTH)


def cell(value: object, style: str = "") -> Text:
    """Text as it is: no markup, no control characters."""
    from rich.text import Text

    return Text(plain(str(value)).replace("\n", " "), style=style)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], right: Iterable[str] = ()) -> None:
    """A table on standard output; cells that are no Text are shown as they are."""
    from rich.table import Table
    from rich.text import Text

    to_right = set(right)
    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        shown.add_column(name, justify="right" if name in to_right else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(value if isinstance(value, Text) else cell(value) for value in row))
    console().print(shown)


def outcome_text(outcome: str | None, state: str = "") -> Text:
    """`● passed` in its colour; the state for what has not ended."""
    if outcome is None:
        return cell(f"… {state}" if state else "…", "cyan")
    try:
        meaning = MEANING[Outcome(outcome)]
    except ValueError:  # of a newer farm
        return cell(outcome)
    return cell(f"{meaning.shape} {outcome}", STYLES[meaning.colour])


def ago(iso: str | None, now: datetime | None = None) -> str:
    """`3 min ago`; an em dash for no time."""
    if not iso:
        return "—"
    seconds = ((now or datetime.now(UTC)) - parse_time(iso)).total_seconds()
    return f"{duration(max(0.0, seconds))} ago"


def moment(iso: str, now: datetime | None = None) -> str:
    """`14:05 (in 2 h)`, `Dec 2 14:05 (3 d ago)`: a time on this machine's clock, with its day unless that is today."""
    at, now = parse_time(iso).astimezone(), (now or datetime.now(UTC)).astimezone()
    day = "" if at.date() == now.date() else f"{at:%b} {at.day} "
    left = (at - now).total_seconds()
    return f"{day}{at:%H:%M} ({f'in {duration(left)}' if left >= 0 else f'{duration(-left)} ago'})"


def parse_time(iso: str) -> datetime:
    return datetime.fromisoformat(iso)


def duration(seconds: float | None) -> str:
    """`4.2 s`, `3 min`, `5 h`, `2 d`."""
    if seconds is None:
        return "—"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return "—"


def figure(value: float | None, unit: str = "") -> str:
    """A figure with three significant digits and its unit; never 0 for what was not measured."""
    if value is None:
        return NOT_MEASURED
    digits = f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return f"{digits} {unit}".rstrip()
