"""A scenario as JSON, read with care: a mistake is reported with its place in the document and what to do.

    {"devices":  [{"id": "rk-1", "labels": {"soc": "RK3568", "ram_gb": 4}}],
     "jobs":     [{"id": "j1", "submit_s": 0, "class": "pr", "team": "vision", "selector": "soc=RK3568",
                   "estimate_s": 300, "duration_s": 280}],
     "failures": [{"device": "rk-1", "at_s": 100, "for_s": 600}]}

`class` (manual), `team` (default), `selector` (*) and `estimate_s` (not known) may be left out; so may `failures`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from farm.domain.jobs import HANDICAP_S
from farm.domain.names import did_you_mean
from farm.domain.selectors import Selector, SelectorError, parse

MAX_DEVICES = 20_000
MAX_JOBS = 200_000
MAX_FAILURES = 100_000
_MAX_TEXT = 200
_MAX_LABELS = 200
_MAX_S = 1e9


class ScenarioError(ValueError):
    """`path` is the place in the document, such as `jobs[3].selector`."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


@dataclass(frozen=True, slots=True)
class SimDevice:
    name: str
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SimJob:
    name: str
    submit_s: float
    klass: str
    team: str
    selector: Selector
    estimate_s: float | None
    duration_s: float


@dataclass(frozen=True, slots=True)
class SimFailure:
    device: str
    at_s: float
    for_s: float


@dataclass(frozen=True, slots=True)
class Scenario:
    devices: tuple[SimDevice, ...]
    jobs: tuple[SimJob, ...]
    failures: tuple[SimFailure, ...] = ()


def read_scenario(document: object) -> Scenario:
    """Raises ScenarioError with the first mistake."""
    top = _object("scenario", document, {"devices", "jobs", "failures"})
    devices = tuple(_device(f"devices[{n}]", d) for n, d in enumerate(_list("devices", top, MAX_DEVICES)))
    _once("devices", [d.name for d in devices])
    jobs = tuple(_job(f"jobs[{n}]", j) for n, j in enumerate(_list("jobs", top, MAX_JOBS)))
    _once("jobs", [j.name for j in jobs])
    found = _list("failures", {"failures": [], **top}, MAX_FAILURES)
    known = {d.name for d in devices}
    failures = tuple(_failure(f"failures[{n}]", f, known) for n, f in enumerate(found))
    _can_run(jobs, devices)
    return Scenario(devices, jobs, failures)


def _device(path: str, value: object) -> SimDevice:
    entry = _object(path, value, {"id", "labels"})
    name = _text(path, entry, "id")
    labels = entry.get("labels", {})
    if not isinstance(labels, Mapping) or len(labels) > _MAX_LABELS:
        raise ScenarioError(f"{path}.labels", f"an object of at most {_MAX_LABELS} labels is needed")
    facts = {str(key): _label(f"{path}.labels.{str(key)[:50]}", entry) for key, entry in labels.items()}
    return SimDevice(name, {**facts, "name": name, "serial": name})


def _label(path: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float) and len(str(value)) <= _MAX_TEXT:
        return str(value)
    raise ScenarioError(path, "a label is a text, a number, true or false")


def _job(path: str, value: object) -> SimJob:
    names = {"id", "submit_s", "class", "team", "selector", "estimate_s", "duration_s"}
    entry = {"class": "manual", "team": "default", "selector": "*", **_object(path, value, names)}
    klass = _text(path, entry, "class")
    if klass not in HANDICAP_S:
        hint = did_you_mean(klass, HANDICAP_S) or f"it is one of {', '.join(HANDICAP_S)}"
        raise ScenarioError(f"{path}.class", f"there is no class {klass!r}; {hint}")
    estimate = None if entry.get("estimate_s") is None else _seconds(path, entry, "estimate_s")
    return SimJob(
        name=_text(path, entry, "id"),
        submit_s=_seconds(path, entry, "submit_s"),
        klass=klass,
        team=_text(path, entry, "team"),
        selector=_selector(f"{path}.selector", entry["selector"]),
        estimate_s=estimate,
        duration_s=_seconds(path, entry, "duration_s"),
    )


def _selector(path: str, value: object) -> Selector:
    if not isinstance(value, str):
        raise ScenarioError(path, "a selector is a text, for example soc=RK3568")
    try:
        return parse(value)
    except SelectorError as error:
        raise ScenarioError(path, f"the selector cannot be read: {error}") from None


def _failure(path: str, value: object, devices: set[str]) -> SimFailure:
    entry = _object(path, value, {"device", "at_s", "for_s"})
    device = _text(path, entry, "device")
    if device not in devices:
        hint = did_you_mean(device, devices) or "name one of devices[].id"
        raise ScenarioError(f"{path}.device", f"there is no device {device!r}; {hint}")
    return SimFailure(device, _seconds(path, entry, "at_s"), _seconds(path, entry, "for_s"))


def _can_run(jobs: Sequence[SimJob], devices: Sequence[SimDevice]) -> None:
    """Every job runs once, so every selector must pick something."""
    fine: set[str] = set()
    for n, job in enumerate(jobs):
        if job.selector.text in fine:
            continue
        if not any(job.selector.matches(device.facts) for device in devices):
            raise ScenarioError(f"jobs[{n}].selector", f"no device matches {job.selector.text!r}: it could never run")
        fine.add(job.selector.text)


def _object(path: str, value: object, names: set[str]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ScenarioError(path, f"an object is needed, not {_kind(value)}")
    for name in value:
        if name not in names:
            hint = did_you_mean(str(name), names) or f"it has {', '.join(sorted(names))}"
            raise ScenarioError(f"{path}.{str(name)[:50]}", f"there is no such field; {hint}")
    return dict(value)


def _list(name: str, top: Mapping[str, Any], at_most: int) -> list[Any]:
    value = top.get(name)
    if not isinstance(value, list):
        raise ScenarioError(name, f"a list is needed, not {_kind(value)}")
    if len(value) > at_most:
        raise ScenarioError(name, f"{len(value)} entries are too many (limit {at_most})")
    return value


def _text(path: str, entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not value or len(value) > _MAX_TEXT:
        raise ScenarioError(f"{path}.{name}", f"a text of 1 to {_MAX_TEXT} characters is needed, not {_kind(value)}")
    return value


def _seconds(path: str, entry: Mapping[str, Any], name: str) -> float:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ScenarioError(f"{path}.{name}", f"a number of seconds is needed, not {_kind(value)}")
    if not 0 <= value <= _MAX_S:
        raise ScenarioError(f"{path}.{name}", f"{value:g} s is not between 0 and {_MAX_S:g}")
    return float(value)


def _once(name: str, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for n, entry in enumerate(names):
        if entry in seen:
            raise ScenarioError(f"{name}[{n}].id", f"{entry!r} is there twice; give each its own")
        seen.add(entry)


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "this text", bool: "true or false", type(None): "nothing"}
    return kinds.get(type(value), "this number")
