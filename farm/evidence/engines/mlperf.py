"""MLPerf: the load generator's detail log and summary, and the mobile app's result file.

Formats: loadgen/logging.cc and results.cc of MLCommons inference (`:::MLLOG {…}`, `MLPerf Results Summary`), and
flutter/lib/data of mobile_app_open. A run that loadgen calls INVALID has figures that do not count.
"""

from __future__ import annotations

import re
from typing import Any

from farm.evidence.engines.findings import Kind
from farm.evidence.engines.parsing import RuleParser
from farm.evidence.engines.report import json_object, measured
from farm.evidence.engines.rules import rule

_SUMMARY = re.compile(r"^(?:\* )?(\w[\w .%/()-]{0,80}?)\s{0,40}:\s{0,40}([-+\w.]+)$")
_RESULT = re.compile(r"Result is\s*:\s*(VALID|INVALID)")
_TAIL = re.compile(r"_(ns|us|ms|s)$")


class Mlperf(RuleParser):
    """Log lines, summary and result file, each by its own names."""

    headings = False
    documents = True
    rules = (rule("accuracy", r"(?:^|\s)(?:accuracy|mAP|f1|mIoU)\s*[=:]\s*{N}\s*%?\s*(?:,|$)", "%", better="higher"),)
    words = {
        "scenario": re.compile(r"^Scenario\s*:\s*(\w+)"),
        "mode": re.compile(r"^Mode\s*:\s*(\w+)"),
        "system": re.compile(r"^SUT name\s*:\s*(.+)"),
    }

    def line(self, text: str) -> None:
        if ":::MLLOG" in text:
            entry = json_object(text.split(":::MLLOG", 1)[1])
            if entry is None:
                self.found.torn = True
            else:
                self._entry(str(entry.get("key", "")), entry.get("value"))
                if isinstance(extra := entry.get("metadata"), dict) and extra.get("is_error") is True:
                    self.found.note(f"error: {entry.get('key')}: {str(entry.get('value'))[:200]}")
        elif match := _RESULT.search(text):
            self._validity(match[1])
        elif ":" in text and (match := _SUMMARY.match(text.strip()[:200])):
            self._summary(match[1].lower(), match[2])

    def _validity(self, word: str) -> None:
        self.found.fact("validity", word)
        self.found.began = True
        self.found.invalid = self.found.invalid or word == "INVALID"

    def _entry(self, key: str, value: object) -> None:
        if key == "result_validity":
            self._validity(str(value))
        elif isinstance(value, bool):
            self.found.fact(key, str(value).lower())
        elif isinstance(value, int | float):
            self._figure(key, value)

    def _figure(self, key: str, value: object) -> None:
        timed = _TAIL.search(key)
        rated = "per_sec" in key or "qps" in key
        if key.startswith("result_") and (timed or rated):
            name = re.sub(r"^result_|_(?:ns|us|ms|s)$", "", key)
            self.add(name, value, timed[1] if timed else "1/s", Kind.MAIN, "lower" if timed else "higher")
        else:
            self.add(key, value, timed[1] if timed else "1/s" if rated else "1")

    def _summary(self, key: str, value: str) -> None:
        timed = "(ns)" in key or "(ms)" in key or "percentile estimate" in key
        rated = "per second" in key or "qps" in key
        if timed or rated:
            unit = "ms" if "(ms)" in key else "ns" if timed else "1/s"
            wanted = "target" in key or "expected" in key or "min_duration" in key or "max_duration" in key
            name = re.sub(r"\W+", "_", re.sub(r"\((?:ns|ms)\)", "", key)).strip("_")
            self.add(name, value, unit, Kind.DETAIL if wanted else Kind.MAIN, "lower" if timed else "higher")
        elif measured(value) is None and key in (
            "min duration satisfied",
            "min queries satisfied",
            "early stopping satisfied",
        ):
            self.found.fact(key, value)

    def document(self, value: Any) -> None:
        """The mobile app's file: one entry per benchmark, with a performance and an accuracy run."""
        results = value.get("results") if isinstance(value, dict) else value
        for result in results[:1000] if isinstance(results, list) else ():
            if isinstance(result, dict):
                self._benchmark(result)

    def _benchmark(self, result: dict[str, Any]) -> None:
        backend = result.get("backend_info") if isinstance(result.get("backend_info"), dict) else {}
        labels = {
            "benchmark": str(result.get("benchmark_id", ""))[:100],
            "scenario": str(result.get("loadgen_scenario", ""))[:40],
            "backend": str((backend or {}).get("backend_name", ""))[:60],
            "accelerator": str((backend or {}).get("accelerator_name", ""))[:60],
        }
        labels = {key: word for key, word in labels.items() if word}
        for run_name in ("performance_run", "accuracy_run"):
            run = result.get(run_name)
            if isinstance(run, dict):
                self._run(run, {**labels, "run": run_name.removesuffix("_run")})
        for key, unit in (("min_duration", "s"), ("min_samples", "1")):
            self.add(key, result.get(key), unit, labels=labels)

    def _run(self, run: dict[str, Any], labels: dict[str, str]) -> None:
        loadgen = run.get("loadgen_info") if isinstance(run.get("loadgen_info"), dict) else {}
        valid = (loadgen or {}).get("validity")
        if isinstance(valid, bool):
            labels = {**labels, "valid": str(valid).lower()}
            self.found.invalid = self.found.invalid or not valid
        for name in ("throughput", "accuracy", "accuracy2"):
            item = run.get(name)
            if isinstance(item, dict):
                figure = item.get("value", item.get("normalized"))
                self.add(name, figure, "1/s" if name == "throughput" else "1", Kind.MAIN, "higher", labels)
        if isinstance(mean := (loadgen or {}).get("latency_mean"), int | float):
            self.add("latency_mean", mean, "s", Kind.MAIN, "lower", labels)
        if isinstance(p90 := (loadgen or {}).get("latency_90"), int | float):
            self.add("latency_90", p90, "s", Kind.MAIN, "lower", labels)
        self.add("samples", run.get("measured_samples"), labels=labels)
        self.add("measured_duration", run.get("measured_duration"), "s", labels=labels)
        self.add("loadgen_duration", (loadgen or {}).get("duration"), "s", labels=labels)
