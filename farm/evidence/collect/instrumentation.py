"""`am instrument -w -r`: what an app's instrumentation reports while it runs, and how it ended.

    INSTRUMENTATION_STATUS: KEY=VALUE            VALUE may go on over further lines
    INSTRUMENTATION_STATUS_CODE: N               ends one report
    INSTRUMENTATION_RESULT: KEY=VALUE            the last report, e.g. shortMsg=Process crashed.
    INSTRUMENTATION_CODE: N                      -1: the instrumentation ended by itself
    INSTRUMENTATION_FAILED: COMPONENT            nothing was started
    INSTRUMENTATION_ABORTED: System has crashed.

Source: AOSP frameworks/base, cmds/am/src/com/android/commands/am/Instrument.java (TextStatusReporter, raw mode), and
androidx.test's InstrumentationResultPrinter for the codes of tests: 1 begins, 0 passed, -1 error, -2 failure,
-3 ignored, -4 assumption failed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

#: Characters of one report that are kept; a stack trace is some ten thousand.
MAX_REPORT = 1 << 20
MAX_KEYS = 200
#: Failed tests that are kept with their stacks, and characters of each.
MAX_FAILURES, MAX_STACK = 20, 8000
_LINE = re.compile(r"INSTRUMENTATION_(STATUS_CODE|STATUS|RESULT|CODE|FAILED|ABORTED): ?(.*)", re.S)
_FAILED = re.compile(r"(?:android\.util\.AndroidException: )?INSTRUMENTATION_FAILED: (.*)")
_CODES = {0: "passed", -1: "error", -2: "failed", -3: "skipped", -4: "skipped"}


@dataclass(frozen=True, slots=True)
class Status:
    """One report of the app."""

    code: int | None
    values: Mapping[str, str]


@dataclass(slots=True)
class InstrumentationStream:
    """Reads it line by line; bounded, never raises."""

    code: int | None = None  # INSTRUMENTATION_CODE; None: it never came
    result: dict[str, str] = field(default_factory=dict)
    error: str | None = None  # why nothing was started, or what the system said
    tests: dict[str, int] = field(default_factory=dict)  # passed, failed, error, skipped -> how many
    failures: list[tuple[str, str]] = field(default_factory=list)  # (test, stack)
    _values: dict[str, str] = field(default_factory=dict)
    _open: tuple[dict[str, str], str] | None = None  # the value that may go on
    _size: int = 0

    def feed(self, line: str) -> Status | None:
        """The report that this line ended."""
        found = _LINE.match(line)
        if found is None:
            failed = _FAILED.match(line)
            if failed is not None:
                self.error = self.error or f"INSTRUMENTATION_FAILED: {failed[1][:300]}"
            elif self._open is not None:
                self._extend(line)
            return None
        kind, rest = found[1], found[2]
        self._open = None
        if kind == "STATUS":
            self._set(self._values, rest)
        elif kind == "RESULT":
            self._set(self.result, rest)
        elif kind == "STATUS_CODE":
            return self._report(_number(rest))
        elif kind == "CODE":
            self.code = _number(rest)
        else:
            self.error = f"INSTRUMENTATION_{kind}: {rest[:300]}"
        return None

    def _set(self, values: dict[str, str], rest: str) -> None:
        key, _, value = rest.partition("=")
        if len(values) < MAX_KEYS and self._size + len(value) <= MAX_REPORT:
            values[key] = value
            self._size += len(value)
            self._open = (values, key)

    def _extend(self, line: str) -> None:
        assert self._open is not None
        values, key = self._open
        if self._size + len(line) <= MAX_REPORT:
            values[key] += f"\n{line}"
            self._size += len(line) + 1

    def _report(self, code: int | None) -> Status:
        status = Status(code, self._values)
        self._values, self._size = {}, 0
        if "Error" in status.values:
            self.error = status.values["Error"][:500]
        if code in _CODES and "test" in status.values:
            word = _CODES[code]
            self.tests[word] = self.tests.get(word, 0) + 1
            if word in ("error", "failed") and len(self.failures) < MAX_FAILURES:
                name = f"{status.values.get('class', '?')}#{status.values['test']}"
                self.failures.append((name[:300], status.values.get("stack", "")[:MAX_STACK]))
        return status

    @property
    def crash(self) -> str | None:
        """What the system said of an app that did not come to its end: `Process crashed.` and the like."""
        if "shortMsg" not in self.result:
            return None
        parts = (self.result["shortMsg"], self.result.get("longMsg", ""))
        return ": ".join(part for part in parts if part)[:500]


def _number(text: str) -> int | None:
    try:
        return int(text.strip()[:12])
    except ValueError:
        return None
