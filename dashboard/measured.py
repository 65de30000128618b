"""Measurements and engine stages as tables: the distribution beside every figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from dashboard import drawing, words
from farm.domain.measurements import Better, Mark
from farm.store.reads.results import MeasurementRow, StageRow
from farm.store.reads.shared import DeviceRef

_DIRECTION = {
    Better.LOWER.value: "lower is better",
    Better.HIGHER.value: "higher is better",
}
_MARKS = {
    Mark.WARMUP.value: "warm-up",
    Mark.THROTTLED.value: "throttled",
    Mark.DISTURBED.value: "disturbed",  # by others on the host
    Mark.IMPLAUSIBLE.value: "implausible",
}


@dataclass(frozen=True, slots=True)
class MeasuredView:
    """One measurement with its drawing; `raw` are the values in the order in which they were taken.

    `sure` is False when every value is marked: then the median is of the marked ones, and is shown as such.
    """

    row: MeasurementRow
    variant: str
    median: str
    sure: bool
    spread: str
    dots: drawing.Dots | None
    marks: str
    raw: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class Group:
    """One metric over the devices, on one axis: as far as `reach_words` to both sides of each row's own median."""

    name: str
    unit: str
    direction: str
    reach_words: str
    rows: tuple[MeasuredView, ...]


def groups(measurements: Sequence[MeasurementRow], order: Sequence[int] = ()) -> list[Group]:
    """Metrics that were measured more than once, by name; devices in the `order` of their ids."""
    places = {device_id: place for place, device_id in enumerate(order)}
    found: dict[tuple[str, str, str], list[MeasurementRow]] = {}
    for row in sorted(measurements, key=lambda row: places.get(row.device.id, len(places))):
        if len(row.values) > 1:
            found.setdefault((row.name, row.unit, row.better), []).append(row)
    return [_group(*key, rows) for key, rows in sorted(found.items(), key=lambda item: item[0])]


def _group(name: str, unit: str, better: str, rows: Sequence[MeasurementRow]) -> Group:
    reach = drawing.reach_of([(row.values, _middle(row)) for row in rows])
    reach_words = f"{100 * reach:g}{words.THIN}%"
    variants = _variants(rows)
    ordered = sorted(zip(variants, range(len(rows)), rows, strict=True))  # devices keep their order in each variant
    views = tuple(_view(row, variant, reach) for variant, _, row in ordered)
    return Group(name, unit, _DIRECTION.get(better, ""), reach_words, views)


def _middle(row: MeasurementRow) -> float | None:
    """The median that the drawing is centred on: of the unmarked values, or of all when every one is marked."""
    return row.median if row.n else (median(row.values) if row.values else None)


def _variants(rows: Sequence[MeasurementRow]) -> list[str]:
    """What tells rows of one metric and device apart: those labels that are not the same in all rows."""
    seen: dict[str, set[str | None]] = {}
    for row in rows:
        for key in row.labels:
            seen.setdefault(key, {other.labels.get(key) for other in rows})
    telling = [key for key, values in seen.items() if len(values) > 1]
    return [" ".join(row.labels[key] for key in telling if key in row.labels) for row in rows]


def _view(row: MeasurementRow, variant: str, reach: float) -> MeasuredView:
    counted = Counter(mark for mark in row.marks if mark)
    marks = ", ".join(f"{number} {_MARKS.get(mark, mark)}" for mark, number in counted.most_common())
    middle = _middle(row)
    return MeasuredView(
        row=row,
        variant=variant,
        median=words.quantity(middle, row.unit),
        sure=row.n > 0,
        spread=words.percent(row.spread) if row.spread is not None else "",
        dots=drawing.dots(row.values, row.marks, middle, reach),
        marks=marks,
        raw=tuple(
            (words.figure(v), _MARKS.get(m, m) if m else None) for v, m in zip(row.values, row.marks, strict=False)
        ),
    )


@dataclass(frozen=True, slots=True)
class FactTable:
    """What was read once per device: (metric, variant, a text per device; None: not there)."""

    devices: tuple[DeviceRef, ...]
    rows: tuple[tuple[str, str, tuple[str | None, ...]], ...]


def facts(measurements: Sequence[MeasurementRow], order: Sequence[int] = ()) -> FactTable | None:
    """Single values × devices, by name; None when there is none."""
    places = {device_id: place for place, device_id in enumerate(order)}
    once = sorted((r for r in measurements if len(r.values) == 1), key=lambda r: places.get(r.device.id, len(places)))
    if not once:
        return None
    devices = {row.device.id: row.device for row in once}
    by_name: dict[str, list[MeasurementRow]] = {}
    for row in once:
        by_name.setdefault(row.name, []).append(row)
    cells: dict[tuple[str, str], dict[int, str]] = {}
    for name, rows in by_name.items():
        for row, variant in zip(rows, _variants(rows), strict=True):
            mark = next((m for m in row.marks if m), None)
            text = words.quantity(row.values[0], row.unit) + (f" ({_MARKS.get(mark, mark)})" if mark else "")
            cells.setdefault((name, variant), {})[row.device.id] = text
    lines = tuple((*key, tuple(found.get(device) for device in devices)) for key, found in sorted(cells.items()))
    return FactTable(tuple(devices.values()), lines)


@dataclass(frozen=True, slots=True)
class StageCell:
    """Median seconds of a stage on one device and its share (0..100) of the longest one on the page."""

    text: str
    share: float
    count: int


@dataclass(frozen=True, slots=True)
class StageTable:
    devices: tuple[DeviceRef, ...]
    rows: tuple[tuple[str, tuple[StageCell | None, ...]], ...]


def stage_table(stages: Sequence[StageRow]) -> StageTable | None:
    """Stages × devices; None when the engine reported none."""
    if not stages:
        return None
    devices = {row.device.id: row.device for row in stages}
    longest = max(row.median_s for row in stages) or 1.0
    cells = {
        (row.name, row.device.id): StageCell(words.duration(row.median_s), 100 * row.median_s / longest, row.count)
        for row in stages
    }
    names = list(dict.fromkeys(row.name for row in stages))
    return StageTable(
        tuple(devices.values()), tuple((name, tuple(cells.get((name, d)) for d in devices)) for name in names)
    )
