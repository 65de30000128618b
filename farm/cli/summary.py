"""A run's answer as the API gives it → the short summary that `farm run`, `farm show` and `farm demo` print."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from farm.domain.measurements import Mark
from farm.domain.outcomes import MEANING, ExitCode, Outcome


def exit_code(outcome: str | None) -> int:
    """The exit code of a run with this outcome; a run without one is the farm's trouble."""
    try:
        return int(MEANING[Outcome(outcome or "")].exit_code)
    except ValueError:
        return int(ExitCode.FARM_TROUBLE)


def summary(detail: Mapping[str, Any]) -> dict[str, Any]:
    """`{"id", "title", "state", "outcome", "attempts": […]}` with the last attempt of each job."""
    run = detail["run"]
    return {
        "id": run["id"],
        "title": run["title"],
        "state": run["state"],
        "outcome": run["outcome"],
        "attempts": [_attempt(job, detail) for job in detail["jobs"]],
    }


def _attempt(job: Mapping[str, Any], detail: Mapping[str, Any]) -> dict[str, Any]:
    attempt = job["attempts"][-1] if job["attempts"] else None
    device = (attempt or job)["device"]
    ids = {entry["id"] for entry in job["attempts"]}
    measured = [row for row in detail["measurements"] if row["attempt_id"] in ids]
    incidents = [row for row in detail["incidents"] if row["attempt_id"] in ids]
    counts = _counts(job, detail)
    return {
        "device": device["name"] if device else None,
        "serial": device["serial"] if device else None,
        "virtual": device["virtual"] if device else None,
        "attempt": attempt["id"] if attempt else None,
        "tries": len(job["attempts"]),
        "outcome": job["outcome"],
        "reason": (attempt["reason"] if attempt else None) or job["wait_reason"],
        "tests": counts,
        "measurements": len(measured),
        "medians": _medians(measured),
        "incidents": [{"class": row["klass"], "summary": row["summary"], "test": row["test_id"]} for row in incidents],
    }


def _counts(job: Mapping[str, Any], detail: Mapping[str, Any]) -> dict[str, int]:
    """Tests of the job by outcome, each counted once whatever the number of attempts."""
    counts = {"passed": 0, "failed": 0, "skipped": 0, "error": 0}
    columns = [i for i, column in enumerate(detail["matrix"]["columns"]) if column["job_id"] == job["id"]]
    for row in detail["matrix"]["rows"]:
        for column in columns:
            cell = row["cells"][column]
            if cell is not None and cell["outcome"] in counts:
                counts[cell["outcome"]] += 1
    return counts


def _medians(measured: list[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """name → its median over all measurements of that name.

    `median` and `n` are of the unmarked values. Where every value is marked (throttled, disturbed), `median_marked` is
    what there is, `marks` says why it should not be believed; warm-up is in neither.
    """
    clean: dict[str, list[float]] = {}
    marked: dict[str, list[float]] = {}
    marks: dict[str, set[str]] = {}
    units = {row["name"]: row["unit"] for row in measured}
    for row in measured:
        for value, mark in zip(row["values"], row["marks"], strict=True):
            if mark is None:
                clean.setdefault(row["name"], []).append(value)
            elif mark != Mark.WARMUP:
                marked.setdefault(row["name"], []).append(value)
                marks.setdefault(row["name"], set()).add(mark)
    return {
        name: {
            "median": median(clean[name]) if name in clean else None,
            "n": len(clean.get(name, ())),
            "unit": unit,
            "median_marked": median(marked[name]) if name in marked else None,
            "n_marked": len(marked.get(name, ())),
            "marks": sorted(marks.get(name, ())),
        }
        for name, unit in sorted(units.items())
    }


def believable(entry: Mapping[str, Any]) -> tuple[float | None, tuple[str, ...]]:
    """(median, why it should not be believed): of the clean values, else of the marked ones with their marks."""
    if entry["median"] is not None:
        return entry["median"], ()
    return entry["median_marked"], tuple(entry["marks"])
