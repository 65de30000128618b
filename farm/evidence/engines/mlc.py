"""MLC LLM: the chat's `/stats`, the apps' usage label, and the engine's usage object.

Formats: python/mlc_llm/interface/chat.py and the older chat's statistics block, android/mlc4j (OpenAIProtocol.kt),
serve/engine metrics (`extra` of `usage`). The app formats with the phone's locale: a decimal comma beside commas that
separate fields.
"""

from __future__ import annotations

import re
from typing import Any

from farm.evidence.engines.findings import Kind
from farm.evidence.engines.parsing import RuleParser
from farm.evidence.engines.rules import detail, rule, setup

_KEYS: dict[str, tuple[str, str, Kind, str]] = {
    "prefill_tokens_per_s": ("prefill_rate", "tok/s", Kind.MAIN, "higher"),
    "decode_tokens_per_s": ("decode_rate", "tok/s", Kind.MAIN, "higher"),
    "ttft_s": ("ttft", "s", Kind.MAIN, "lower"),
    "end_to_end_latency_s": ("total_time", "s", Kind.MAIN, "lower"),
    "inter_token_latency_s": ("inter_token_time", "s", Kind.MAIN, "lower"),
    "engine_prefill_time_sum": ("prefill_time", "s", Kind.MAIN, "lower"),
    "engine_decode_time_sum": ("decode_time", "s", Kind.MAIN, "lower"),
    "prompt_tokens": ("prompt_tokens", "tokens", Kind.DETAIL, "neither"),
    "prefill_tokens": ("prefill_tokens", "tokens", Kind.DETAIL, "neither"),
    "completion_tokens": ("generated_tokens", "tokens", Kind.DETAIL, "neither"),
    "decode_tokens": ("decode_tokens", "tokens", Kind.DETAIL, "neither"),
    "total_tokens": ("total_tokens", "tokens", Kind.DETAIL, "neither"),
    "jump_forward_tokens": ("jump_forward_tokens", "tokens", Kind.DETAIL, "neither"),
}
_WORD = re.compile(r"^[\s\"']*(" + "|".join(_KEYS) + r")[\"']?\s*[:=]\s*([-+\w.]+),?\s*$")


class Mlc(RuleParser):
    """Rates by stage; each line of a usage label is a request of its own."""

    rules = (
        rule("prefill_rate", r"\bprefill:\s*{N}\s*{RATE}"),
        rule("decode_rate", r"\bdecode:\s*{N}\s*{RATE}"),
        rule("embed_rate", r"\b(?:image embedding|embed):\s*{N}\s*{RATE}"),
        rule("rate", r"^\s*throughput:\s*{N}\s*{RATE}"),
        rule("time", r"^\s*total time:\s*{N}\s*{TIME}"),
        detail("tokens", r"^\s*total tokens:\s*{N}\s*tok", "tokens"),
        rule("decode_rate", r"\bdecoding-time=.*?tok/s:\s*{N}", "tok/s"),
        rule("token_time", r"\bdecoding-time={N}{TIME}"),
        setup("peak_memory", r"(?:peak|total) (?:\w+ )?memory[^:\d]*:\s*{N}\s*{SIZE}"),
        rule("decode_rate", r"\b(?:output|generation) (?:token )?(?:throughput|speed)[^:\d]*:\s*{N}\s*{RATE}"),
    )

    documents = True

    def __init__(self) -> None:
        super().__init__()
        self._line = 0

    def heading(self, title: str) -> None:
        self.scope["stage"] = title.lower()[:40]

    def figures(self, text: str) -> None:
        if "prefill:" in text and "tok/s" in text:
            self._line += 1
            self.scope["request"] = str(self._line)
        super().figures(text)
        if match := _WORD.match(text):
            self._take(match[1], match[2])

    def document(self, value: Any) -> None:
        self._usage(value, 0)

    def _usage(self, value: Any, depth: int) -> None:
        if depth > 8 or not isinstance(value, dict | list):
            return
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if key in _KEYS and not isinstance(item, dict | list):
                self._take(str(key), item)
            else:
                self._usage(item, depth + 1)

    def _take(self, key: str, value: object) -> None:
        name, unit, kind, better = _KEYS[key]
        self.add(name, value, unit, kind, better)
