"""ExecuTorch: the LLM runners' statistics, `executor_runner`, the demo apps, and the benchmark app's JSON.

Formats: extension/llm/runner/stats.h (`PyTorchObserver {…}` and the lines for people), portable/executor_runner, the
Android benchmark app (`metric`/`actualValue`). Stamps are whole milliseconds, so short stages are coarse; before a
fix of September 2024 the multimodal runner printed 0.000000 s and a rate of inf.
"""

from __future__ import annotations

import re
from typing import Any

from farm.evidence.engines.findings import Kind
from farm.evidence.engines.parsing import RuleParser
from farm.evidence.engines.report import json_object, measured
from farm.evidence.engines.rules import TIME, detail, rule, setup, unit_of

_S = r"{N}\s*\(?(?P<unit>seconds|ms|s)\)?"
_R = r"{N}\s*\(?(?P<unit>tokens?/s(?:ec(?:ond)?)?)\)?"
_OBSERVER = re.compile(r"PyTorchObserver\s*(\{.*\})")
_METRIC = re.compile(r"^([\w .-]+?)\s*(?:\(([^)]+)\))?$")


class Executorch(RuleParser):
    """Lines for people first; the observer's stamps give what those lines did not say."""

    rules = (
        detail("prompt_tokens", r"Prompt Tokens:\s*{N}", "tokens"),
        detail("generated_tokens", r"Generated Tokens:\s*{N}", "tokens"),
        setup("load_time", r"Model Load(?:ed)? Time:\s*" + _S),
        setup(
            "load_time",
            r"(?:Model loaded(?! time)|Loaded model|Load(?:ing)? model took|model load took)[^\d:]*:?\s*{N}\s*{TIME}",
        ),
        rule("total_time", r"Total inference time:\s*" + _S),
        rule("total_rate", r"Total inference time:.*?Rate:\s*" + _R),
        rule("prefill_time", r"Prompt evaluation(?: time)?:\s*" + _S),
        rule("prefill_rate", r"Prompt evaluation(?: time)?:.*?Rate:\s*" + _R),
        rule("decode_time", r"Generated \d+ tokens:\s*" + _S),
        rule("decode_rate", r"Generated \d+ tokens:.*?Rate:\s*" + _R),
        rule("ttft", r"Time to first (?:generated )?token:\s*" + _S),
        setup("sampling_time", r"Sampling time over \d+ tokens:\s*" + _S),
        detail("sampled_tokens", r"Sampling time over {N} tokens:", "tokens"),
        rule("execution_time", r"Model executed successfully(?: (?P<runs>\d+) time(?:s|\(s\))?)? in {N}\s*{TIME}"),
        rule(
            "execution_time",
            r"(?:Average|Mean|Avg\.?) (?:inference|execution|latency)(?: time)?[^\d:]*:?\s*{N}\s*{TIME}",
        ),
        rule(
            "execution_time", r"(?:^|\s)(?:Inference|Execution|forward) (?:time|took|latency)[^\d:]*:?\s*{N}\s*{TIME}"
        ),
        rule("decode_rate", r"(?:Generation|Decode|Generated)[^:\d]{0,40}:?\s*{N}\s*{RATE}"),
        setup("rss", r"RSS (?P<after>after [\w ]+?):\s*{N}\s*{SIZE}"),
        detail("audio_transform_time", r"Audio transform time:\s*" + _S),
    )
    documents = True
    words = {"model": re.compile(r"Loading model (\S+)")}

    def __init__(self) -> None:
        super().__init__()
        self._observed: list[dict[str, Any]] = []

    def line(self, text: str) -> None:
        if match := _OBSERVER.search(text):
            stamps = json_object(match[1])
            if stamps is not None and len(self._observed) < 100:
                self._observed.append(stamps)
            self.found.torn = self.found.torn or stamps is None
        elif "PyTorchObserver" in text:
            self.found.torn = True
        self.found.began = self.found.began or "Loading model" in text

    def end(self) -> None:
        for stamps in self._observed:
            self._observer(stamps)
        self._observed = []

    def _observer(self, stamps: dict[str, Any]) -> None:
        labels = {"source": "observer"}
        scale = measured(stamps.get("SCALING_FACTOR_UNITS_PER_SECOND")) or 1000.0
        prompt, generated = measured(stamps.get("prompt_tokens")), measured(stamps.get("generated_tokens"))
        self.add("prompt_tokens", prompt, "tokens", labels=labels)
        self.add("generated_tokens", generated, "tokens", labels=labels)
        self.add(
            "sampling_time", _ms(stamps.get("aggregate_sampling_time_ms"), scale), "ms", Kind.SETUP, "lower", labels
        )
        for name, begin, end, kind, rate, tokens in (
            ("load_time", "model_load_start_ms", "model_load_end_ms", Kind.SETUP, "", None),
            ("total_time", "inference_start_ms", "inference_end_ms", Kind.MAIN, "total_rate", generated),
            ("prefill_time", "inference_start_ms", "prompt_eval_end_ms", Kind.MAIN, "prefill_rate", prompt),
            ("decode_time", "prompt_eval_end_ms", "inference_end_ms", Kind.MAIN, "decode_rate", generated),
            ("ttft", "inference_start_ms", "first_token_ms", Kind.MAIN, "", None),
        ):
            first, last = measured(stamps.get(begin)), measured(stamps.get(end))
            if first is None or last is None:
                continue
            elapsed = last - first
            self.add(name, elapsed * 1000.0 / scale, "ms", kind, "lower", labels)
            if rate and tokens is not None and elapsed > 0:
                self.add(rate, tokens * scale / elapsed, "tok/s", kind, "higher", labels)

    def document(self, value: Any) -> None:
        """The benchmark app's list of results."""
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, dict):
                continue
            match = _METRIC.match(str(item.get("metric", "")))
            if match is None or "actualValue" not in item:
                continue
            name, unit = match[1], unit_of(match[2] or "1")
            kind = Kind.SETUP if "load" in name or "memory" in name else Kind.MAIN
            timed = re.fullmatch(TIME, unit) is not None
            labels = (
                {"model": str((item.get("benchmarkModel") or {}).get("name", ""))[:100]}
                if isinstance(item.get("benchmarkModel"), dict)
                else {}
            )
            self.add(name, item["actualValue"], unit, kind, "lower" if timed else "higher", labels)


def _ms(value: object, scale: float) -> float | None:
    figure = measured(value)
    return None if figure is None else figure * 1000.0 / scale
