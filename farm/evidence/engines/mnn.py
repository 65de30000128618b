"""MNN: `benchmark.out`, `llm_demo`, `llm_bench` and the model runners.

Formats: benchmark/benchmark.cpp (`[ - ] model  max = …ms  min = …ms  avg = …ms`: max first, unlike ncnn; the header
line names the backend of the rows after it; an older header is decorated with asterisks),
transformers/llm/engine/demo (llm_demo.cpp, llm_bench.cpp). A backend printed as `N/A` computed nothing: its figures
are marked as implausible.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from farm.evidence.engines.findings import Kind
from farm.evidence.engines.parsing import RuleParser
from farm.evidence.engines.rules import detail, rule, setup
from farm.evidence.engines.tables import Table

_HEADER = re.compile(r"Forward type:\s*\**\s*([\w/ .-]+?)\s*\**\s+thread\s*=\s*(\d+)(.*)")
_OPTION = re.compile(r"(\w+)\s*=\s*(-?\w+)")
_ROW = re.compile(r"^\s*\[\s*-\s*\]\s*(\S+)\s+(.*)")
_CELL = re.compile(r"\b([Mm]ax|[Mm]in|[Aa]vg)\s*=\s*([-+\w.]+?)\s*(ms|us)\b")
_FALLBACK = re.compile(r"Can't Find type=(\d+) backend, use (\d+) instead", re.IGNORECASE)
_STAGE = re.compile(r"^\s*([a-z]+(?: (?:process|input|prefill))?)\s+(tokens num|time|speed)\s*=\s*([-+\w.]+)\s*(\S*)")
_TYPES = {"0": "CPU", "1": "Metal", "2": "CUDA", "3": "OpenCL", "5": "NNAPI", "6": "OpenGL", "7": "Vulkan"}
_LLM_TEST = re.compile(r"^(pp|tg)\s?(\d+)$")
_SPREAD = re.compile(r"^([\d.]+)(?:\s*(?:±|\+/-)\s*([\d.]+))?$")


class Mnn(RuleParser):
    """Rows of benchmark.out under their backend; blocks of llm_demo; the table of llm_bench."""

    rules = (
        rule("prefill_rate", r"\bPrefill(?: speed)?:\s*(?:[\d.]+\s*s?,\s*\d+ tokens,\s*)?{N}\s*{RATE}"),
        rule("decode_rate", r"\bDecode(?: speed)?:\s*(?:[\d.]+\s*s?,\s*\d+ tokens,\s*)?{N}\s*{RATE}"),
        rule("prefill_time", r"\bPrefill:\s*{N}\s*{TIME},\s*\d+ tokens"),
        rule("decode_time", r"\bDecode:\s*{N}\s*{TIME},\s*\d+ tokens"),
        detail("loop", r"\bloop\s*=\s*{N}"),
        detail("pixels", r"^\s*pixels_mp\s*=\s*{N}\s*MP", "MP"),
        detail("audio_real_time_factor", r"^\s*audio RTF\s*=\s*{N}"),
        detail("warmup", r"\bwarmup\s*=\s*{N}"),
        setup("load_time", r"(?:^|\s)(?:load|model load|init)\w* (?:time|tokenizer time)\s*[:=]?\s*{N}\s*{TIME}"),
        setup("peak_memory", r"(?:peak )?memory(?: usage| cost)?\s*[:=]\s*{N}\s*{SIZE}"),
    )
    harmless = re.compile(r"Can't open file:\s*/sys/|Can't Find type=")

    def __init__(self) -> None:
        super().__init__()
        self._table: Table | None = None

    def line(self, text: str) -> None:
        if match := _HEADER.search(text):
            self._header(match)
        elif match := _ROW.match(text):
            self._times(_CELL.findall(match[2]), {"model": match[1]})
        elif len(cells := _CELL.findall(text)) > 1:
            self._times(cells, {})
        elif match := _FALLBACK.search(text):
            asked, used = (_TYPES.get(kind, f"type {kind}") for kind in match.groups())
            self.found.fact("backend requested", f"{asked} (type {match[1]})")
            self.found.note(f"fallback: {asked} is not there, {used} is used")
        elif match := _STAGE.match(text):
            self._stage(*match.groups())
        elif text.lstrip().startswith("|"):
            self._cells(text)
        elif "MNN benchmark" in text:
            self.found.began = True

    def _header(self, match: re.Match[str]) -> None:
        self.found.began = True
        self.scope["backend"] = match[1].strip()
        self.scope["threads"] = match[2]
        self.add("threads", match[2])
        for key, value in _OPTION.findall(match[3])[:8]:
            self.scope[key] = value
        self.found.fact("backend", self.scope["backend"])
        self.scope.pop("plausible", None)
        if self.scope["backend"] == "N/A":
            self.scope["plausible"] = "false"
            self.found.note("backend N/A: nothing was computed, its figures are implausible")

    def _times(self, cells: Iterable[tuple[str, str, str]], labels: Mapping[str, str]) -> None:
        for stat, value, unit in cells:
            self.add("inference_time", value, unit, Kind.MAIN, "lower", {**labels, "stat": stat.lower()})

    def _stage(self, stage: str, what: str, value: str, unit: str) -> None:
        stage = stage.replace(" ", "_")
        if what == "tokens num":
            self.add(f"{stage}_tokens", value, "tokens")
        elif what == "time" and unit in ("s", "ms"):
            kind = Kind.MAIN if stage in ("prefill", "decode", "total", "first_prefill") else Kind.DETAIL
            self.add(f"{stage}_time", value, unit, kind, "lower")
        elif what == "speed" and unit.startswith("tok/s"):
            self.add(f"{stage}_rate", value, "tok/s", Kind.MAIN, "higher")
        elif what == "speed" and unit == "MP/s":
            self.add(f"{stage}_rate", value, unit)

    def _cells(self, text: str) -> None:
        table = Table.of(text)
        if any(column.lower() in ("t/s", "speed(tok/s)") for column in table.columns):
            self._table = table
            self.found.began = True
            return
        if self._table is None or self._table.rule(text):
            return
        row = self._table.row(text)
        if row is None:
            self.found.torn = True
            return
        speed = next(key for key in row if key.lower() in ("t/s", "speed(tok/s)"))
        test = row.get("test") or row.get("llm_demo") or ""
        labels = {key: cell for key, cell in row.items() if key not in (speed, "test", "llm_demo") and cell}
        for part, figure in zip(test.split("<br>") or [""], row[speed].split("<br>"), strict=False):
            name, label = _test(part.strip())
            match = _SPREAD.match(figure.strip())
            self.add(name, match[1] if match else figure, "tok/s", Kind.MAIN, "higher", {**labels, "test": label})
            if match and match[2]:
                self.add("stddev", match[2], "tok/s", labels={**labels, "test": label})


def _test(text: str) -> tuple[str, str]:
    if match := _LLM_TEST.match(text):
        return ("prefill_rate" if match[1] == "pp" else "decode_rate"), text
    if text.startswith("prompt"):
        return "prefill_rate", text
    return ("decode_rate" if text.startswith("decode") else "rate"), text
