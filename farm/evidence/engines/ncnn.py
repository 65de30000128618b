"""ncnn's `benchncnn` and `benchncnn_llm`.

Formats: benchmark/benchncnn.cpp (`%20s  min = %7.2f  max = %7.2f  avg = %7.2f`, milliseconds without a unit; wider
values shift the columns) and benchncnn_llm.cpp (a wider name and `tps`). The settings are printed once per block and
belong to the key of every row after them. On a GPU, int8 models run on the CPU; the tool does not say so, so it is
inferred.
"""

from __future__ import annotations

import re

from farm.evidence.engines.findings import Kind
from farm.evidence.engines.parsing import RuleParser

_SETTING = re.compile(r"^\s*(loop_count|num_threads|powersave|gpu_device|cooling_down)\s*=\s*(-?\d+)\s*$")
_NAME = re.compile(r"^\s*(\S.{0,80}?)\s+(?=(?:min|max|avg)\s*=)")
# Two decimals always: a figure with fewer lost its end.
_CELL = re.compile(r"\b(min|max|avg|tps)\s*=\s*(\d+[.,]\d\d|-?inf|-?nan)(?=\s|$)")
_GPU = re.compile(r"^\[(\d+) ([^\]]+)\]\s+(?:queueC|fp16|bugsbn1|subgroup)")


class Ncnn(RuleParser):
    """One model per row."""

    headings = False

    def line(self, text: str) -> None:
        if match := _SETTING.match(text):
            self.found.began = True
            self.scope[match[1]] = match[2]
            self.add(match[1], match[2])
        elif match := _GPU.match(text):
            self.found.began = True
            self.found.fact("gpu", match[2])
        elif (match := _NAME.match(text)) and "$" not in match[1]:
            self._row(match[1], text)

    def _row(self, model: str, text: str) -> None:
        labels = {"model": model}
        if int(self.scope.get("gpu_device", "-1")) >= 0:
            labels["backend"] = "cpu (inferred)" if "int8" in model else "gpu"
        cells = _CELL.findall(text)
        self.found.torn = self.found.torn or "avg" not in dict(cells)
        for stat, value in cells:
            if stat == "tps":
                name = "prefill_rate" if "prefill" in model else "decode_rate" if "decode" in model else "rate"
                self.add(name, value, "tok/s", Kind.MAIN, "higher", labels)
            else:
                self.add("inference_time", value, "ms", Kind.MAIN, "lower", {**labels, "stat": stat})
