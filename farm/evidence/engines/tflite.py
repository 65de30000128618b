"""TensorFlow Lite's and LiteRT's `benchmark_model`, and LiteRT's `benchmark_litert_model`.

Formats: tensorflow/lite/tools/benchmark (benchmark_model.cc, util/stats_calculator), litert/tools. Times are in
microseconds, above six digits in scientific notation; the newer tool prints milliseconds with their unit. The oldest
summary says `Warmup: …, Init: …, no stats: …`; percentiles came in 2024. A block of `count=…` is a warm-up or a
measurement by the order of the `Running benchmark` lines before it.
"""

from __future__ import annotations

import re

from farm.evidence.engines.findings import Kind
from farm.evidence.engines.parsing import RuleParser
from farm.evidence.engines.rules import detail, rule, setup

_RUNNING = re.compile(r"Running benchmark for at least (\d+) iteration")
_COUNTS = re.compile(
    r"(?:^|\s)(?:(?P<what>[A-Z]\w+) \((?P<unit>microseconds|bytes)\): )?count=(?P<count>\d+)(?P<rest>.*)"
)
_PAIR = re.compile(r"\b(first|curr|min|max|avg|std|median|p\d+)=([-+\w.]+)")
_SUMMARY = re.compile(r"[Ii]nference timings in us: (.*)")
_ENTRY = re.compile(r"\s*([A-Za-z][\w ()]*?): ([-+\w.]+)(?:,|$)")
_SUMMARY_NAMES = {
    "init": ("init_time", "", Kind.SETUP),
    "first inference": ("inference_time", "first", Kind.MAIN),
    "warmup": ("warmup_time", "avg", Kind.SETUP),
    "warmup (avg)": ("warmup_time", "avg", Kind.SETUP),
    "inference": ("inference_time", "avg", Kind.MAIN),
    "inference (avg)": ("inference_time", "avg", Kind.MAIN),
    "no stats": ("inference_time", "avg", Kind.MAIN),
    "with stats": ("inference_time_profiled", "avg", Kind.SETUP),
}
_BLOCK = re.compile(
    r"^(?P<what>Warmup|Inference) \((?P<stat>\w+)\):\s*(?P<v>[-+\w.]+)(?:\s*(?P<unit>ms|us|s)\b)?"
    r"(?:\s*\((?P<runs>\d+) runs\))?"
)
_DELEGATED = re.compile(r"model graph will (not )?be (?:(completely|partially) )?executed by the delegate")
_COLUMN = re.compile(r"\[([^\]]{1,40})\]")


class Tflite(RuleParser):
    """benchmark_model of every age."""

    rules = (
        setup("init_time", r"Initialized session in {N}\s*{TIME}"),
        setup("init_time", r"^Model initialization:\s*{N}\s*{TIME}"),
        setup("memory_init", r"(?:footprint|memory)[^:]*\(MB\):\s*init={N}", "MB"),
        setup("memory_overall", r"(?:footprint|memory)[^:]*\(MB\):.*?\boverall={N}", "MB"),
        setup("memory_peak", r"peak memory footprint \(MB\) via periodic monitoring: {N}", "MB"),
        setup("memory_init", r"^Init footprint:\s*{N}\s*{SIZE}"),
        setup("memory_overall", r"^Overall footprint:\s*{N}\s*{SIZE}"),
        setup("memory_peak", r"^Peak (?:memory )?(?:footprint|usage)[^:]*:\s*{N}\s*{SIZE}"),
        setup("max_rss", r"max resident set size = {N}\s*{SIZE}"),
        setup("malloc_size", r"total malloc-ed size = {N}\s*{SIZE}"),
        setup("memory_in_use", r"in-use allocated/mmapped size = {N}\s*{SIZE}"),
        setup("memory_rss", r"^[-+ ]*(?P<part>VmRSS|RssAnnon|RssFile \+ RssShmem)\s*: {N}\s*{SIZE}"),
        rule("throughput", r"^Throughput:\s*{N}\s*(?P<unit>[KMG]i?B/s)", better="higher"),
        rule("inference_time", r"^\s*run (?P<run>\d+):\s*{N}\s*{TIME}"),
        rule("inference_time", r"^\s*(?P<stat>average|min|max|median):\s*{N}\s*{TIME}"),
        detail("model_size", r"input model file size \(MB\): {N}", "MB"),
        detail("threads", r"(?:Num threads|#threads used for CPU inference): \[{N}\]"),
        detail("nodes_delegated", r"Replacing {N} out of \d+ node"),
        detail("nodes", r"Replacing \d+ out of {N} node"),
        detail("partitions", r"yielding {N} partitions?"),
        detail("delegate_kernels", r"w/ {N} delegate kernels?"),
        detail("nodes_executed", r"Number of nodes executed: {N}"),
        detail("nodes_observed", r"{N} nodes observed"),
        detail("node", r"Node number {N} \((?P<op>[^)]*)\) failed"),
    )
    words = {
        "model": re.compile(r"Loaded model (\S+)"),
        "signature": re.compile(r"^Signature name:\s*(\S+)"),
        "delegate": re.compile(r"Explicitly applied (\S+) delegate"),
        "accelerators": re.compile(r"accelerators available: \[([^\]]*)\]"),
    }

    def __init__(self) -> None:
        super().__init__()
        self._phases = 0
        self._columns: list[str] | None = None

    def heading(self, title: str) -> None:
        super().heading(title)
        self._columns = None

    def line(self, text: str) -> None:
        if match := _RUNNING.search(text):
            self._phases += 1
            self.found.began = True
            self.add("requested_runs", match[1], labels={"phase": self._phase()})
        elif match := _COUNTS.search(text):
            self._counts(match)
        elif match := _SUMMARY.search(text):
            self._summary(match[1])
        elif match := _BLOCK.match(text.strip()):
            self._block(match)
        elif match := _DELEGATED.search(text):
            self.found.fact("delegation", "none" if match[1] else {"completely": "full"}.get(match[2], "partial"))
        elif "\t" in text:
            self._profile(text)
        if "Initialized session" in text:
            self._phases = 0
        if match := re.search(r"\b(\w+) delegate created\.", text):
            self.found.fact("delegate", match[1])

    def _phase(self) -> str:
        return "warmup" if self._phases == 1 else "inference"

    def _counts(self, match: re.Match[str]) -> None:
        if match["what"] and match["unit"]:
            name, kind = f"profiled_{match['what'].lower()}", Kind.DETAIL
        else:
            name, kind = f"{self._phase()}_time", Kind.MAIN if self._phase() == "inference" else Kind.SETUP
        unit = "B" if match["unit"] == "bytes" else "us"
        self.add("count", match["count"], labels={"phase": name})
        for stat, value in _PAIR.findall(match["rest"]):
            spread = stat == "std"
            self.add(name, value, unit, Kind.DETAIL if spread else kind, "lower", {"stat": stat})

    def _summary(self, text: str) -> None:
        self._phases = 0
        for key, value in _ENTRY.findall(text):
            if (known := _SUMMARY_NAMES.get(key.strip().lower())) is not None:
                name, stat, kind = known
                self.add(name, value, "us", kind, "lower", {"stat": stat} if stat else {})

    def _block(self, match: re.Match[str]) -> None:
        name, stat = f"{match['what'].lower()}_time", match["stat"]
        unit = match["unit"] or "ms"
        kind = Kind.DETAIL if stat == "std" else Kind.MAIN if match["what"] == "Inference" else Kind.SETUP
        self.add(name, match["v"], unit, kind, "lower", {"stat": stat})
        if match["runs"]:
            self.add("count", match["runs"], labels={"phase": name})

    def _profile(self, text: str) -> None:
        """Tables of the op profiler: tabs between cells, names of columns in brackets."""
        cells = [cell.strip() for cell in text.strip("\t").split("\t")]
        if cells and all(_COLUMN.fullmatch(cell) for cell in cells):
            self._columns = [cell[1:-1].lower() for cell in cells]
            return
        if self._columns is None or len(cells) != len(self._columns):
            return
        row = dict(zip(self._columns, cells, strict=True))
        labels = {"node": row.get("name") or row.get("node type", ""), "type": row.get("node type", "")}
        for column, name, unit in (
            ("avg ms", "op_time", "ms"),
            ("first", "op_time_first", "ms"),
            ("%", "op_share", "%"),
            ("times called", "op_calls", "1"),
            ("count", "op_count", "1"),
        ):
            if column in row:
                self.add(name, row[column].rstrip("%"), unit, labels=labels)

    def end(self) -> None:
        if self.found.facts.get("delegation") == "none":
            self.found.note("fallback: the delegate took no node; the CPU ran the model")
