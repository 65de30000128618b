"""Qualcomm: AI Hub's profile summaries, Genie's key figures and profile, QNN's profile viewer, SNPE's diagnosis.

Formats: AI Hub Models (printing of profile metrics in two ages, the profile's JSON, tables of its model pages),
`genie-t2t-run` (a `[KPIS]` block, or `--profile` as JSON with `{"value": …, "unit": …}`), `qnn-profile-viewer` and
`snpe-diagview`. AI Hub's times are estimates; its memory is a range; `<0.1` is no figure.
"""

from __future__ import annotations

import re
from typing import Any

from farm.evidence.engines.findings import Kind
from farm.evidence.engines.parsing import RuleParser
from farm.evidence.engines.report import measured
from farm.evidence.engines.rules import TIME, detail, rule, setup, unit_of
from farm.evidence.engines.tables import Table

_UNIT = re.compile(r"\b(NPU|GPU|CPU|Total)\s*(?:\(|:\s*)(\d+)(?:\s*(?:ops|layers))?\)?")
_STATS = re.compile(r"^\s*((?:[\w-]+ )*Stats(?: \(\w+\))?):\s*$")
_GRAPH = re.compile(r"^\s*(?:-+\s*)?Graph \d+ \(([^)]+)\)")
_STAT = re.compile(
    r"^\s+(NetRun(?: IPS)?|Backend \(.+?\)(?: time)?|[A-Z][\w ()]{2,60}?)"
    r":\s+(\d[\d.]*)\s*(us|ms|cycles|count|inf/sec)\b"
)
_SNPE = re.compile(
    r"^\s*(Load|Deserialize|Create|Init|De-Init|Create Network\(s\)|RPC Init Time|Snpe Accelerator Init Time"
    r"|Accelerator Init Time|Total Inference Time|Forward Propagate Time|RPC Execute Time"
    r"|Snpe Accelerator Time|Accelerator Time)"
    r":\s*(\d[\d.]*)\s*us\b"
)
_RATES = {"prompt-processing-rate": "prefill_rate", "token-generation-rate": "decode_rate"}
_HUB = {
    "estimated_inference_time": ("inference_time", "us", Kind.MAIN),
    "estimated_inference_peak_memory": ("peak_memory", "B", Kind.SETUP),
    "first_load_time": ("first_load_time", "us", Kind.SETUP),
    "warm_load_time": ("warm_load_time", "us", Kind.SETUP),
    "compile_time": ("compile_time", "us", Kind.SETUP),
}
_COLUMNS = re.compile(
    r"(inference time|peak memory range|tokens/sec|time to first token|load time)[^(]*(?:\(\s*(\w+)\s*(?:,.*)?\))?",
    re.I,
)
_R = r"{N}\s*(?P<unit>tok\w*/s\w*)"


class Qualcomm(RuleParser):
    """Whatever of Qualcomm's tools printed."""

    rules = (
        rule("inference_time", r"Estimated inference time:\s*{N}\s*{TIME}"),
        rule("inference_time", r"Estimated inference time \((?P<unit>ms|us)\)\s*[:|]\s*{N}"),
        setup("peak_memory_min", r"Estimated peak memory (?:range|usage):\s*{N}\s*-\s*[\d.]+\s*(?P<unit>[KMG]i?B)"),
        setup(
            "peak_memory_max", r"Estimated peak memory (?:range|usage):\s*(?:[\d.]+\s*-\s*)?{N}\s*(?P<unit>[KMG]i?B)"
        ),
        setup("peak_memory_min", r"Estimated peak memory \w+ \((?P<unit>\w+)\)\s*[:|]\s*\[\s*{N}\s*,"),
        setup("peak_memory_max", r"Estimated peak memory \w+ \((?P<unit>\w+)\)\s*[:|]\s*\[[^,\]]*,\s*{N}\s*\]"),
        setup("peak_memory", r"Peak memory \((?P<unit>MB)\)\s*[:|]\s*{N}"),
        setup("load_time", r"\bLoad time \((?P<unit>ms)\)\s*[:|]\s*{N}"),
        detail("total_layers", r"Total # Ops\s*:\s*{N}"),
        setup("init_time", r"^\s*(?:\w+ )?Init Time:\s*{N}\s*(?P<unit>us|ms|s)\b"),
        rule("prefill_time", r"Prompt Processing Time:\s*{N}\s*{TIME}"),
        rule("prefill_rate", r"Prompt Processing Rate\s*:\s*" + _R),
        rule("decode_time", r"Token Generation Time:\s*{N}\s*{TIME}"),
        rule("decode_rate", r"Token Generation Rate\s*:\s*" + _R),
        rule("ttft", r"Time to First Token:\s*{N}\s*{TIME}"),
    )
    words = {"device": re.compile(r"^\s*Device\s*:\s*(.+)"), "job": re.compile(r"Profile Job summary of (.+)")}
    documents = True
    harmless = re.compile(r"^\s*Backend \(")

    def __init__(self) -> None:
        super().__init__()
        self._table: Table | None = None

    def heading(self, title: str) -> None:
        if title.endswith("Stats") or "Stats (" in title:
            self.scope.pop("graph", None)
            self.scope["section"] = title[:80]

    def line(self, text: str) -> None:
        if "Compute Unit" in text and text.lstrip()[:1] != "|":
            self._layers(text)
        if match := re.search(r"Estimated inference time[^<]*<\s*([\d.]+)", text, re.IGNORECASE):
            self.found.unmeasured += 1
            self.found.note(f"inference_time: printed <{match[1]}: not measured")
        if match := _STATS.match(text):
            self.heading(match[1])
        elif match := _GRAPH.match(text):
            self.scope["graph"] = match[1]
        elif (match := _SNPE.match(text)) or ("section" in self.scope and (match := _STAT.match(text))):
            self._stat(match)
        elif text.lstrip().startswith("|"):
            self._cells(text)
        self.found.began = self.found.began or "Profile Job" in text or "[KPIS]" in text

    def document(self, value: Any) -> None:
        self._json(value, {}, 0)

    def _layers(self, text: str) -> None:
        for unit, count in _UNIT.findall(text):
            self.add(f"{unit.lower()}_layers", count)
            if unit == "CPU" and int(count[:12]):
                self.found.note(f"fallback: layers that ran on the CPU: {count}")

    def _stat(self, match: re.Match[str]) -> None:
        groups = match.groups()
        label, value = groups[0].strip(), groups[1]
        unit = unit_of(groups[2]) if len(groups) > 2 else "us"
        section = self.scope.get("section", "").lower()
        timed = unit in ("us", "ms")
        main = ("execute" in section or "Inference" in label or "Forward" in label) and (timed or unit == "1/s")
        name = (
            "inference_time"
            if main and timed
            else "inference_rate"
            if main
            else re.sub(r"\W+", "_", label).strip("_").lower()
        )
        kind = Kind.MAIN if main else Kind.SETUP if timed else Kind.DETAIL
        better = "higher" if unit == "1/s" else "lower" if timed else "neither"
        self.add(name, value, unit, kind, better, {"of": label})

    def _cells(self, text: str) -> None:
        """The tables of a model's page."""
        table = Table.of(text)
        if any(_COLUMNS.search(column) for column in table.columns):
            self._table = table
            return
        row = None if self._table is None or self._table.rule(text) else self._table.row(text)
        for column, cell in (row or {}).items():
            match = _COLUMNS.search(column)
            figure = re.match(r"^([\d.]+)(?:\s*(?:-\s*([\d.]+))?\s*(ms|us|s|MB|GB)?)?$", cell) if match else None
            if match is None or figure is None:
                continue
            unit = unit_of(figure[3] or match[2] or "1")
            what = match[1].lower()
            labels = {key: word for key, word in (row or {}).items() if word and not _COLUMNS.search(key)}
            if "memory" in what:
                self.add(
                    "peak_memory_min" if figure[2] else "peak_memory", figure[1], unit, Kind.SETUP, "lower", labels
                )
                self.add("peak_memory_max", figure[2], unit, Kind.SETUP, "lower", labels) if figure[2] else None
            elif "tokens" in what:
                self.add("decode_rate", figure[1], "tok/s", Kind.MAIN, "higher", labels)
            else:
                name = "ttft" if "first" in what else what.replace(" ", "_")
                self.add(name, figure[1], unit, Kind.SETUP if "load" in what else Kind.MAIN, "lower", labels)

    def _json(self, value: Any, labels: dict[str, str], depth: int) -> None:
        """Genie's profile and AI Hub's: figures by name, wherever they stand."""
        if depth > 12:
            return
        if isinstance(value, list):
            for item in value[:10_000]:
                self._json(item, labels, depth + 1)
        if not isinstance(value, dict):
            return
        if isinstance(kind := value.get("type"), str):
            labels = {**labels, "event": kind[:60]}
        for key, item in list(value.items())[:1000]:
            if isinstance(item, dict) and "value" in item and "unit" in item:
                self._genie(str(key), item, labels)
            elif key in _HUB:
                name, unit, of = _HUB[key]
                self.add(name, item, unit, of, "lower", labels)
            elif key == "duration" and measured(item) is not None and "event" in labels:
                self.add("duration", item, "us", Kind.SETUP, "lower", labels)
            else:
                self._json(item, labels, depth + 1)

    def _genie(self, key: str, item: dict[str, Any], labels: dict[str, str]) -> None:
        unit = unit_of(str(item["unit"]) or "1")
        timed = re.fullmatch(TIME, unit) is not None
        name = _RATES.get(key, {"time-to-first-token": "ttft"}.get(key, key.replace("-", "_")))
        if unit == "tok/s" or name.endswith("_rate"):
            self.add(name, item["value"], unit, Kind.MAIN, "higher", labels)
        elif timed:
            setup_time = "init" in key or "load" in key or "create" in key
            self.add(name, item["value"], unit, Kind.SETUP if setup_time else Kind.MAIN, "lower", labels)
        else:
            self.add(name, item["value"], "tokens" if key.startswith("num-") else unit, labels=labels)
