"""Rockchip's NPU runtimes: RKLLM (language models) and RKNN.

Formats: the runtime's log of rknn-llm (a table separated by blanks; memory in GB before 1.3, in MB since, the value
on the line after its label; `Init` as a row before 1.2), its demos, rknn-toolkit2's benchmark and `eval_perf`, and
the RKNN3 demo (the same table separated by pipes). Messages of standard output and error may share a line.
"""

from __future__ import annotations

import re

from farm.evidence.engines.findings import Kind
from farm.evidence.engines.parsing import RuleParser
from farm.evidence.engines.rules import SIZE, N, detail, rule, setup, unit_of
from farm.evidence.engines.text import number

_CELL = r"(/|-|[-+]?[\d.,]+|inf|-?nan)"
_STAGE = re.compile(
    r"^\s*(Init|Prefill|Generate|Decode)(?:\s*\|)?\s+" + r"(?:\s*\|)?\s+".join([_CELL] * 4) + r"(?:\s*\|)?\s*$",
    re.IGNORECASE,
)
_MEMORY = re.compile(r"^\s*(?:Peak )?Memory Usage \((GB|MB|KB|GiB|MiB)\)\s*(?:[:|]?\s*([\d.]+))?\s*$", re.IGNORECASE)
_ALONE = re.compile(rf"^\s*{N}\s*(?:{SIZE})?\s*$")
_ELAPSE = re.compile(r"^\s*(\d+): Elapse Time = ([\d.]+)\s*ms, FPS = ([\d.]+)")
_PLATFORMS = re.compile(r"must be either (.+?)\.?\s*$")


class Rockchip(RuleParser):
    """RKLLM and RKNN alike: a board's log often has both."""

    headings = False
    rules = (
        setup("init_time", r"Model init time \((?P<unit>ms|s)\)\s*[:|]?\s*{N}"),
        setup(
            "init_time",
            r"(?:rknn_init|model init|init model|load model)\w*(?: time| cost| use)+\s*[:=]?\s*{N}\s*{TIME}",
        ),
        rule("vision_encode_time", r"视觉编码器推理耗时:\s*{N}\s*(?P<unit>秒|毫秒|ms|s)"),
        rule("vision_encode_time", r"(?:vision|image|imgenc)[ _]?encod\w*[^:=\d]{0,40}[:=]\s*{N}\s*{TIME}"),
        detail("image_tokens", r"n_image_tokens:\s*{N}", "tokens"),
        rule("inference_time", r"(?:Avg|Average) Time(?: is|[ :=])\s*{N}\s*{TIME}"),
        rule("inference_rate", r"Avg FPS\s*[=:]\s*{N}", "1/s"),
        rule("inference_rate", r"^\s*(?:average fps|avg_fps|fps)\s*[=:]\s*{N}\s*$", "1/s"),
        rule(
            "inference_time",
            r"(?:once run use|average run|rknn_run(?: time| use)?|infer(?:ence)? (?:time|cost|took))"
            r"\s*[:=]?\s*{N}\s*{TIME}",
        ),
        rule("operator_time", r"Total Operator Elapsed(?: Per Frame)? Time\(us\):\s*{N}", "us"),
        rule("inference_time", r"^Total Time\(us\):\s*{N}", "us"),
        detail("memory_traffic", r"Total Memory Read/Write Per Frame Size\(KB\):\s*{N}", "kB"),
        detail("memory_traffic", r"Total Memory RW Amount\(MB\):\s*{N}", "MB"),
        detail("weight_size", r"total weight size:\s*{N}", "B"),
        detail("internal_size", r"total internal size:\s*{N}", "B"),
        setup("weight_memory", r"(?:Total )?Weight Memory:\s*{N}\s*{SIZE}"),
        setup("internal_memory", r"(?:Total )?Internal Tensor Memory:\s*{N}\s*{SIZE}"),
        setup("total_memory", r"^\s*Total Memory:\s*{N}\s*{SIZE}"),
        detail("max_context", r"max_context_limit:\s*{N}", "tokens"),
        detail("npu_cores", r"npu_core_num:\s*{N}"),
        detail("enabled_cpus", r"Enabled cpus num:\s*{N}"),
        rule("ttft", r"(?:ttft|time to first token)\s*[:=]\s*{N}\s*{TIME}"),
        rule("decode_rate", r"(?:generate|decode|generation) (?:speed|rate)\s*[:=]\s*{N}\s*{RATE}"),
        rule("prefill_rate", r"prefill (?:speed|rate)\s*[:=]\s*{N}\s*{RATE}"),
    )
    words = {
        "runtime": re.compile(r"(?:rkllm-runtime|rknnrt|librknnrt|sdk api) version:\s*([\d.]+\w*)", re.IGNORECASE),
        "driver": re.compile(r"driver version:\s*([\d.]+\w*)"),
        "driver required": re.compile(r"driver version is too low, please upgrade to ([\d.]+\w*)"),
        "toolkit": re.compile(r"toolkit version:\s*([\d.]+\w*)"),
        "platform": re.compile(r"\bplatform:\s*(\w+)"),
        "model type": re.compile(r"model_dtype:\s*(\w+)"),
    }

    def __init__(self) -> None:
        super().__init__()
        self._memory: str | None = None
        self._turn = 0
        self._warming = False

    def line(self, text: str) -> None:
        if "must be either" in text:
            self.found.unsupported = True
            match = _PLATFORMS.search(text)
            self.found.fact("supported", match[1] if match else text)
        if self._memory is not None and (match := _ALONE.match(text)):
            self.add("peak_memory", match["v"], unit_of(match["unit"] or self._memory), Kind.SETUP, "lower")
            self._memory = None
        elif match := _STAGE.match(text):
            self._row(match)
        elif match := _MEMORY.match(text):
            self._memory = unit_of(match[1]) if match[2] is None else None
            self.add("peak_memory", match[2], unit_of(match[1]), Kind.SETUP, "lower") if match[2] else None
        elif match := _ELAPSE.match(text):
            labels = {"run": match[1], "phase": "warmup" if self._warming else "measured"}
            kind = Kind.DETAIL if self._warming else Kind.MAIN
            self.add("inference_time", match[2], "ms", kind, "lower", labels)
            self.add("inference_rate", match[3], "1/s", kind, "higher", labels)
        elif "Warmup" in text or "Begin perf" in text:
            self._warming = "Warmup" in text
            self.found.began = True
        elif "init s" in text or "starting, please wait" in text:
            self.found.began = True

    def _row(self, match: re.Match[str]) -> None:
        stage, time, tokens, per_token, rate = match.groups()
        stage = {"generate": "decode"}.get(stage.lower(), stage.lower())
        if stage == "init":
            self.add("init_time", time, "ms", Kind.SETUP, "lower")
            return
        if stage == "prefill":
            self._turn += 1
            self.scope["turn"] = str(self._turn)
        labels = {"usable": "false"} if (number(tokens) or 0) <= 1 else {}
        if labels:
            self.found.note(f"turn {self._turn}: {stage} of {tokens} token(s), its rate is not usable")
        self.add(f"{stage}_time", time, "ms", Kind.MAIN, "lower", labels)
        self.add(f"{stage}_tokens", tokens, "tokens", labels=labels)
        self.add(f"{stage}_time_per_token", per_token, "ms", Kind.DETAIL, "lower", labels)
        self.add(f"{stage}_rate", rate, "tok/s", Kind.DETAIL if labels else Kind.MAIN, "higher", labels)
