"""Every figure of the samples is found, with its unit; nothing that is zero, infinite, cut off or no number is."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from farm.evidence.engines import parse

SAMPLES = Path(__file__).parents[2] / "data" / "samples" / "engine"
TEXTS = sorted(SAMPLES.glob("*/*.txt"))
#: unit → its kind of quantity, and what one of it is in the base of that kind.
UNITS = {
    "ns": ("time", 1e-9), "us": ("time", 1e-6), "ms": ("time", 1e-3), "s": ("time", 1.0),
    "B": ("size", 1.0), "kB": ("size", 1e3), "MB": ("size", 1e6), "GB": ("size", 1e9),
    "KiB": ("size", 1024.0), "MiB": ("size", 1024.0**2), "GiB": ("size", 1024.0**3),
    "tok/s": ("rate", 1.0), "1/s": ("rate", 1.0), "%": ("share", 1.0), "MB/s": ("speed", 1.0),
    "M": ("number", 1.0), "1": ("number", 1.0), "tokens": ("number", 1.0),
}  # fmt: skip
STATUS = {"skipped_unsupported": "unsupported"}
#: What the text does not print: it is said by the caller, or by the absence of something.
SAID_ELSEWHERE = {"rows_partial"}
FIGURE = re.compile(r"^([-+]?\d[\d.]*(?:[eE][-+]?\d+)?) ?(tok/s|1/s|MB/s|[a-zA-Z%]+)?(?: \(.*\))?$")


def wanted(expected: dict[str, Any]) -> dict[str, tuple[float, str]]:
    """The figures of a sample by their key; a number without a unit is any number."""
    found = {}
    for key, value in expected.items():
        if isinstance(value, bool) or key in SAID_ELSEWHERE:
            continue
        if isinstance(value, int | float):
            found[key] = (float(value), "")
        elif isinstance(value, str) and value.count(".") < 2 and (match := FIGURE.match(value)):
            found[key] = (float(match[1]), match[2] or "")
    return {key: figure for key, figure in found.items() if figure[0] > 0}


def same(measurement: dict[str, Any], figure: tuple[float, str]) -> bool:
    value, unit = figure
    if not unit:
        return math.isclose(measurement["value"], value, rel_tol=1e-9)
    (kind, scale), (own_kind, own_scale) = UNITS[unit], UNITS.get(measurement["unit"], ("?", 1.0))
    return kind == own_kind and math.isclose(measurement["value"] * own_scale, value * scale, rel_tol=1e-9)


def read(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8", newline="") as lines:
        return parse(path.parent.name, lines).to_json()


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_figure_of_a_sample_is_found_with_its_unit(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text())["expected"]
    report = read(path)
    missing = {
        key: figure
        for key, figure in wanted(expected).items()
        if not any(same(measurement, figure) for measurement in report["measurements"])
    }
    assert not missing, f"not among {[(m['name'], m['value'], m['unit']) for m in report['measurements']]}"
    if "run_status" in expected:
        assert report["status"] == STATUS.get(expected["run_status"], expected["run_status"])
    if "failure_class" in expected and report["status"] != "unsupported":
        assert any(note.startswith(f"failure: {expected['failure_class']}:") for note in report["notes"]), report[
            "notes"
        ]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_nothing_of_a_sample_is_zero_or_infinite_or_no_number(path: Path) -> None:
    for measurement in read(path)["measurements"]:
        assert set(measurement) == {"name", "value", "unit", "labels"}
        assert 0 < measurement["value"] < math.inf
        assert measurement["unit"] != ""


def test_there_are_samples_of_every_tool() -> None:
    assert len(TEXTS) > 60
