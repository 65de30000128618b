"""The workload through the farm: the same starts of the engine as benchmarks/overhead_bare/test_load.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

WORK = json.loads((Path(__file__).parent / "work.json").read_text())


@pytest.mark.parametrize("turn", range(WORK["tests"]))
def test_load(engine: Any, measure: Any, turn: int) -> None:
    result = engine.run(
        prompt_tokens=WORK["prompt_tokens"], n_predict=WORK["n_predict"], repeat=WORK["repeat"], warmup=1,
        ignore_eos=True,
    )  # fmt: skip
    measure.figures(result, "decode_rate")
