"""llama.cpp, all tools of all ages, in one parser: their outputs stand in one log more often than alone.

- `llama-bench`: see llama_cpp. `llama-batched-bench` and its sibling `llama-sweep-bench`: a table of counts, times and
  speeds, or JSON lines.
- Timings of a context: `llama_print_timings` (2023: per run, without rates), `llama_perf_*_print`, the server's
  `print_timing`, and `timings` of its JSON.
- The footer of the new `llama-cli` (one decimal, the locale's mark, none when its output is a pipe).
- `llama-mtmd-cli`, the older llava tools: images encoded and decoded, in whole milliseconds.
- Buffers, the memory breakdown in MiB, perplexity, `llama-batched`'s and the speculative tools' speeds.

Sources: src/llama-context.cpp, common/, tools/ of llama.cpp over its versions.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from farm.evidence.engines.findings import Kind
from farm.evidence.engines.llama_cpp import LlamaBench
from farm.evidence.engines.parsing import RuleParser
from farm.evidence.engines.report import MAX_NOTES, Report, Status, json_object
from farm.evidence.engines.rules import detail, rule, setup
from farm.evidence.engines.tables import Table
from farm.evidence.engines.text import clean

_TIMING = re.compile(
    r"\b(?P<what>prompt eval|eval|sampling|sample|load|total|unaccounted)\s+time\s*=\s*(?P<ms>[-+\w.]+?)\s*ms\b"
    r"(?:\s*/\s*(?P<count>\d+)\s*(?:runs?|tokens?)\b)?"
    r"(?:\s*\(\s*(?P<each>[-+\w.]+?) ms per (?:token|run)(?:\s*,\s*(?P<rate>[-+\w.]+?) tokens per second)?)?"
)
_STAGE = {
    "prompt eval": ("prefill", Kind.MAIN),
    "eval": ("decode", Kind.MAIN),
    "sampling": ("sampling", Kind.DETAIL),
    "sample": ("sampling", Kind.DETAIL),
    "load": ("load", Kind.SETUP),
    "total": ("total", Kind.SETUP),
    "unaccounted": ("unaccounted", Kind.DETAIL),
}
_BREAKDOWN = re.compile(
    r"memory_breakdown_print:\s*\|\s+- (?P<device>.+?)\s*\|\s*(?:(?P<total>\d+)\s*=\s*(?P<free>\d+)\s*\+\s*\()?\s*"
    r"(?P<self>\d+)\s*=\s*(?P<model>\d+)\s*\+\s*(?P<context>\d+)\s*\+\s*(?P<compute>\d+)"
)
_SETTING = re.compile(r"\b(n_kv_max|n_batch|n_ubatch|n_threads|n_threads_batch|n_ctx|n_predict)\s*=\s*(\d+)")
_PROJECTOR = re.compile(r"multimodal projector backend: (\w+) \(auto-default, (.+?)\)")
_BEGINNING = re.compile(r"encoding (?:image|audio)|^main: n_kv_max|^llama_batched_bench: n_kv_max")
_SERVER = {
    "prompt_ms": ("prefill_time", "ms", Kind.MAIN, "lower"),
    "prompt_per_second": ("prefill_rate", "tok/s", Kind.MAIN, "higher"),
    "predicted_ms": ("decode_time", "ms", Kind.MAIN, "lower"),
    "predicted_per_second": ("decode_rate", "tok/s", Kind.MAIN, "higher"),
    "prompt_n": ("prefill_tokens", "tokens", Kind.DETAIL, "neither"),
    "predicted_n": ("decode_tokens", "tokens", Kind.DETAIL, "neither"),
}
_BATCHED_JSON = {
    "t_pp": "T_PP s",
    "speed_pp": "S_PP t/s",
    "t_tg": "T_TG s",
    "speed_tg": "S_TG t/s",
    "t": "T s",
    "speed": "S t/s",
}
_BATCHED_KEYS = {"pp": "PP", "tg": "TG", "pl": "B", "n_kv": "N_KV"}


class Llama(RuleParser):
    """Bench rows by LlamaBench, everything else by the lines' own words."""

    rules: ClassVar = (
        rule("prefill_rate", r"\[ *Prompt:\s*{N}\s*t/s", "tok/s"),
        rule("decode_rate", r"\| *Generation:\s*{N}\s*t/s *\]", "tok/s"),
        rule(
            "image_encode_time", r"(?:image|audio|image slice|audio slice|video)(?: slice)? encoded in\s*{N}\s*{TIME}"
        ),
        rule("image_decode_time", r"(?:image|audio) decoded \(batch (?P<batch>\d+/\d+)\) in\s*{N}\s*{TIME}"),
        detail("image_time_per_patch", r"\(\s*{N}\s*{TIME} per image patch\)"),
        detail("image_tokens", r"(?:\bn_tokens_batch|image_tokens->nx|\bn_image_tokens)\s*[=:]\s*{N}", "tokens"),
        detail("image_tokens", r"\btotal {N} tokens\b", "tokens"),
        detail("batches", r"decoding (?:image|audio) batch \d+/{N},"),
        setup("reserve_time", r"\breserve took\s*{N}\s*{TIME}"),
        rule("encode_rate", r"\bencoded\s+\d+ tokens in\s+[\d.]+ s(?:econds)?, speed:\s*{N}\s*t/s", "tok/s"),
        rule("decode_rate", r"\bdecoded\s+\d+ tokens in\s+[\d.]+ s(?:econds)?, speed:\s*{N}\s*t/s", "tok/s"),
        rule("encode_time", r"\bencoded\s+\d+ tokens in\s+{N} {TIME}"),
        rule("decode_time", r"\bdecoded\s+\d+ tokens in\s+{N} {TIME}"),
        detail("accepted", r"^\s*(?:accept|draft acceptance rate)\s*=\s*{N}\s*%", "%"),
        detail("acceptance", r"draft acceptance rate\s*=\s*{N}(?!\s*%)"),
        detail("drafted_tokens", r"^\s*n_drafted?\s*=\s*{N}", "tokens"),
        detail("accepted_tokens", r"^\s*n_accept\s*=\s*{N}", "tokens"),
        rule("perplexity", r"Final estimate: PPL(?:\(Q\))?\s*=\s*{N}", better="lower"),
        detail("perplexity_error", r"Final estimate: PPL\s*=\s*[\d.]+ \+/- {N}"),
        rule("pass_time", r"perplexity:\s*{N} (?P<unit>seconds) per pass"),
        setup(
            "buffer_size",
            r"(?P<device>[\w-]+)\s+(?P<what>model|KV|RS|compute|output)(?: \w+)? buffer size\s*=\s*{N} {SIZE}",
        ),
        detail("requested", r"failed to allocate {N} {SIZE}"),
        detail("requested", r"(?:allocation|buffer) of size {N}", "B"),
        detail("model_size", r"(?:model size|file size)\s*=\s*{N} {SIZE}"),
        detail("build_number", r"\bbuild\s*[=:]\s*b?{N}(?=[ -]\(?[0-9a-f]{5,40}\b)"),
        detail("graphs_reused", r"graphs reused\s*=\s*{N}"),
        detail("layers_offloaded", r"offloaded {N}/\d+ layers"),
        detail("kv_size", r"\bKV self size\s*=\s*{N} {SIZE}"),
        detail("image_tokens", r"image embedding created: {N} tokens", "tokens"),
        rule("prefill_rate", r"Total prompt tokens:\s*\d+, speed:\s*{N} t/s", "tok/s"),
        rule("decode_rate", r"Total gen tokens:\s*\d+, speed:\s*{N} t/s", "tok/s"),
        rule("total_rate", r"Total speed \(AVG\):\s*(?:\d+, )?speed:\s*{N} t/s", "tok/s"),
    )
    words: ClassVar = {
        "build": re.compile(r"\bbuild\s*[=:]\s*(\S.{0,60})"),
        "gpu": re.compile(
            r"^ggml_(?:vulkan|opencl|metal_init|cuda_init)\S*\s*(?:0 =|selecting device:|GPU name:)\s*([^|]+)"
        ),
        "projector backend": re.compile(r"multimodal projector backend:\s*(\w+)"),
    }

    def __init__(self) -> None:
        super().__init__()
        self._bench = LlamaBench()
        self._batched: Table | None = None
        self._rows = 0
        self._timings: set[str] = set()

    def feed(self, line: str, cut: bool = False) -> None:
        text = clean(line, cut)
        stripped = text.lstrip()
        if stripped.startswith(">") and stripped.lstrip("> ").startswith("|"):
            stripped = stripped.lstrip("> ")  # quoted in a mail or a thread
        if stripped.startswith("{") and self._json(stripped):
            return
        if stripped.startswith("|") and self._row(stripped, cut):
            return
        self._bench.feed(stripped if stripped.startswith("|") else text, cut)
        self.take(text, cut)

    def line(self, text: str) -> None:
        for timing in _TIMING.finditer(text) if " time" in text and "=" in text else ():
            self._timing(timing)
        for key, value in _SETTING.findall(text) if "n_" in text else ():
            self.add(key, value)
        if "breakdown" in text and (match := _BREAKDOWN.search(text)):
            for part in ("total", "free", "self", "model", "context", "compute"):
                if match[part]:
                    self.add(f"memory_{part}", match[part], "MiB", labels={"device": match["device"]})
        projector = _PROJECTOR.search(text) if "projector" in text else None
        if projector is not None and projector[1] == "CPU" and "GPU" in projector[2]:
            self.found.note(f"fallback: the projector runs on the CPU although there is a GPU ({projector[2]})")
        self.found.began = self.found.began or _BEGINNING.search(text) is not None

    def cut(self, text: str) -> None:
        self.found.torn = self.found.torn or bool(self._timings) or self._bench.seen or self.found.began

    def _timing(self, match: re.Match[str]) -> None:
        name, kind = _STAGE[match["what"]]
        self._timings.add(name)
        self.add(f"{name}_time", match["ms"], "ms", kind, "lower")
        if match["count"]:
            self.add(f"{name}_tokens", match["count"], "tokens")
        if match["each"]:
            self.add(f"{name}_time_per_token", match["each"], "ms")
        if match["rate"]:
            self.add(f"{name}_rate", match["rate"], "tok/s", kind, "higher")

    def _json(self, text: str) -> bool:
        """A row of llama-batched-bench or an answer of the server; True when it was one."""
        body = json_object(text)
        if body is None:
            return False
        if "speed_pp" in body:
            self._batched_row({_BATCHED_JSON.get(k, _BATCHED_KEYS.get(k, k)): v for k, v in body.items()})
            return True
        timings = body.get("timings")
        if not isinstance(timings, dict):
            return False
        for key, (name, unit, kind, better) in _SERVER.items():
            if key in timings:
                self.add(name, timings[key], unit, kind, better)
        return True

    def _row(self, text: str, cut: bool) -> bool:
        """A line of llama-batched-bench's table; True when it was one."""
        table = Table.of(text)
        if "PP" in table.columns and "S_PP t/s" in table.columns:
            self._batched = table
            self.found.began = True
            if not cut:
                self.add("columns", len(table.columns))
            return True
        if "t/s" in table.columns:
            self._batched = None
        if self._batched is None:
            return False
        if not self._batched.rule(text):
            row = None if cut and not text.rstrip().endswith("|") else self._batched.row(text)
            if row is None:
                self.found.torn = True
            else:
                self._batched_row(row)
        return True

    def _batched_row(self, row: dict[str, Any]) -> None:
        self._rows += 1
        labels: dict[str, str] = {key: str(row[key])[:20] for key in ("PP", "TG", "B") if key in row}
        self.add("row", self._rows, labels=labels)
        for key in ("PP", "TG", "B", "N_KV"):
            self.add(key, row.get(key), "tokens" if key != "B" else "1", labels=labels)
        for column, name in (("T_PP s", "prefill_time"), ("T_TG s", "decode_time"), ("T s", "total_time")):
            if column in row:
                self.add(name, row[column], "s", Kind.MAIN, "lower", labels)
        for column, name in (("S_PP t/s", "prefill_rate"), ("S_TG t/s", "decode_rate"), ("S t/s", "total_rate")):
            if column in row:
                self.add(name, row[column], "tok/s", Kind.MAIN, "higher", labels)

    def report(self) -> Report:
        bench = self._bench.report()
        found = self.found
        found.torn = found.torn or self._bench.torn > 0
        found.torn = found.torn or (
            "decode" in self._timings and "load" in self._timings and "total" not in self._timings
        )
        found.mains += len(bench.readings)
        own = found.report()
        said = {self._bench.failure} if found.failure or not self._bench.seen else set()
        notes = (*own.notes, *(note for note in bench.notes if note not in said))
        status = own.status
        if (
            status in (Status.OK, Status.INCOMPLETE)
            and self._bench.seen
            and self._bench.failure
            and bench.readings == ()
        ):
            status = Status.FAILED
        elif self._bench.progress and not found.mains and status in (Status.NO_METRICS, Status.INCOMPLETE):
            status = Status.TIMEOUT
        found.mains -= len(bench.readings)
        return Report(status, (*bench.readings, *own.readings), notes[:MAX_NOTES], (*bench.details, *own.details))
