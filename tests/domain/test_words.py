"""Counts, times and spans of time in words: the same for commands, pages and messages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from farm.domain.spans import seconds
from farm.domain.words import clock, count, size

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def test_one_is_not_many() -> None:
    assert [count(n, "run") for n in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]
    assert [count(n, "try", "tries") for n in (1, 2)] == ["1 try", "2 tries"]


def test_bytes_are_told_with_the_unit_that_fits() -> None:
    told = ["0 B", "43 B", "1.5 kB", "20.0 MB", "3.2 GB"]
    assert [size(n) for n in (0, 43, 1500, 20_000_000, 3_200_000_000)] == told


def test_a_time_of_another_day_is_told_with_its_day() -> None:
    assert clock(NOON + timedelta(hours=2, minutes=5), NOON) == "14:05 UTC"
    assert clock(NOON + timedelta(days=3), NOON) == "Dec 2, 12:00 UTC"
    assert clock(NOON.astimezone(timezone(timedelta(hours=9))), NOON) == "12:00 UTC"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90s", 90), ("10m", 600), ("1h30m", 5400), ("1h 30m", 5400), ("2d", 172800), (" 0.5H ", 1800)],
)
def test_spans_are_read(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "10", "10 minutes", "-5m", "m", "9" * 50 + "s", "1" * 100_000])
def test_what_is_no_span_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match="write it as") as refused:
        seconds(text)
    assert len(str(refused.value)) < 200
