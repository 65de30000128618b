"""What the journal accepts from inside the sandbox: a stranger's suite writes there, through the plugin or without it.

The gate knows the attempt: its devices, its tests, which of them runs. It lets through what the plugin has to say and
refuses, with a reason, what only the supervisor may say (`start`, `end`, sequence numbers, times), what belongs to
another device or test, and what is no fact (a measurement of zero or NaN). Texts are cut to their limits.

What it cannot do: a suite is free to report any value for its *own* running test. A suite's word is the suite's.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from farm.domain.causes import Cause
from farm.domain.journal import Kind, clip
from farm.domain.measurements import Better, Mark, Measurement
from farm.domain.outcomes import Outcome, TestOutcome

MAX_RECORDS = 200_000
MAX_TESTS = 20_000
MAX_VALUES = 10_000
MAX_NAME = 200
#: Classes of incidents that the farm itself writes: a suite must not make them up.
FARM_CLASSES = frozenset({"lens-refused", "sandbox-refused", "journal-refused", "suite-killed", "runner"})
#: Causes with which a test has not finished: it is run again, here or on another device.
UNFINISHED_CAUSES = frozenset({Outcome.DEVICE_LOST, Outcome.INFRA_ERROR, Outcome.CANCELLED})
_CLASS = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")

Fields = dict[str, Any]


class Refused(Exception):
    """A record that the journal does not take; the message says why."""


class Gate:
    """State of one attempt as its records build it up. `admit` is the only entry; it is not thread-safe."""

    def __init__(self, devices: Collection[str], finished: Collection[str] = ()) -> None:
        self.devices = frozenset(devices)
        self.first_device = next(iter(devices))
        self._finished = set(finished)  # whatever the device
        self._ended: set[tuple[str, str]] = set()
        self._tests: set[str] = set()
        self._started = False
        self._records = 0
        self.running: set[tuple[str, str]] = set()  # (test, device): at a desk a test may run on each of several

    def admit(self, kind: str, fields: Mapping[str, Any]) -> Fields:
        """The checked fields of a record from inside. Raises Refused."""
        check = _CHECKS.get(kind)
        if check is None:
            raise Refused(f"a suite cannot write {kind!r} records")
        forged = sorted({"v", "seq", "wall", "mono", "kind"} & fields.keys())
        if forged:
            raise Refused(f"{', '.join(forged)} belong to the journal, not to its records")
        if self._records >= MAX_RECORDS:
            raise Refused(f"more than {MAX_RECORDS} records")
        device = fields.get("device")
        if device is not None and (not isinstance(device, str) or device not in self.devices):
            raise Refused(f"device {str(device)[:100]!r} is not leased to this attempt")
        try:
            checked = check(self, fields)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise Refused(f"{kind}: {error}") from error
        self._records += 1
        return checked

    # One check per kind; each returns just the fields of its kind.

    def _collected(self, fields: Mapping[str, Any]) -> Fields:
        tests = [_name(test, 500) for test in fields["tests"]]
        if self._started and not set(tests) <= self._tests:
            raise ValueError("a test has started: what will run is settled")
        if len(self._tests | set(tests)) > MAX_TESTS:
            raise ValueError(f"more than {MAX_TESTS} tests")
        self._tests.update(tests)
        return {"tests": tests}

    def _test_start(self, fields: Mapping[str, Any]) -> Fields:
        test = self._known_test(fields["test"])
        key = (test, self._device(fields))
        if test in self._finished or key in self._ended:
            raise ValueError(f"{test} has finished already")
        self._started = True
        self.running.add(key)
        return {"test": test, "device": key[1]}

    def _test_end(self, fields: Mapping[str, Any]) -> Fields:
        test = self._known_test(fields["test"])
        key = (test, self._device(fields))
        if key not in self.running:
            raise ValueError(f"{test} is not running")
        checked = {
            "test": test,
            "device": key[1],
            "outcome": TestOutcome(fields["outcome"]).value,
            "duration_s": _finite(fields["duration_s"]),
            **_optional(
                fields,
                message=_text(4000),
                detail=_text(),
                cause=lambda c: Outcome(c).value,
                fine_cause=lambda c: Cause(c).value,
            ),
        }
        self.running.remove(key)
        if checked.get("cause") not in UNFINISHED_CAUSES:
            self._ended.add(key)
        return checked

    def _measurement(self, fields: Mapping[str, Any]) -> Fields:
        values = tuple(_finite(value) for value in fields["values"])
        if len(values) > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES} values: send a series")
        marks = tuple(None if mark is None else Mark(mark) for mark in fields.get("marks") or ())
        found = Measurement(
            name=_name(fields["name"]),
            unit=_name(fields["unit"], 40),
            better=Better(fields["better"]),
            values=values,
            marks=marks,
            labels=_labels(fields.get("labels") or {}),
        )
        return {
            "test": self._running_test(fields["test"]),
            "device": self._device(fields),
            "name": found.name,
            "unit": found.unit,
            "better": found.better.value,
            "values": list(found.values),
            "marks": [mark.value if mark else None for mark in found.marks],
            "labels": found.labels,
        }

    def _series(self, fields: Mapping[str, Any]) -> Fields:
        times, values = [_finite(t) for t in fields["t"]], [_finite(v) for v in fields["values"]]
        if len(times) != len(values) or not times or len(times) > MAX_VALUES:
            raise ValueError(f"a series chunk has 1 to {MAX_VALUES} times and as many values")
        found = {"device": self._device(fields), "name": _name(fields["name"]), "unit": _name(fields["unit"], 40)}
        return {**self._maybe_test(fields), **found, "t": times, "values": values}

    def _stage(self, fields: Mapping[str, Any]) -> Fields:
        duration = _finite(fields["dur_s"])
        if duration < 0:
            raise ValueError("a stage cannot last less than nothing")
        counters = {_name(k, 100): _finite(v) for k, v in (fields.get("counters") or {}).items()}
        return {
            **self._maybe_test(fields),
            "device": self._device(fields),
            "name": _name(fields["name"], 100),
            "began": _finite(fields["began"]),
            "dur_s": duration,
            "counters": dict(list(counters.items())[:64]),
        }

    def _incident(self, fields: Mapping[str, Any]) -> Fields:
        klass = str(fields["class"])
        if not _CLASS.fullmatch(klass) or klass in FARM_CLASSES:
            raise ValueError(f"incident class {klass[:60]!r} is not a suite's to write")
        found: Fields = {"device": self._device(fields), "class": klass, "summary": _text(2000)(fields["summary"])}
        return {**self._maybe_test(fields), **found, **_optional(fields, evidence=_text(), artifact=_name)}

    def _artifact(self, fields: Mapping[str, Any]) -> Fields:
        """Name and place; bytes and hash are the supervisor's to find out."""
        found = {"name": _name(fields["name"], 300), "path": _name(fields["path"], 1000)}
        media = _name(fields.get("media_type") or "application/octet-stream", 100)
        return {**self._maybe_test(fields), **found, "media_type": media, **_optional(fields, device=str)}

    def _fingerprint(self, fields: Mapping[str, Any]) -> Fields:
        facts = fields["facts"]
        if not isinstance(facts, dict) or len(json.dumps(facts, allow_nan=False)) > 128 * 1024:
            raise ValueError("a fingerprint is an object of at most 128 KB")
        return {"device": self._device(fields), "facts": facts, "partial": True}

    def _note(self, fields: Mapping[str, Any]) -> Fields:
        level = fields.get("level", "info")
        if level not in ("info", "warning"):
            raise ValueError(f"level {str(level)[:20]!r} is neither info nor warning")
        return {"level": level, "text": _text(2000)(fields["text"])}

    def _known_test(self, test: object) -> str:
        name = _name(test, 500)
        if name not in self._tests:
            raise ValueError(f"{name[:200]!r} is not among the collected tests")
        return name

    def _running_test(self, test: object) -> str:
        name = self._known_test(test)
        if all(test != name for test, _ in self.running):
            raise ValueError(f"{name} is not running")
        return name

    def _maybe_test(self, fields: Mapping[str, Any]) -> Fields:
        return {} if fields.get("test") is None else {"test": self._known_test(fields["test"])}

    def _device(self, fields: Mapping[str, Any]) -> str:
        if fields.get("device") is None:
            if len(self.devices) != 1:
                raise ValueError("which device? the attempt has several")
            return next(iter(self.devices))
        return str(fields["device"])


_CHECKS: dict[str, Callable[[Gate, Mapping[str, Any]], Fields]] = {
    Kind.COLLECTED: Gate._collected,
    Kind.TEST_START: Gate._test_start,
    Kind.TEST_END: Gate._test_end,
    Kind.MEASUREMENT: Gate._measurement,
    Kind.SERIES: Gate._series,
    Kind.STAGE: Gate._stage,
    Kind.INCIDENT: Gate._incident,
    Kind.ARTIFACT: Gate._artifact,
    Kind.FINGERPRINT: Gate._fingerprint,
    Kind.NOTE: Gate._note,
}


def _name(value: object, limit: int = MAX_NAME) -> str:
    if not isinstance(value, str) or not value or len(value) > limit:
        raise ValueError(f"{str(value)[:60]!r} is not a name of 1 to {limit} characters")
    return value


def _text(limit: int | None = None) -> Callable[[object], str]:
    return lambda value: clip(str(value)) if limit is None else clip(str(value), limit)


def _finite(value: Any) -> float:
    number = float(value)
    if isinstance(value, bool | str) or not math.isfinite(number):
        raise ValueError(f"{value!r} is not a number that was measured")
    return number


def _labels(labels: Mapping[str, Any]) -> dict[str, str]:
    if len(labels) > 64:
        raise ValueError("more than 64 labels")
    return {_name(key, 100): _name(str(value), 300) for key, value in labels.items()}


def _optional(fields: Mapping[str, Any], **readers: Callable[[Any], Any]) -> Fields:
    return {key: read(fields[key]) for key, read in readers.items() if fields.get(key) is not None}
