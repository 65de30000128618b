"""PocketPal's benchmark files: a matrix of cells, or the list that the app keeps.

Formats: pocketpal-ai, e2e/baselines/benchmark (`bench` with prompt and generation length, `runs`) and its benchmark
store (`ppAvg`, `tgAvg`, `peakMemoryUsage`). A peak below the buffers of its own cell, or the very same in one cell
after another, was not sampled for that cell: it is marked as implausible.
"""

from __future__ import annotations

import re
from typing import Any

from farm.evidence.engines.findings import Kind
from farm.evidence.engines.parsing import RuleParser
from farm.evidence.engines.report import measured

_LABELS = ("model_id", "model_name", "quant", "requested_backend", "effective_backend", "device", "status", "n_threads")


class Pocketpal(RuleParser):
    """One cell: rates of prompt and generation, memory, and whatever else it times."""

    documents = True

    def __init__(self) -> None:
        super().__init__()
        self._last_peak: float | None = None

    def document(self, value: Any) -> None:
        if isinstance(value, dict):
            bench = _snake(value.get("bench") or value.get("config"))
            for key in ("device", "soc", "version"):
                if isinstance(value.get(key), str):
                    self.found.fact(key, value[key])
            for key, setting in bench.items():
                self.add(key, setting, "ms" if key.endswith("_ms") else "1")
            runs = value.get("runs") or value.get("results")
            cells = runs if isinstance(runs, list) else [value]
        else:
            bench, cells = {}, value if isinstance(value, list) else []
        for cell in cells[:1000]:
            if isinstance(cell, dict):
                self._cell({**bench, **_snake(cell.get("config"))}, _snake(cell))

    def _cell(self, bench: dict[str, Any], cell: dict[str, Any]) -> None:
        self.found.began = True
        labels = {key: str(cell[key])[:100] for key in _LABELS if isinstance(cell.get(key), str | int)}
        if labels.get("status", "ok") not in ("ok", "done", "completed"):
            self.found.note(f"cell failed: {labels}")
        for stage, name in (("pp", "prefill_rate"), ("tg", "decode_rate")):
            test = {**labels, "test": f"{stage}{bench.get(stage, '')}"}
            if f"{stage}_avg" in cell:
                self.add(name, cell[f"{stage}_avg"], "tok/s", Kind.MAIN, "higher", test)
            self.add("stddev", cell.get(f"{stage}_std"), "tok/s", labels=test)
        total = measured(cell.get("total_mib"))
        self.add("buffers", total, "MiB", labels=labels)
        self._peak(cell, total, labels)
        for key, value in cell.items():
            if key.endswith("_ms"):
                self.add(key.removesuffix("_ms"), value, "ms", Kind.SETUP, "lower", labels)

    def _peak(self, cell: dict[str, Any], total: float | None, labels: dict[str, str]) -> None:
        peak = measured(cell.get("peak_memory_mb"))
        usage = cell.get("peak_memory_usage")
        if isinstance(usage, dict):
            self.add("peak_memory", usage.get("used"), "B", Kind.SETUP, "lower", labels)
            self.add("memory", usage.get("total"), "B", labels=labels)
        if peak is None:
            return
        low = total is not None and peak < total  # the tool's MB may be MiB: the doubt is in its favour
        if low or peak == self._last_peak:
            labels = {**labels, "plausible": "false"}
            why = f"is below its buffers of {total} MiB" if low else "is that of the cell before"
            self.found.note(
                f"peak_memory {peak} MB of {labels.get('quant', 'a cell')} {why}: not sampled for this cell"
            )
        self._last_peak = peak
        self.add("peak_memory", peak, "MB", Kind.SETUP, "lower", labels)


def _snake(value: Any) -> dict[str, Any]:
    """The keys of an object in one spelling."""
    if not isinstance(value, dict):
        return {}
    return {re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", str(key)).lower(): item for key, item in list(value.items())[:200]}
