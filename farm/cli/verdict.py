"""`farm verdict FILE`: judge runs of two builds that somebody measured; no farm is asked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from farm.cli.errors import CliError
from farm.cli.output import cell, console, print_json, table
from farm.domain.outcomes import ExitCode

if TYPE_CHECKING:
    from farm.domain.verdicts import Judgement, SeriesVerdict

MOST_BYTES = 200_000_000
SHAPES = {
    "regressed": ("✕", "red"),
    "improved": ("▲", "green"),
    "unchanged": ("●", "green"),
    "inconclusive": ("○", "yellow"),
    "broken": ("◇", "magenta"),
}
_EFFECTS = (0.01, 0.02, 0.03, 0.05, 0.10)


@click.command("verdict")
@click.argument("file", type=click.Path(allow_dash=True, path_type=Path))
@click.option(
    "--plan", is_flag=True, help="Instead: how many pairs each series needs to find an effect, from its noise."
)
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def command(file: Path, plan: bool, as_json: bool) -> int:
    """Did the candidate (B) get worse than the base (A)? Exit code 1 when it did, 2 when a series is broken.

    \b
    FILE (or - for standard input):
    {"series": [{"id": "decode", "unit": "tok/s", "better": "higher", "device": "pixel-8",
                 "runs": [["A", 41.2], ["B", 40.9], ["B", 41.1], ["A", 41.3], ...]}]}

    Runs stand in the order of time; neighbours of different builds make a pair. Judge again whenever ten more pairs
    are there, up to 80: the error is kept over all looks.
    """
    from farm.domain.verdicts import PrVerdict, judge
    from farm.domain.verdicts.document import DocumentError, read, write

    try:
        series = read(_load(file))
    except DocumentError as error:
        raise CliError(f"{file}: {error}", "`farm verdict --help` shows the form", ExitCode.REFUSED) from None
    if plan:
        return _plan(series, as_json)
    judged = judge(series)
    if as_json:
        print_json(write(judged))
    else:
        _print(judged)
    return int({PrVerdict.REGRESSED: ExitCode.FAILED, PrVerdict.BROKEN: ExitCode.FARM_TROUBLE}.get(judged.pr, 0))


def _load(file: Path) -> object:
    try:
        with sys.stdin.buffer if str(file) == "-" else file.open("rb") as source:
            raw = source.read(MOST_BYTES + 1)
    except OSError as error:
        raise CliError(f"{file}: {error.strerror}", code=ExitCode.REFUSED) from None
    if len(raw) > MOST_BYTES:
        raise CliError(f"{file}: larger than {MOST_BYTES // 1_000_000} MB", code=ExitCode.REFUSED)
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise CliError(f"{file}: no JSON: {error}", code=ExitCode.REFUSED) from None


def _print(judged: Judgement) -> None:
    if not judged.series:
        console().print("no series: nothing to judge")
        return
    table(
        ("SERIES", "VERDICT", "EFFECT", "90 % INTERVAL", "Q", "PAIRS", "NEEDS", ""),
        (_row(one) for one in judged.series),
        right=("EFFECT", "90 % INTERVAL", "Q", "PAIRS", "NEEDS"),
    )
    console().print(f"\n{judged.pr.value}")


def _row(one: SeriesVerdict) -> list[object]:
    shape, style = SHAPES[one.verdict.value]
    interval = f"{percent(one.ci[0])} … {percent(one.ci[1])}" if one.ci else "—"
    needs = "—" if one.needs is None else one.needs or ""
    q = "—" if one.q is None else f"{one.q:.2g}"
    return [
        one.id, cell(f"{shape} {one.verdict.value}", style), percent(one.effect), interval, q, one.pairs, needs,
        one.reason,
    ]  # fmt: skip


def percent(fraction: float | None) -> str:
    """`+4.9 %`; an em dash for what is not known."""
    return "—" if fraction is None else f"{fraction * 100:+.1f} %"


def _plan(series: Any, as_json: bool) -> int:
    from farm.domain.verdicts import FDR
    from farm.domain.verdicts.planning import pairs_needed, scatter_of

    rows = []
    for one in series:
        scatter = scatter_of(one)
        needs = {
            str(effect): None if scatter is None else pairs_needed(scatter, effect, alpha=FDR / max(1, len(series)))
            for effect in _EFFECTS
        }
        rows.append({"id": one.id, "metric": one.metric, "device": one.device, "scatter": scatter, "pairs": needs})
    if as_json:
        print_json({"power": 0.95, "fdr": FDR, "series": rows})
        return 0
    table(
        ("SERIES", "PAIR SCATTER", *(f"+{effect:.0%}" for effect in _EFFECTS)),
        (
            [row["id"], "not measured" if row["scatter"] is None else f"{row['scatter']:.1%}"]
            + ["> 80" if pairs is None else pairs for pairs in row["pairs"].values()]
            for row in rows
        ),
        right=("PAIR SCATTER", *(f"+{effect:.0%}" for effect in _EFFECTS)),
    )
    console().print("\npairs to find such an effect with 95 % certainty, all series judged together")
    return 0
