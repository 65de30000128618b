"""Measurements as tables: distributions apart from single figures, marked values never taken for clean ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from dashboard.device import event_words, fact_groups
from dashboard.incidents import groups as groups_of_incidents
from dashboard.measured import facts, groups, stage_table
from farm.domain.measurements import spread
from farm.store.reads.devices import EventRow
from farm.store.reads.results import MeasurementRow, StageRow
from farm.store.reads.shared import DeviceRef, IncidentRow

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
FIRST = DeviceRef(1, "s1", "zeta", True, "Pixel 8 Pro", "phone")
SECOND = DeviceRef(2, "s2", "alpha", True, "RK3568 EVB", "board")


def _row(
    name: str,
    values: Sequence[float],
    device: DeviceRef = FIRST,
    marks: Sequence[str | None] | None = None,
    **labels: str,
) -> MeasurementRow:
    marks = marks or [None] * len(values)
    clean = [v for v, mark in zip(values, marks, strict=True) if mark is None]
    return MeasurementRow(
        id=random.randrange(10**9),
        attempt_id=1,
        device=device,
        test_id="latency/test_latency.py::test_x",
        name=name,
        unit="ms",
        better="lower",
        values=tuple(values),
        marks=tuple(marks),
        n=len(clean),
        median=sorted(clean)[len(clean) // 2] if clean else None,
        spread=spread(clean),
        temperature_band="unknown",
        labels=labels,
        at=NOW,
    )


def test_what_was_measured_often_is_a_distribution_and_what_was_read_once_a_figure() -> None:
    rows = [_row("ttft", [1, 2, 3]), _row("page_size", [4096])]
    assert [group.name for group in groups(rows)] == ["ttft"]
    table = facts(rows)
    assert table is not None
    assert table.rows == (("page_size", "", ("4\u202f096\u202fms",)),)
    assert facts(rows[:1]) is None


def test_devices_stand_in_the_order_of_the_run_not_of_the_alphabet() -> None:
    rows = [_row("ttft", [1, 2], SECOND), _row("ttft", [3, 4], FIRST), _row("size", [1], SECOND), _row("size", [1])]
    (group,) = groups(rows, [FIRST.id, SECOND.id])
    assert [view.row.device.name for view in group.rows] == ["zeta", "alpha"]
    table = facts(rows, [FIRST.id, SECOND.id])
    assert table is not None
    assert [device.name for device in table.devices] == ["zeta", "alpha"]


def test_a_median_of_marked_values_is_shown_as_unsure() -> None:
    (group,) = groups([_row("ttft", [10, 20, 30], marks=["disturbed", "disturbed", "warmup"])])
    (view,) = group.rows
    assert (view.sure, view.median, view.marks) == (False, "20.0\u202fms", "2 disturbed, 1 warm-up")
    assert view.dots is not None
    assert view.dots.interval is None
    assert all(dot.mark for dot in view.dots.dots)


def test_labels_that_tell_rows_apart_are_shown_and_common_ones_are_not() -> None:
    rows = [
        _row("bandwidth", [1, 2], operation="copy", unit_of="host"),
        _row("bandwidth", [3, 4], operation="triad", unit_of="host"),
        _row("bandwidth", [1, 2], SECOND, operation="copy", unit_of="host"),
    ]
    (group,) = groups(rows, [FIRST.id, SECOND.id])
    assert [(view.variant, view.row.device.name) for view in group.rows] == [
        ("copy", "zeta"),
        ("copy", "alpha"),
        ("triad", "zeta"),
    ]


def test_a_figure_that_one_device_lacks_is_not_a_zero() -> None:
    table = facts([_row("zone", [31.5], zone="skin"), _row("zone", [40.0], SECOND, zone="soc")])
    assert table is not None
    assert table.rows == (("zone", "skin", ("31.5\u202fms", None)), ("zone", "soc", (None, "40.0\u202fms")))


def test_stages_are_compared_on_one_scale() -> None:
    table = stage_table([StageRow(FIRST, "prefill", 3, 0.5, 1.5), StageRow(SECOND, "prefill", 3, 1.0, 3.0)])
    assert table is not None
    (name, cells) = table.rows[0]
    assert name == "prefill"
    assert [cell.share for cell in cells if cell] == [50.0, 100.0]
    assert stage_table([]) is None


def test_large_families_of_facts_are_folded() -> None:
    found = fact_groups({"cores": 8, "cpu": {"a": 1}, "properties": {f"ro.{i}": i for i in range(20)}})
    assert [(title, len(rows)) for title, rows in found] == [("", 2), ("properties", 20)]


def test_every_line_of_a_history_is_told_even_of_a_kind_that_is_new() -> None:
    def told(kind: str, **detail: object) -> str:
        return event_words(EventRow(NOW, kind, dict(detail)))

    assert told("connection", connection="gone", address="a:1") == "adb lists it no more"
    assert told("connection", connection="device", address="a:1") == "adb says device at a:1"
    assert told("health", health="bad", reason="deaf", by="agent") == "bad: deaf, by agent"
    assert told("freed", holder="attempt:7", reason="cleaned") == "attempt 7: cleaned"
    assert told("clock", skew_s=7.25) == "7.25\u202fs off the host's"
    assert told("rebooted", boot_id=None) == "boot unknown"
    assert told("moved", shelf=3) == "shelf: 3"


def test_incidents_that_are_alike_are_told_once_with_all_their_evidence() -> None:
    def incident(number: int, test: str, summary: str = "crashed in decode", attempt: int = 1) -> IncidentRow:
        return IncidentRow(number, attempt, FIRST, test, NOW, "engine-crashed", summary, f"stack {number}", None)

    rows = [incident(1, "a"), incident(2, "b"), incident(3, "c", "hung"), incident(4, "a", attempt=2)]
    found = groups_of_incidents(rows)
    assert [[row.id for row in group.all] for group in found] == [[1, 2], [3], [4]]
    assert found[0].first.id == 1
    assert not found[0].differ


def test_incidents_of_one_signature_are_one_group_with_the_words_of_each() -> None:
    rows = [
        IncidentRow(n, 1, FIRST, "a", NOW + timedelta(seconds=n), "sandbox-refused", f"port {n}", None, None, 2, "key")
        for n in (3, 1, 2)
    ]
    [group] = groups_of_incidents(rows)
    assert [row.id for row in group.all] == [1, 2, 3], "in the order of time"
    assert (group.count, group.differ, group.first.id, group.last.id) == (6, True, 1, 3)
