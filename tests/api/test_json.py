"""Dataclasses as JSON: times in UTC, no NaN, computed facts beside the stored ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.api.attempts import disposition
from farm.api.json import encode


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Thing:
    at: datetime
    values: tuple[float, ...]
    colours: frozenset[Colour]
    other: object = None

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def _hidden(self) -> int:
        raise AssertionError("private")


def test_a_dataclass_becomes_plain_values_with_its_properties() -> None:
    east = timezone(timedelta(hours=2))
    thing = Thing(datetime(2026, 1, 2, 3, 4, tzinfo=east), (1.5, float("nan")), frozenset({Colour.RED}))
    assert encode(thing) == {
        "at": "2026-01-02T01:04:00Z",
        "values": [1.5, None],
        "colours": ["red"],
        "other": None,
        "count": 2,
    }


def test_an_unknown_type_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="object"):
        encode(Thing(datetime(2026, 1, 1, tzinfo=UTC), (), frozenset(), object()))


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
def test_whatever_is_encoded_is_strict_json(value: object) -> None:
    json.dumps(encode(value), allow_nan=False)


@given(st.text())
def test_a_stranger_cannot_break_out_of_a_file_name(name: str) -> None:
    header = disposition(name)
    assert header.isascii()
    assert header.isprintable()
    assert header.count('"') == 2
    assert header.count(";") == 2
