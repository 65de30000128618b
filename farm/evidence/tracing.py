"""What tracing tools say: `simpleperf stat` and `record`, `perf stat`, `perfetto`, `atrace`, counter libraries.

A trace exists only if bytes were written: perfetto says "Trace written into the output file" at once when nothing was
recorded. Counters that were not counted or not supported are null. Sources: AOSP `system/extras/simpleperf`
(cmd_stat_impl.h), perfetto's `src/perfetto_cmd/perfetto_cmd.cc`.
"""

from __future__ import annotations

import re

from farm.evidence.lines import Facts, Unknown, split

MAX_COUNTERS = 500
NEEDLES = (
    "perfetto_cmd.cc",
    "simpleperf",
    "Performance counter statistics",
    "perf_event_open",
    "traced",
    "Tracing service",
)

_COUNTER = re.compile(
    r"^\s*(<not (?:counted|supported)>|[\d,]{1,26}(?:\.\d{1,9})?)(?:\((ms|s|us|ns"
    r"|msec)\))?(?: +(msec))?\s+([a-zA-Z][\w.:/\-]{0,80}(?:,? ?\w*=\w+/?)*)"
    r"(?:\s+#\s*(.{0,120}?))?(?:\s+\((\d{1,3}(?:\.\d+)?)%\))?\s*$"
)
_CSV = re.compile(r"^(\d{1,20}(?:\.\d+)?|<not \w+>),([\w.\-:]{2,80}),(?:(.{0,60}),)?\((\d{1,3})%\)?,?\s*$")
_TOTAL = re.compile(
    r"Total test time[:,]\s*(\d{1,9}(?:\.\d{1,9})?)[ ,]*s(?:econds)?" r"|(\d{1,9}\.\d{1,9}) seconds time elapsed"
)
_RECORDED = re.compile(r"Samples recorded: ([\d,]{1,20})(?:\s*\(cut \d+\))?\.? ?(?:Samples lost: ([\d,]{1,20}))?")
_WROTE = re.compile(r"Wrote (\d{1,18}) bytes(?: into (\S+))?|(?:Trace|Output) (?:file )?size:? (\d{1,18}) ?(?:B|bytes)")
_WRITTEN = re.compile(r"Trace written into the output file")
_STAMP = re.compile(r"^\s*\[(\d{1,6}\.\d{1,6})\]")
_CONNECTED = re.compile(r"Connected to the Perfetto traced service")
_ERRNO = re.compile(r"\(errno: ?(\d{1,3})|\berrno[ =:]{1,3}(\d{1,3})\b")
_NAMED_ERRNO = (
    ("Permission denied", 13),
    ("Operation not permitted", 1),
    ("No such file or directory", 2),
    ("No space left", 28),
    ("Read-only file system", 30),
    ("Function not implemented", 38),
    ("Connection refused", 111),
)
_ERRORS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.I))
    for name, pattern in (
        (
            "event_not_supported",
            r"Event type '.{1,80}' is not supported|(?:event|PMU) .{0,60}not (?:supported|available)"
            r"|PMU counters not available",
        ),
        (
            "perf_harden",
            r"perf_event_paranoid|security\.perf_harden|perf_harden|perf_event_open.{0,120}(?:failed|denied"
            r"|not permitted)",
        ),
        (
            "not_debuggable",
            r"isn't debuggable|not debuggable|is not profileable|run-as: .{0,80}(?:unknown|not debuggable)"
            r"|package .{0,80}doesn't exist",
        ),
        (
            "service_unreachable",
            r"failed to connect to .{0,80}traced|Tracing service connection failure"
            r"|Unable to connect to the system tracing service"
            r"|traced_consumer.{0,60}failed|Could not connect to .{0,40}traced|is traced running",
        ),
        (
            "bad_config",
            r"(?:The|Could not parse|Failed to parse|Invalid) .{0,40}(?:TraceConfig|trace config"
            r"|config).{0,60}(?:invalid|failed|error|empty|must)?"
            r"|parse error|TraceConfig.{0,60}must",
        ),
        (
            "open_failed",
            r"Failed to open|could not open|cannot open|can't (?:open|create)|open_device failed" r"|unable to open",
        ),
        ("already_active", r"already (?:active|running|in use|exists)|A concurrent tracing session"),
        ("timed_out", r"timed out|timeout waiting"),
        (
            "failed",
            r"^\s*(?:error|fatal)\b|simpleperf E |(?:tracing|recording|profiling) failed|no samples"
            r"|Failed to (?:invoke|start|enable|write|flush|initialize)",
        ),
    )
)
_DENIAL = re.compile(r"avc:\s+denied\s+\{ ([\w ]{1,60}) \}.{0,300}?permissive=([01])")


class Tracing:
    """Feed it a tool's output. `ok` null: it does not say."""

    def __init__(self) -> None:
        self._counters: dict[str, int | float | None] = {}
        self._shares: dict[str, float] = {}
        self._facts: Facts = {}
        self._errors: list[str] = []
        self._message: str | None = None
        self._written = False
        self._began: float | None = None
        self._ended: float | None = None
        self._unknown = Unknown()

    def feed(self, raw: str) -> None:
        line = split(raw)
        text = line.text if not line.kernel else raw.strip()
        if not text.strip() or self._counter(text) or self._progress(text, line.time if line.kernel else None):
            return
        if match := _DENIAL.search(text):
            self._facts.update(denied=match[1].strip(), permissive=match[2] == "1")
            if match[2] == "0":
                self._error("denied", text)
            return
        name = next((name for name, pattern in _ERRORS if pattern.search(text)), None)
        if name is not None:
            self._error(name, text)
        else:
            self._unknown.add(text)

    def _counter(self, text: str) -> bool:
        match = _COUNTER.match(text)
        if match is None:
            csv = _CSV.match(text)
            if csv is None:
                return False
            self._count(csv[2], csv[1], None, csv[4])
            return True
        if (
            "#" not in text
            and match[2] is None
            and match[3] is None
            and match[6] is None
            and not re.search(r"-|[:/]|<not|^\s*\d[\d,]*\s{2,}\w+\s*$", text)
        ):
            return False
        self._count(match[4], match[1], match[2] or match[3], match[6])
        return True

    def _count(self, name: str, value: str, unit: str | None, share: str | None) -> None:
        number: float | int | None = None
        if not value.startswith("<") and value.count(".") < 2:
            plain = value.replace(",", "")
            number = float(plain) if "." in plain else int(plain)
        if name == "task-clock":
            scale = {"s": 1e3, "us": 1e-3, "ns": 1e-6}.get(unit or "ms", 1.0)
            self._facts["task_clock_ms"] = number * scale if number else None
        elif len(self._counters) < MAX_COUNTERS:
            self._counters[name] = number
        if share is not None and len(self._shares) < MAX_COUNTERS:
            self._shares[name] = float(share)

    def _progress(self, text: str, stamp: str | None) -> bool:
        moment = _moment(stamp, text)
        if match := _TOTAL.search(text):
            self._facts["total_s"] = float(match[1] or match[2]) or None
        elif match := _RECORDED.search(text):
            self._facts["samples"] = int(match[1].replace(",", "") or 0)
            if match[2]:
                self._facts["samples_lost"] = int(match[2].replace(",", "") or 0)
        elif match := _WROTE.search(text):
            self._facts["bytes"] = int(match[1] or match[3]) or None
            self._written = True
        elif _CONNECTED.search(text):
            self._began = moment
        elif _WRITTEN.search(text):
            self._written, self._ended = True, moment
        else:
            return False
        return True

    def _error(self, name: str, text: str) -> None:
        if name not in self._errors:
            self._errors.append(name)
        self._message = self._message or text.strip()[:500]
        match = _ERRNO.search(text)
        number = int(match[1] or match[2]) if match else next((n for words, n in _NAMED_ERRNO if words in text), None)
        if number is not None:
            self._facts.setdefault("errno", number)

    def finish(self) -> Facts:
        facts: Facts = {"ok": self._ok(), "errno": None, "bytes": None, "task_clock_ms": None, **self._facts}
        facts["counters"] = self._counters
        if scaled := {name: share for name, share in self._shares.items() if share < 100}:
            facts["measured_share_pct"] = scaled  # counted only part of the time and scaled up
        if self._errors:
            facts.update(error=self._errors[0], errors=self._errors, message=self._message)
        return {**facts, **self._unknown.facts()}

    def _ok(self) -> bool | None:
        if self._errors:
            return False
        if self._written:
            lasted = None if self._began is None or self._ended is None else self._ended - self._began
            if self._facts.get("bytes"):
                return True
            return False if lasted is not None and lasted <= 0.05 else (None if "bytes" not in self._facts else False)
        if "samples" in self._facts:
            return bool(self._facts["samples"])
        if any(value for value in self._counters.values()) or self._facts.get("task_clock_ms"):
            return True
        return None


def _moment(stamp: str | None, text: str) -> float | None:
    if stamp is not None:
        return float(stamp)
    match = _STAMP.match(text)
    return float(match[1]) if match else None
