"""The JSON form of what is judged and of what comes out; every mistake in it is named with its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from farm.domain.verdicts.model import Judgement, Run, Series

MOST_SERIES = 10_000
MOST_RUNS = 10_000
_NOT_NUMBERS = {"nan", "inf", "-inf", "infinity", "-infinity"}


class DocumentError(ValueError):
    """What is wrong, and where in the document (`series[3].runs[7]`)."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")


def read(document: object) -> list[Series]:
    """`{"series": [{"id", "metric", "unit", "better", "device", "min_effect"?, "margin"?, "runs": [["A", 12.3], …]}]}`.

    A run may carry marks as a third item: `["B", 12.9, ["throttled"]]`. A series may say that a gate before statistics
    failed: `"broken": "stale binary"`. Raises DocumentError.
    """
    series = _mapping(document, "the document").get("series")
    if not isinstance(series, list):
        raise DocumentError("series", "a list of series is missing")
    if len(series) > MOST_SERIES:
        raise DocumentError("series", f"{len(series)} series are too many: at most {MOST_SERIES}")
    made = [_series(entry, f"series[{index}]") for index, entry in enumerate(series)]
    seen: dict[str, int] = {}
    for index, one in enumerate(made):
        if one.id in seen:
            raise DocumentError(f"series[{index}].id", f"{one.id!r} is the id of series[{seen[one.id]}] too")
        seen[one.id] = index
    return made


def write(judgement: Judgement) -> dict[str, Any]:
    """`{"pr", "series": [{"id", "verdict", "effect", "ci", "p", "q", "pairs", "needs", "reason"}]}`."""
    return {
        "pr": judgement.pr.value,
        "series": [
            {
                "id": one.id,
                "verdict": one.verdict.value,
                "effect": one.effect,
                "ci": list(one.ci) if one.ci else None,
                "p": one.p,
                "q": one.q,
                "pairs": one.pairs,
                "needs": one.needs,
                "reason": one.reason,
            }
            for one in judgement.series
        ],
    }


def _series(entry: object, where: str) -> Series:
    given = _mapping(entry, where)
    if not isinstance(given.get("id"), str) or not given["id"]:
        raise DocumentError(f"{where}.id", "a text is missing")
    better = given.get("better", "lower")
    if better not in ("lower", "higher"):
        raise DocumentError(f"{where}.better", f'{better!r} is neither "lower" nor "higher"')
    runs = given.get("runs")
    if not isinstance(runs, list):
        raise DocumentError(f"{where}.runs", 'a list of runs is missing: [["A", 12.3], ["B", 12.9], …]')
    if len(runs) > MOST_RUNS:
        raise DocumentError(f"{where}.runs", f"{len(runs)} runs are too many: at most {MOST_RUNS}")
    broken = given.get("broken")
    return Series(
        id=given["id"],
        runs=tuple(_run(run, f"{where}.runs[{index}]") for index, run in enumerate(runs)),
        better=better,
        metric=str(given.get("metric", "")),
        unit=str(given.get("unit", "")),
        device=str(given.get("device", "")),
        min_effect=_fraction(given, "min_effect", 0.01, where),
        margin=_fraction(given, "margin", 0.03, where),
        broken=str(broken) if broken else None,
    )


def _run(entry: object, where: str) -> Run:
    if not isinstance(entry, Sequence) or isinstance(entry, str) or len(entry) not in (2, 3):
        raise DocumentError(where, 'a run is ["A" or "B", figure]')
    arm, value, *rest = entry
    if arm not in ("A", "B"):
        raise DocumentError(f"{where}[0]", f"{arm!r} is neither A (the base) nor B (the candidate)")
    if isinstance(value, str) and value.lower() in _NOT_NUMBERS:
        value = None
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
        raise DocumentError(f"{where}[1]", f"{value!r} is no figure; null is one that was not measured")
    marks = rest[0] if rest else []
    if not isinstance(marks, list):
        raise DocumentError(f"{where}[2]", "marks are a list of texts")
    return Run(arm, None if value is None else float(value), tuple(str(mark) for mark in marks))


def _fraction(given: Mapping[str, Any], key: str, default: float, where: str) -> float:
    value = given.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        raise DocumentError(f"{where}.{key}", f"{value!r} is no fraction between 0 and 1 (0.03 is 3 %)")
    return float(value)


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DocumentError(where, "a JSON object is wanted")
    return value
