"""The end of a run at a desk: what was measured, read back from the journal."""

from __future__ import annotations

from pathlib import Path
from statistics import median, quantiles
from typing import Any

from farm.domain.journal import Kind, Record
from runner.journal import read


def write(terminal: Any, journal: Path) -> None:
    """Print measurements and incidents through pytest's terminal reporter."""
    records = list(read(journal))
    rows = [row(record) for record in records if record.kind == Kind.MEASUREMENT]
    if rows:
        terminal.write_sep("=", "measurements")
        for line in table(("test", "device", "figure", "median", "spread", "n", ""), rows):
            terminal.write_line(line)
    for record in records:
        if record.kind == Kind.INCIDENT:
            terminal.write_line(f"incident: {record.fields.get('class')}: {record.fields.get('summary')}")
    terminal.write_line(f"journal: {journal}")
    if any(record.kind == Kind.ARTIFACT for record in records):
        terminal.write_line(f"artifacts: {artifacts_of(journal)}")


def artifacts_of(journal: Path) -> Path:
    """The folder of what a run at a desk kept, beside its journal."""
    return journal.with_name(journal.stem + "-artifacts")


def row(record: Record) -> tuple[str, ...]:
    """One measurement: median and half the interquartile range of the values that are not marked."""
    fields = record.fields
    values = [float(v) for v in fields["values"]]
    marks = fields.get("marks") or [None] * len(values)
    clean = [v for v, mark in zip(values, marks, strict=True) if mark is None]
    said = sorted({str(mark) for mark in marks if mark})
    note = f"{len(values) - len(clean)} of {len(values)} {', '.join(said)}" if said else ""
    shown = clean or values
    middle = f"{digits(median(shown))} {fields['unit']}" if clean else f"({digits(median(shown))} {fields['unit']})"
    return (
        str(fields["test"]).split("::", 1)[-1],
        str(fields.get("device", "")),
        name(fields),
        middle,
        spread(shown),
        str(len(clean)),
        note,
    )


def name(fields: dict[str, Any]) -> str:
    labels = ", ".join(f"{key}={value}" for key, value in (fields.get("labels") or {}).items())
    return f"{fields['name']} ({labels})" if labels else str(fields["name"])


def spread(values: list[float]) -> str:
    """± half the interquartile range, in % of the median; nothing for a single value."""
    if len(values) < 3:
        return "" if len(values) < 2 else f"{digits(min(values))} – {digits(max(values))}"
    low, _, high = quantiles(values, n=4, method="inclusive")
    middle = median(values)
    return f"± {(high - low) / 2 / abs(middle) * 100:.1f} %" if middle else f"± {digits((high - low) / 2)}"


def digits(value: float) -> str:
    """Four significant digits, without an exponent where it can be read without."""
    return f"{value:.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Aligned columns."""
    widths = [max(len(line[n]) for line in [head, *rows]) for n in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in [head, *rows]
    ]
