"""Which parser reads which tool's output."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from farm.evidence.engines.executorch import Executorch
from farm.evidence.engines.litert_lm import LitertLm
from farm.evidence.engines.llama import Llama
from farm.evidence.engines.lowmemory import LowMemory
from farm.evidence.engines.mlc import Mlc
from farm.evidence.engines.mlperf import Mlperf
from farm.evidence.engines.mnn import Mnn
from farm.evidence.engines.ncnn import Ncnn
from farm.evidence.engines.onnxruntime import OnnxRuntime
from farm.evidence.engines.parsing import Parser
from farm.evidence.engines.pocketpal import Pocketpal
from farm.evidence.engines.qualcomm import Qualcomm
from farm.evidence.engines.report import Report
from farm.evidence.engines.rockchip import Rockchip
from farm.evidence.engines.stream import EventLines
from farm.evidence.engines.text import split
from farm.evidence.engines.tflite import Tflite

_PARSERS: dict[str, Callable[[], Parser]] = {
    "executorch": Executorch,
    "events": EventLines,
    "litert-lm": LitertLm,
    "llama-batched-bench": Llama,
    "llama-bench": Llama,
    "llama-mtmd": Llama,
    "llama-perf": Llama,
    "logcat": LowMemory,
    "mlc-llm": Mlc,
    "mlperf-mobile": Mlperf,
    "mnn": Mnn,
    "ncnn-benchncnn": Ncnn,
    "onnxruntime_perf_test": OnnxRuntime,
    "pocketpal": Pocketpal,
    "qualcomm": Qualcomm,
    "rkllm": Rockchip,
    "rknn": Rockchip,
    "tflite-benchmark_model": Tflite,
}
#: Other names of the same tools, as people and bundles write them.
_ALIASES = {
    "ai-hub": "qualcomm",
    "benchmark_model": "tflite-benchmark_model",
    "benchncnn": "ncnn-benchncnn",
    "genie": "qualcomm",
    "litert": "tflite-benchmark_model",
    "llama-cli": "llama-perf",
    "llama-server": "llama-perf",
    "llama-sweep-bench": "llama-batched-bench",
    "llama.cpp": "llama-perf",
    "mlc": "mlc-llm",
    "mlperf": "mlperf-mobile",
    "ncnn": "ncnn-benchncnn",
    "onnxruntime": "onnxruntime_perf_test",
    "onnxruntime-genai": "onnxruntime_perf_test",
    "qnn": "qualcomm",
    "tflite": "tflite-benchmark_model",
}


class UnknownTool(LookupError):
    """There is no parser of that name; the message lists those that there are."""


def tools() -> tuple[str, ...]:
    """The names that `parse` knows, other names of the same tool included."""
    return tuple(sorted((*_PARSERS, *_ALIASES)))


def parser(tool: str) -> Parser:
    """A parser to feed with lines that keep their prefixes but not their ends. Raises UnknownTool."""
    name = tool.strip().lower()
    make = _PARSERS.get(_ALIASES.get(name, name))
    if make is None:
        raise UnknownTool(f"no parser for the output of {tool[:60]!r}; there are: {', '.join(tools())}")
    return make()


def parse(tool: str, lines: Iterable[str]) -> Report:
    """The report of one tool's output. Raises UnknownTool, and nothing for what the lines contain.

    Lines keep their line ends: a last line without one is taken as cut off, and a figure at its end is not believed.
    Memory does not grow with the number of lines.
    """
    reader = parser(tool)
    for line, cut in split(lines):
        reader.feed(line, cut)
    return reader.report()
