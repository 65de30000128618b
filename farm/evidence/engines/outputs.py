"""Which engine's output a text is, when nobody said so: by lines that only that tool prints.

A parser is begun for a tool at its first sign, with the lines just before; the tool with most signs wins. Only lines
with one of a few words are looked at closely, and of a long text only the beginning: an engine shows itself early.
"""

from __future__ import annotations

import re
from collections import deque

from farm.evidence.engines.parsing import Parser
from farm.evidence.engines.registry import parser
from farm.evidence.engines.report import Report

#: Lines in which an output shows which tool's it is; lines before the first sign that are read again.
MAX_LINES, BEFORE = 20_000, 200
#: Longest line that is looked at for signs: JSON results stand on one line.
MAX_SEARCHED = 2_000

#: tool -> (words of which a line has one, in lower case; what only this tool prints).
_SIGNS: dict[str, tuple[tuple[str, ...], re.Pattern[str]]] = {
    tool: (words, re.compile(pattern))
    for tool, words, pattern in (
        ("events", ('"ev":',), r'"ev":\s?"(?:hello|stage_end|result|bye)"'),
        (
            "executorch",
            ("pytorchobserver", "executorch", "model loaded time"),
            r"PyTorchObserver \{|executorch:stats\.h:\d+\]|ExecuTorch: Loading|LlamaDemo: Model loaded time",
        ),
        (
            "litert-lm",
            ("benchmarkinfo", "litert", "tokens/sec", "time to first token"),
            r"^\s*BenchmarkInfo:|litert-lm benchmark|LITERT_CL|(?:Prefill|Decode) [Ss]peed: [\d.]+ tokens/sec"
            r"|^\s*Time to first token: [\d.]+ s",
        ),
        ("llama-batched-bench", ("llama_batched", "pp |"), r"^\|\s+PP \|\s+TG \||llama_batched_bench:"),
        (
            "llama-bench",
            ("| model", "build_commit", "llama-bench", "debug build", "asserts enabled"),
            r"^\| model\s+\|\s+size \||\"build_commit\":|llama-bench: benchmark|^warning: (?:asserts|debug build)",
        ),
        (
            "llama-mtmd",
            ("image", "projector"),
            r"image (?:slice )?(?:encoded in|decoded \(batch)|encoding image slice|multimodal projector backend",
        ),
        (
            "llama-perf",
            ("llama_", "t/s", "ggml_", "llm_load", "build"),
            r"llama_(?:perf_\w+|print_timings):|^\[ Prompt: [\d.,]+ t/s|ggml_\w+: .{0,60}(?:allocat|Found \d)"
            r"|llm_load_\w+:|^build\s+: b\d{3,6}-[0-9a-f]{6,}",
        ),
        ("mlc-llm", ("tok/s",), r"prefill: [\d.,]+ tok/s, decode: [\d.,]+ tok/s"),
        (
            "mlperf-mobile",
            (":::mllog", "loadgen", "benchmark_id"),
            r":::MLLOG \{|\"loadgen_scenario\"|\"benchmark_id\"",
        ),
        (
            "mnn",
            ("mnn", "[ - ]", "tok/s"),
            r"^MNN benchmark|^\[ - \] \S+\s+max =|MNNJNI|(?:prefill|decode) speed = [\d.]+ tok/s",
        ),
        (
            "ncnn-benchncnn",
            ("loop_count", "min ="),
            r"^loop_count = \d|^\s*\S+\s+min =\s+[\d.]+\s+(?:max =\s+[\d.]+\s+)?avg =",
        ),
        (
            "onnxruntime_perf_test",
            ("inference", "session creation"),
            r"Session creation time cost:|Average inference time cost|Total inference requests",
        ),
        (
            "pocketpal",
            ("_avg", "_tps", "pocketpal"),
            r"\"(?:pp|tg)_(?:avg|tps)\"|[Pp]ocket[Pp]al",
        ),
        ("qualcomm", ("profile job", "estimated"), r"Profile Job summary of|Estimated (?:Inference Time|Peak Memory)"),
        (
            "rkllm",
            ("rkllm", "platform error"),
            r"rkllm-runtime version|\brkllm:\s+(?:Prefill|Generate|Model init|Stage)\b|RKLLM starting|rkllm init"
            r"|Platform error: must be",
        ),
        (
            "rknn",
            ("rknn", "elapse time", "total time (ms)"),
            r"rknn_api/rknnrt version|Elapse Time = [\d.]+ms, FPS|^\s*Stage\s+\| Total Time \(ms\)",
        ),
        (
            "tflite-benchmark_model",
            ("inference", "session in", "running benchmark", "average:", "count=", "footprint"),
            r"Inference timings in us:"
            r"|^Memory footprint delta from the start of the tool|Initialized session in|Running benchmark for at least"
            r"|(?:Warmup|Inference) \(avg\):|^average: [\d.]+ ?ms|\bcount=\d+ .*\bavg=",
        ),
    )
}
_WORDS = tuple(dict.fromkeys(word for words, _ in _SIGNS.values() for word in words))


class Outputs:
    """Feed it lines of whatever it is, with their ends."""

    def __init__(self) -> None:
        self._before: deque[str] = deque(maxlen=BEFORE)
        self._parsers: dict[str, Parser] = {}
        self.signs: dict[str, int] = {}
        self._lines = 0
        self._last: str | None = None

    def feed(self, raw: str) -> None:
        """One line behind: only the next one shows that this one was not cut off."""
        if self._lines > MAX_LINES and not self._parsers:
            return  # a long text of nobody's: looking on would only cost
        if self._last is not None:
            self._take(self._last, False)
        self._last = raw

    def _take(self, line: str, cut: bool) -> None:
        self._lines += 1
        text = line.rstrip("\r\n")
        for reader in self._parsers.values():
            reader.feed(text, cut)
        if self._lines > MAX_LINES:
            return
        head = text[:MAX_SEARCHED]
        lower = head.lower()
        if any(word in lower for word in _WORDS):
            self._look(head, lower, text, cut)
        self._before.append(text)

    def _look(self, head: str, lower: str, text: str, cut: bool) -> None:
        for tool, (words, sign) in _SIGNS.items():
            if any(word in lower for word in words) and sign.search(head):
                self.signs[tool] = self.signs.get(tool, 0) + 1
                if tool not in self._parsers:
                    reader = self._parsers[tool] = parser(tool)
                    for earlier in self._before:
                        reader.feed(earlier, False)
                    reader.feed(text, cut)

    def finish(self) -> tuple[str, Report] | None:
        """The tool and what it reports; None: it is no engine's output."""
        if self._last is not None:
            self._take(self._last, not self._last.endswith(("\n", "\r")))
            self._last = None
        found = [(reader.report(), tool) for tool, reader in self._parsers.items()]
        ranked = sorted(found, key=lambda entry: (not entry[0].readings, -self.signs[entry[1]], entry[1]))
        return (ranked[0][1], ranked[0][0]) if ranked else None
