"""A run's answer as the API gives it → the short summary that `farm run`, `farm show` and `farm demo` print."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

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
    """name → {median, unit, n} over the clean values of all measurements of that name."""
    values: dict[str, list[float]] = {}
    units: dict[str, str] = {}
    for row in measured:
        clean = [v for v, mark in zip(row["values"], row["marks"], strict=True) if mark is None]
        values.setdefault(row["name"], []).extend(clean)
        units[row["name"]] = row["unit"]
    return {
        name: {"median": median(found) if found else None, "unit": units[name], "n": len(found)}
        for name, found in sorted(values.items())
    }
