"""A run's answer as the API gives it → the short summary that `farm run`, `farm show` and `farm demo` print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from farm.domain.measurements import Mark
from farm.domain.outcomes import MEANING, ExitCode, Outcome

#: Results of a test that are counted even where there is none.
_COUNTED = ("passed", "failed", "skipped", "error", "not-run")


def exit_code(outcome: str | None) -> int:
    """The exit code of a run with this outcome; a run without one is the farm's trouble."""
    try:
        return int(MEANING[Outcome(outcome or "")].exit_code)
    except ValueError:
        return int(ExitCode.FARM_TROUBLE)


def exit_words(short: Mapping[str, Any]) -> str:
    """Why a waiting command ends with another code than 0, in a sentence; empty for 0."""
    code, outcome = exit_code(short["outcome"]), short["outcome"]
    if not code:
        return ""
    said = dict.fromkeys(a["words"] for a in short["attempts"] if a["outcome"] == outcome and a["words"])
    words = "; ".join(said) or ("it has no outcome" if outcome is None else _meaning(outcome))
    if outcome == Outcome.CANCELLED:
        words = _cancelled(short)
    devices = [a["device"] for a in short["attempts"] if a["outcome"] == outcome and a["device"]]
    where = f" on {', '.join(devices[:3])}" + (f" and {len(devices) - 3} more" if devices[3:] else "")
    name = ExitCode(code).name.lower().replace("_", " ")
    return f"Exit code {code} ({name}): run {short['id']} ended {outcome}{where if devices else ''}: {words}."


def _cancelled(short: Mapping[str, Any]) -> str:
    """`cancelled by mia during deploy`: who did it, and in which step each attempt was."""
    by = f"cancelled by {short['cancelled_by']}" if short["cancelled_by"] else "cancelled"
    ends = [a["end_reason"] for a in short["attempts"] if a["outcome"] == Outcome.CANCELLED and a["end_reason"]]
    said = (f"{by} {end.removeprefix('cancelled ')}" if end.startswith("cancelled during ") else end for end in ends)
    return "; ".join(dict.fromkeys(said)) or by


def _meaning(outcome: str) -> str:
    try:
        return MEANING[Outcome(outcome)].words
    except ValueError:
        return "this command does not know that outcome"


def retry_words(attempt: Mapping[str, Any]) -> str:
    """`husky-v1: try 1 ended device-lost: the device went away (…); tried again`, or that it waits to be."""
    ended = f"{attempt['device']['name']}: try {attempt['number']} ended {attempt['outcome'] or 'without an outcome'}"
    return f"{ended}: {attempt['retry_reason']}; {'tried again' if attempt['retried'] else 'waits to be tried again'}"


def late_words(attempt: Mapping[str, Any]) -> str:
    """`husky-v1: of try 1 arrived late from lab-2: its runner ended …`: what a host that had been lost kept of it."""
    which = f"{attempt['device']['name']}: of try {attempt['number']}"
    return f"{which} arrived late from {attempt['host']}: {attempt['late_reason']}"


def summary(detail: Mapping[str, Any]) -> dict[str, Any]:
    """`{"id", "title", "state", "outcome", "cancelled_by", "attempts": […], "comparable", "warnings"}` with the last
    try of each job.

    `comparable` is False where some figure has no clean value at all, None where nothing was measured.
    """
    run = detail["run"]
    attempts = [_attempt(job, detail) for job in detail["jobs"]]
    figures = [entry for attempt in attempts for entry in attempt["medians"].values()]
    return {
        "id": run["id"],
        "title": run["title"],
        "state": run["state"],
        "outcome": run["outcome"],
        "cancelled_by": run["cancel_by"],
        "attempts": attempts,
        "comparable": not any(map(_doubtful, figures)) if figures else None,
        "warnings": _warnings(attempts),
    }


def _attempt(job: Mapping[str, Any], detail: Mapping[str, Any]) -> dict[str, Any]:
    attempt = job["attempts"][-1] if job["attempts"] else None
    device = (attempt or job)["device"]
    ids = {entry["id"] for entry in job["attempts"]}
    measured = [row for row in detail["measurements"] if row["attempt_id"] in ids]
    incidents = [row for row in detail["incidents"] if row["attempt_id"] in ids]
    return {
        "job": job["id"],
        "device": device["name"] if device else None,
        "serial": device["serial"] if device else None,
        "virtual": device["virtual"] if device else None,
        "attempt": attempt["id"] if attempt else None,
        "tries": len(job["attempts"]),
        "retries": [_retry(entry) for entry in job["attempts"] if entry["retry_reason"]],
        "outcome": job["outcome"],
        "words": attempt["words"] if attempt and attempt["outcome"] == job["outcome"] else None,
        "blame": attempt["blame"] if attempt and attempt["outcome"] == job["outcome"] else None,
        "reason": job["wait_reason"] or (attempt["reason"] if attempt else None),
        "end_reason": (attempt["reason"] if attempt else job["wait_reason"]) if job["outcome"] else None,
        "progress": job["progress"],
        "tests": _counts(job, detail),
        "failures": _failures(job, detail),
        "measurements": len(measured),
        "medians": _medians(measured),
        "incidents": [
            {"class": row["klass"], "summary": row["summary"], "test": row["test_id"], "count": row["count"]}
            for row in incidents
        ],
        "incident_counts": _incident_counts(ids, detail),
    }


def _retry(attempt: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "attempt": attempt["id"],
        "try": attempt["number"],
        "device": attempt["device"]["name"],
        "outcome": attempt["outcome"],
        "reason": attempt["retry_reason"],
    }


def _incident_counts(attempts: set[int], detail: Mapping[str, Any]) -> dict[str, int]:
    """Class → how many, in all tries."""
    counts: dict[str, int] = {}
    for attempt in sorted(attempts):
        for klass, count in detail["incident_counts"].get(str(attempt), {}).items():
            counts[klass] = counts.get(klass, 0) + count
    return counts


def _counts(job: Mapping[str, Any], detail: Mapping[str, Any]) -> dict[str, int]:
    """Tests of the job by how they ended, each once whatever the number of tries; what has not ended by its state."""
    counts = dict.fromkeys(_COUNTED, 0)
    for _, cell in _cells(job, detail):
        word = cell["outcome"] or cell["state"]
        counts[word] = counts.get(word, 0) + 1
    return counts


def _failures(job: Mapping[str, Any], detail: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tests that did not come to a good end, each with the one word for it and its first words."""
    return [
        {"test": test, "result": cell["result"], "message": cell["message"]}
        for test, cell in _cells(job, detail)
        if cell["outcome"] in ("failed", "error") or cell["state"] == "unfinished"
    ]


def _cells(job: Mapping[str, Any], detail: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(test id, cell) of the job's column in the matrix."""
    columns = [i for i, column in enumerate(detail["matrix"]["columns"]) if column["job_id"] == job["id"]]
    for row in detail["matrix"]["rows"]:
        yield from ((row["test_id"], row["cells"][i]) for i in columns if row["cells"][i] is not None)


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


def _doubtful(entry: Mapping[str, Any]) -> bool:
    return bool(believable(entry)[1])


def _warnings(attempts: list[dict[str, Any]]) -> list[str]:
    """What a person must know before the figures are used: which of them have no clean value, and so prove nothing."""
    found = []
    for attempt in attempts:
        names = [name for name, entry in attempt["medians"].items() if _doubtful(entry)]
        if names:
            marks = sorted({mark for name in names for mark in attempt["medians"][name]["marks"]})
            shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if names[4:] else "")
            found.append(
                f"Do not compare {attempt['device'] or '?'}'s {shown}: every value is marked {' and '.join(marks)}"
            )
    return found
