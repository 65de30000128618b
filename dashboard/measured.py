"""Measurements and engine stages as tables: the distribution beside every figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

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
    Mark.DISTURBED.value: "disturbed by others on the host",
    Mark.IMPLAUSIBLE.value: "implausible",
}


@dataclass(frozen=True, slots=True)
class MeasuredView:
    """One measurement with its drawing; `raw` are the values in the order in which they were taken."""

    row: MeasurementRow
    median: str
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
    """By metric; figures of merit first, facts (neither direction) after them; devices in the `order` of their ids."""
    places = {device_id: place for place, device_id in enumerate(order)}
    found: dict[tuple[bool, str, str, str], list[MeasurementRow]] = {}
    for row in sorted(measurements, key=lambda row: places.get(row.device.id, len(places))):
        found.setdefault((row.better == Better.NEITHER.value, row.name, row.unit, row.better), []).append(row)
    return [
        _group(name, unit, better, rows)
        for (_, name, unit, better), rows in sorted(found.items(), key=lambda item: item[0])
    ]


def _group(name: str, unit: str, better: str, rows: Sequence[MeasurementRow]) -> Group:
    reach = drawing.reach_of([(row.values, row.median) for row in rows])
    reach_words = f"{100 * reach:g}{words.THIN}%"
    return Group(name, unit, _DIRECTION.get(better, ""), reach_words, tuple(_view(row, reach) for row in rows))


def _view(row: MeasurementRow, reach: float) -> MeasuredView:
    counted = Counter(mark for mark in row.marks if mark)
    marks = ", ".join(f"{number} {_MARKS.get(mark, mark)}" for mark, number in counted.most_common())
    return MeasuredView(
        row=row,
        median=words.quantity(row.median, row.unit) if row.n else f"{words.NOT_MEASURED}: every value is marked",
        spread=words.percent(row.spread) if row.spread is not None else "",
        dots=drawing.dots(row.values, row.marks, row.median, reach) if len(row.values) > 1 else None,
        marks=marks,
        raw=tuple(
            (words.figure(v), _MARKS.get(m, m) if m else None) for v, m in zip(row.values, row.marks, strict=False)
        ),
    )


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
