"""llama.cpp's `llama-bench`: JSON lines (`-o jsonl`), a JSON array (`-o json`), CSV, SQL or the Markdown table.

Source of the format: llama.cpp, tools/llama-bench (its README and printer classes). The JSON forms carry every sample
(`samples_ts`, tokens per second); the others have mean and deviation only, over an unknown number of repetitions, so
their figure is one value. A row that is cut off is no row; the whole rows of a cut array count. The names are those
that llama-bench uses: `pp512` (prompt), `tg128` (generation), `pp512+tg128`, with `@ d512` for a depth. Figures are
named prefill_rate, decode_rate or rate, with the test in the labels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from farm.evidence.engines.documents import elements, may_be_json
from farm.evidence.engines.failures import suspicious
from farm.evidence.engines.llama_rows import Rows
from farm.evidence.engines.report import (
    MAX_LINE,
    MAX_NOTES,
    MAX_READINGS,
    MAX_VALUES,
    Reading,
    Report,
    Status,
    json_object,
    measured,
)
from farm.evidence.engines.tables import cells as cells_of
from farm.evidence.engines.text import number

MAX_ARRAY = 8 << 20
_TEST = re.compile(r"^(pp|tg) ?(\d+)(?:\+tg ?(\d+))?(?: @ d(\d+))?$")
_FIGURE = re.compile(r"^([0-9]+(?:[.,][0-9]+)?)(?: *(?:±|\+/-) *([0-9.,]+|nan|-nan|inf))?$")
_BUILD = re.compile(r"^build: ([0-9a-f]{5,40}) \((\d+)\)")
_FAILURES = re.compile(
    r"\b(error:|fatal:|failed to |GGML_ASSERT|ggml_abort|Aborted|terminate called|cannot open|unsupported)", re.I
)
_PROGRESS = re.compile(r"^llama-bench: benchmark (\d+)/(\d+): (.+)$")
_LABEL_KEYS = ("model_type", "backends", "n_threads", "n_gpu_layers", "n_batch", "flash_attn", "type_k", "type_v")
_NAMES = {"pp": "prefill_rate", "tg": "decode_rate"}
#: Figures of a JSON row beside its rate, with their units.
_BESIDE = {"avg_ts": "tok/s", "stddev_ts": "tok/s", "avg_ns": "ns", "stddev_ns": "ns", "model_size": "B"}
_SETTINGS = ("model_n_params", "n_batch", "n_ubatch", "n_threads", "poll", "n_gpu_layers", "n_depth", "build_number")
_AMOUNT = re.compile(r"^([0-9][0-9.]*) ?([KMGT]?i?B|[KMBT])?$")


@dataclass(slots=True)
class LlamaBench:
    """What a llama-bench has printed so far. Feed it line by line (stdout and stderr alike); it never raises."""

    readings: list[Reading] = field(default_factory=list)
    details: list[Reading] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    rows: int = 0
    torn: int = 0
    failure: str | None = None
    build: str | None = None
    progress: str | None = None
    _columns: list[str] | None = None
    _array: list[str] | None = None
    _array_size: int = 0
    _seen: bool = False
    _csv: Rows = field(default_factory=Rows)
    _warnings: int = 0

    @property
    def seen(self) -> bool:
        """Whether anything was an output of llama-bench."""
        return self._seen

    def feed(self, line: str, cut: bool = False) -> bool:
        """Take one line; True when it completed a row. `cut`: the output stops inside it."""
        line = line[:MAX_LINE].rstrip("\r\n")
        before = self.rows
        if (self._array is not None or line.strip() == "[") and may_be_json(line):
            self._json_array(line)
        elif self._csv.is_row(line):
            self._seen = True
            row = None if cut else self._csv.row(line)
            if row is not None:
                self._row(row)
            elif cut or self._csv.broken:
                self.torn += 1
        elif line.lstrip().startswith("{"):
            self._json_line(line)
        elif line.startswith("|"):
            self._table_row(line)
        else:
            self._other(line)
        return self.rows > before

    def report(self) -> Report:
        notes = list(self.notes)
        if self._array is not None:
            text, self._array = "\n".join(self._array), None
            self.torn += 1
            for row in elements(text):
                self._row(row)
        if self.failure:
            notes.append(self.failure)
        if self.torn:
            notes.append(f"left out, since cut off: {self.torn} of its rows")
        if self.progress and not self.rows:
            notes.append(f"last phase: {self.progress}")
        return Report(self._status(), tuple(self.readings), tuple(notes[:MAX_NOTES]), tuple(self.details))

    def _status(self) -> Status:
        if self.failure:
            return Status.FAILED
        if self.torn:
            return Status.INCOMPLETE
        if self.readings:
            return Status.OK
        if self.progress:
            return Status.TIMEOUT
        return Status.NO_METRICS if self._seen else Status.INVALID

    def _json_line(self, line: str) -> None:
        self._seen = self._seen or '"build_' in line
        row = json_object(line)
        if row is None:
            self.torn += '"build_' in line
        elif "n_prompt" in row or "n_gen" in row:  # else the server's or somebody's
            self._row(row)

    def _json_array(self, line: str) -> None:
        self._seen = True
        self._array = self._array if self._array is not None else []
        self._array.append(line)
        self._array_size += len(line)
        if line.strip() != "]" and self._array_size < MAX_ARRAY:
            return
        try:
            rows = json.loads("\n".join(self._array))
        except (ValueError, RecursionError):
            self.torn += 1
            rows = []
        self._array, self._array_size = None, 0
        for row in rows if isinstance(rows, list) else []:
            if isinstance(row, dict):
                self._row(row)

    def _row(self, row: dict[str, Any]) -> None:
        prompt, generated, depth = (_count(row.get(key)) for key in ("n_prompt", "n_gen", "n_depth"))
        if prompt is None or generated is None or not (prompt or generated):
            self.torn += 1
            return
        test = "+".join([*([f"pp{prompt}"] if prompt else []), *([f"tg{generated}"] if generated else [])])
        samples = row.get("samples_ts")
        values = [measured(value) for value in samples] if isinstance(samples, list) else []
        kept = [value for value in values if value is not None][:MAX_VALUES]
        if len(kept) < len(values):
            self._note(f"{test}: not measured: {len(values) - len(kept)} of {len(values)} samples")
        if not kept and (mean := measured(row.get("avg_ts"))) is not None:
            kept = [mean]
        labels = {key: str(row[key])[:200] for key in _LABEL_KEYS if row.get(key) is not None}
        test += f" @ d{depth}" if depth else ""
        self._add(test, tuple(kept), labels)
        labels = {**labels, "test": test}
        for key, unit in _BESIDE.items():
            self._detail(key, [row.get(key)], unit, labels)
        times = row.get("samples_ns")
        self._detail("samples_ns", times if isinstance(times, list) else [], "ns", labels)
        self._detail("samples", [len(values)], "1", labels)
        for key in _SETTINGS:
            self._detail(key, [row.get(key)], "1", labels)
        for key in ("build_commit", "build_number", "cpu_info", "gpu_info", "backends", "model_type", "model_size"):
            if row.get(key) not in (None, ""):
                self.facts[key] = row[key] if isinstance(row[key], int) else str(row[key])[:300]

    def _table_row(self, line: str) -> None:
        self._seen = True
        whole = line.rstrip().endswith("|")
        cells = cells_of(line)
        if "t/s" in cells and "test" in cells:
            self._columns = cells
            return
        if self._columns is None or all(set(cell) <= set("-: ") for cell in cells):
            return
        if not whole or len(cells) != len(self._columns):
            self.torn += 1
            return
        row = dict(zip(self._columns, cells, strict=True))
        match = _FIGURE.match(row["t/s"])
        value = measured(number(match.group(1))) if match else None
        if value is None:
            self._note(f"{row['test'][:60]}: {row['t/s'][:60]!r} is no figure")
            return
        labels = {key: cell[:200] for key, cell in row.items() if key not in ("t/s", "test") and cell}
        if match and match.group(2):
            labels["stddev"] = match.group(2)
        self._add(row["test"], (value,), labels)
        labels["test"] = row["test"][:60]
        if match:
            self._detail("stddev", [number(match.group(2) or "")], "tok/s", labels)
        for key, cell in row.items():
            if key not in ("t/s", "test") and (amount := _AMOUNT.match(cell)) is not None:
                self._detail(key.removesuffix(" ↓"), [number(amount.group(1))], amount.group(2) or "1", labels)

    def _other(self, line: str) -> None:
        if match := _BUILD.match(line):
            self.facts.update(build_commit=match.group(1), build_number=int(match.group(2)[:12]))
            self._detail("build_number", [self.facts["build_number"]], "1", {"commit": match.group(1)})
        elif match := _PROGRESS.match(line):
            self.progress = match.group(3)[:200]
            self._seen = True
        elif "performance may be affected" in line:
            self._seen = True
            self._note(f"not comparable with a release build: {line.strip()}")
            self._warnings += 1
            self._detail("warning", [self._warnings], "1", {})
        elif self.failure is None and suspicious(line.lower()) and _FAILURES.search(line):
            self.failure = line.strip()[:500]

    def _add(self, test: str, values: tuple[float, ...], labels: dict[str, str]) -> None:
        self.rows += 1
        self._detail("row", [self.rows], "1", {"test": test[:60]})
        if not values or len(self.readings) >= MAX_READINGS:
            return
        match = _TEST.match(test)
        name = "rate"
        if match:
            kind, count, generated, depth = match.groups()
            name = "rate" if generated else _NAMES[kind]
            test = f"{kind}{count}" + (f"+tg{generated}" if generated else "") + (f" @ d{depth}" if depth else "")
        self.readings.append(Reading(name, "tok/s", "higher", values, {**labels, "test": test[:60]}))

    def _detail(self, name: str, values: Iterable[object], unit: str, labels: Mapping[str, str]) -> None:
        kept = tuple(figure for value in values if (figure := measured(value)) is not None)[:MAX_VALUES]
        if kept and len(self.details) < MAX_READINGS:
            self.details.append(Reading(name, unit, "neither", kept, dict(labels)))

    def _note(self, text: str) -> None:
        if len(self.notes) < MAX_NOTES:
            self.notes.append(text[:500])


def parse(text: str) -> Report:
    """The report of a whole output."""
    bench = LlamaBench()
    for line in text.splitlines():
        bench.feed(line)
    return bench.report()


def _count(value: object) -> int | None:
    if value is None:
        return 0
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else None
