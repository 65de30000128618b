"""LiteRT-LM: `litert_lm_main --benchmark`, `litert-lm benchmark`, and the demo app's figures.

Formats: runtime/proto and runtime/engine/io_types.cc of LiteRT-LM (BenchmarkInfo), its Python command line, and the AI
Edge Gallery. `Time to first token: 0.00 s` of a session without turns means that nothing was measured.
"""

from __future__ import annotations

import re

from farm.evidence.engines.findings import Kind
from farm.evidence.engines.parsing import RuleParser
from farm.evidence.engines.rules import detail, rule, setup, unit_of
from farm.evidence.engines.tables import Table
from farm.evidence.engines.text import CUT

_TURN = re.compile(r"\b(Prefill|Decode) Turn (\d+):", re.IGNORECASE)
_PROCESSED = re.compile(r"Processed (\d+) tokens in (\S+) duration")
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)(ns|us|µs|ms|s))?$")
_EXPONENT = {"ns": -9, "us": -6, "µs": -6, "ms": -3, "s": 0}
_COLUMN = re.compile(
    r"^(prefill|decode|init|time to first token|ttft)(?: speed| time)?,? *\(?(tok\w*/s\w*|ms|s)\)?$", re.IGNORECASE
)
_NAMES = {
    "prefill": ("prefill_rate", "higher"),
    "decode": ("decode_rate", "higher"),
    "init": ("init_time", "lower"),
    "time to first token": ("ttft", "lower"),
    "ttft": ("ttft", "lower"),
}
_OPTION = re.compile(r"\b(max_num_tokens|prefill_tokens|decode_tokens|num_cpu_threads|backend)\s*[=:]\s*(\w+)")


class LitertLm(RuleParser):
    """Init phases, time to first token, and the speed of every turn."""

    rules = (
        setup("init_time", r"Total init time:\s*{N}\s*{TIME}"),
        setup("init_time", r"^\s*(?:-\s*)?Init(?:ialization)?(?: Total| time):\s*{N}\s*{TIME}"),
        setup("init_phase", r"^\s+-\s*(?!Init Total)(?P<phase>[\w ]+):\s*{N}\s*{TIME}"),
        rule("ttft", r"Time to first token[^:\d]*:?\s*{N}\s*{TIME}"),
        rule("prefill_rate", r"Prefill speed[^:\d]*:?\s*{N}\s*{RATE}"),
        rule("decode_rate", r"Decode speed[^:\d]*:?\s*{N}\s*{RATE}"),
        setup("peak_memory", r"Peak [\w ]{0,40}(?:memory|ram|footprint|usage)[\w ]{0,20}[:=]\s*{N}\s*{SIZE}"),
        detail("turns", r"(?P<stage>Prefill|Decode|TextToTokenIds) Turns \(Total:? ?{N}"),
        detail("tokenize_time", r"^\s*Turn (?P<turn>\d+): {N}{TIME}"),
        detail("node", r"Node number {N} \((?P<delegate>[^)]*)\) failed"),
        detail("prefill_tokens", r"tokens in prefill\s*:\s*{N}", "tokens"),
        detail("decode_tokens", r"tokens in decode\s*:\s*{N}", "tokens"),
        detail("max_num_tokens", r"Max number of tokens\s*:\s*{N}", "tokens"),
        detail("prefill_tokens", r"Prefill tokens\s*[:=]\s*{N}"),
        detail("decode_tokens", r"Decode tokens\s*[:=]\s*{N}"),
        detail("max_num_tokens", r"\bmax_num_tokens\s*[=:]\s*{N}"),
    )
    words = {"delegate": re.compile(r"Node number \d+ \(([^)]*)\) failed")}

    def __init__(self) -> None:
        super().__init__()
        self._turn: dict[str, str] = {}
        self._table: Table | None = None
        self._known: list[re.Match[str] | None] = []

    def figures(self, text: str) -> None:
        if match := _TURN.search(text):
            self.scope["turn"] = match[2]
            self._turn = {"stage": match[1].lower()}
        if "benchmark" in text.lower():
            self.scope.update(dict(_OPTION.findall(text)))
        super().figures(text)
        if (match := _PROCESSED.search(text)) and self._turn:
            stage = self._turn["stage"]
            self.add(f"{stage}_tokens", match[1], "tokens")
            self.add(f"{stage}_time", seconds(match[2]), "s", Kind.MAIN, "lower")

    def line(self, text: str) -> None:
        if "|" in text:
            self._cells(text)
        if text.startswith("---"):
            self.scope.pop("turn", None)
        self.found.began = self.found.began or "BenchmarkInfo" in text
        if "turns recorded" in text:
            self.found.unmeasured += 1

    def _cells(self, text: str) -> None:
        """A table that somebody made of several runs: the unit stands in the column's name."""
        table = Table.of(text)
        known = [_COLUMN.match(name) for name in table.columns]
        if any(known):
            self._table, self._known = table, known
            return
        row = self._table.row(f"{text.rstrip().rstrip('|')}|") if self._table else None
        if row is None or self._table is None or self._table.rule(text) or CUT in text:
            return
        labels = {name: cell for (name, cell), column in zip(row.items(), self._known, strict=False) if not column}
        for cell, column in zip(row.values(), self._known, strict=False):
            if column is not None:
                name, better = _NAMES[column[1].lower()]
                self.add(
                    name, cell, unit_of(column[2]), Kind.SETUP if name == "init_time" else Kind.MAIN, better, labels
                )


def seconds(text: str) -> float | None:
    """A duration as Abseil prints it (`1m2.5s`, `372.565677ms`), in seconds."""
    match = _DURATION.match(text) if text else None
    if match is None or not any(match.groups()):
        return None
    hours, minutes, rest, unit = match.groups()
    part = float(f"{rest}e{_EXPONENT[unit]}") if rest else 0.0  # no product: the figure stays as it was printed
    return int(hours or 0) * 3600.0 + int(minutes or 0) * 60.0 + part
