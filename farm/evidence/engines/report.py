"""What every engine parser gives back, and the bounds that all of them keep.

Engine output is hostile until proven otherwise: it is cut off, interleaved, repeated, and may be huge. A parser keeps a
bounded part of it and never raises for what it reads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

#: Longest line that is looked at, characters; the rest of a longer one is left out.
MAX_LINE = 256 * 1024
#: Readings, values and notes kept per run of an engine.
MAX_READINGS = 5_000
MAX_VALUES = 10_000
MAX_NOTES = 100


class Status(StrEnum):
    """How a run of an engine looks from its output alone."""

    OK = "ok"
    INCOMPLETE = "incomplete"  # it began to report and did not come to its end
    FAILED = "failed"  # it says so itself
    TIMEOUT = "timeout"  # it was still working when the output ended
    NO_METRICS = "no_metrics"
    UNSUPPORTED = "unsupported"  # it says that the device or model cannot do it
    INVALID = "invalid"  # its own checks say that the run does not count; or it is no output of this kind of engine


@dataclass(frozen=True, slots=True)
class Reading:
    """One figure: its values in the order in which they were taken. `better`: lower, higher or neither."""

    name: str
    unit: str
    better: str
    values: tuple[float, ...]
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """All that one run printed, as facts.

    `readings` is what was measured and can be compared; `details` are the figures printed beside it: counts, settings,
    sizes, spreads, and whatever is marked as implausible (label `plausible`: false).
    """

    status: Status
    readings: tuple[Reading, ...] = ()
    notes: tuple[str, ...] = ()
    details: tuple[Reading, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """One entry per value, in the form of `farm evidence engine:…`."""
        measurements = [
            {"name": r.name, "value": value, "unit": r.unit, "labels": dict(r.labels)}
            for r in (*self.readings, *self.details)
            for value in r.values
        ]
        return {"status": self.status.value, "measurements": measurements, "notes": list(self.notes)}


def measured(value: object) -> float | None:
    """`value` as a figure; None for what is none: zero, negative, infinite, NaN, text, true and false."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number > 0 else None


def json_object(line: str) -> dict[str, Any] | None:
    """The JSON object that `line` is; None for anything else, deeply nested or torn text included."""
    text = line.strip()
    if not text.startswith("{") or len(text) > MAX_LINE:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
