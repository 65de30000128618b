"""ONNX Runtime: `onnxruntime_perf_test`, and the benchmark of ONNX Runtime GenAI.

Formats: onnxruntime/test/perftest (performance_runner.cc and performance_result.h: averages in milliseconds,
percentiles in seconds, memory in bytes, printed twice in two spellings by newer versions; no blank after the colon
before 2020) and onnxruntime-genai's benchmark/c/main.cpp (a title, then `avg (us):`, `p50 (us):` … below it).
"""

from __future__ import annotations

import re

from farm.evidence.engines.findings import Kind
from farm.evidence.engines.parsing import RuleParser
from farm.evidence.engines.rules import detail, rule, setup, unit_of

_STAGES = {
    "prompt processing (time to first token)": ("ttft", "prefill_rate", Kind.MAIN),
    "prompt processing": ("ttft", "prefill_rate", Kind.MAIN),
    "token generation": ("token_time", "decode_rate", Kind.MAIN),
    "token sampling": ("sampling_time", "sampling_rate", Kind.DETAIL),
    "e2e generation (entire generation loop)": ("total_time", "total_rate", Kind.MAIN),
}
_TITLE = re.compile(r"^\s*((?:Prompt processing|Token generation|Token sampling|E2E generation)[^:]*):\s*$")
_STAT = re.compile(r"^\s+(avg|p\d+|stddev|min|max)\s*\(([^)]+)\):\s*([-+\w.]+)")
_COUNT = re.compile(r"^\s+n:\s*(\d+)")


class OnnxRuntime(RuleParser):
    """Session creation, first and average inference, percentiles, CPU and memory."""

    rules = (
        setup("session_creation_time", r"Session creation time cost:\s*{N}\s*{TIME}"),
        rule("inference_time", r"(?P<stat>First) inference time cost:\s*{N}\s*{TIME}"),
        rule("total_inference_time", r"Total inference time cost:\s*{N}\s*{TIME}"),
        rule("total_run_time", r"Total (?:inference )?run time:\s*{N}\s*{TIME}"),
        rule("inference_time", r"(?P<stat>Average|Min|Max) inference time cost(?: total)?:\s*{N}\s*{TIME}"),
        rule("inference_submission_time", r"Average inference submission time cost[^:]*:\s*{N}\s*{TIME}"),
        rule("inference_time", r"\b(?P<stat>P\d+|Min|Max|Mean|Median) Latency(?::| is)\s*{N}\s*{TIME}"),
        rule("inference_rate", r"Number of inferences per second:\s*{N}", "1/s"),
        rule("total_inference_time", r"Total time cost:\s*{N}(?:\s*s)?\s*$", "s"),
        rule("inference_time", r"(?P<stat>Average) time cost:\s*{N}\s*{TIME}"),
        detail("requests", r"Total iterations:\s*{N}"),
        detail("requests", r"Total inference requests:\s*{N}"),
        detail("runs", r"^Runs:\s*{N}"),
        setup("cpu_usage", r"(?:Avg|Total) CPU usage:\s*{N}", "%"),
        setup("peak_memory", r"Peak working set size(?: \(bytes\))?:\s*{N}(?:\s*bytes)?", "B"),
        detail("partitions", r"number of partitions supported by \w+:\s*{N}"),
        detail("nodes", r"number of nodes in the graph:\s*{N}"),
        detail("nodes_supported", r"number of nodes supported by \w+:\s*{N}"),
        detail("threads", r"Setting (?P<pool>intra_op|inter_op)_num_threads to {N}"),
        detail("batch_size", r"^Batch size:\s*{N}"),
        detail("prompt_tokens", r"\bprompt tokens:\s*{N}", "tokens"),
        detail("generated_tokens", r"\btokens to generate:\s*{N}", "tokens"),
        rule("prefill_rate", r"(?:Average )?prompt processing throughput[^:\d]*:\s*{N}", "tok/s"),
        rule("decode_rate", r"(?:Average )?token generation throughput[^:\d]*:\s*{N}", "tok/s"),
        rule("ttft", r"(?:Average )?prompt processing latency \((?P<unit>ms|s)\)[^:\d]*:\s*{N}"),
        rule("token_time", r"(?:Average )?token generation latency \((?P<unit>ms|s)\)[^:\d]*:\s*{N}"),
    )
    words = {"provider": re.compile(r"(?:using |Registered |\b)(\w+ExecutionProvider)\b")}

    def __init__(self) -> None:
        super().__init__()
        self._stage: tuple[str, str, Kind] | None = None

    def heading(self, title: str) -> None:
        """Titles of GenAI's blocks are no sections; those that people put between two builds are."""
        if title.lower() not in _STAGES:
            super().heading(title)

    def line(self, text: str) -> None:
        if match := _TITLE.match(text):
            self._stage = _STAGES.get(match[1].strip().lower())
            self.found.began = True
        elif self._stage is not None and (match := _STAT.match(text)):
            self._stat(self._stage, match)
        elif self._stage is not None and (match := _COUNT.match(text)):
            self.add("n", match[1], labels={"of": self._stage[0]})
        elif not text[:1].isspace():
            self._stage = None

    def _stat(self, stage: tuple[str, str, Kind], match: re.Match[str]) -> None:
        timed, rated, kind = stage
        stat, unit, value = match[1].lower(), unit_of(match[2]), match[3]
        if stat == "stddev":
            kind = Kind.DETAIL
        rate = unit == "tok/s"
        self.add(rated if rate else timed, value, unit, kind, "higher" if rate else "lower", {"stat": stat})
