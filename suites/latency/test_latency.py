"""How fast the engine answers: time to first token, prefill rate, decode rate, and the time until it is ready.

Every figure is a list of raw values after a warm-up; a sample during which the device throttled, or others disturbed
the host, is marked and does not enter the median. The output is checked before any speed is believed.
"""

from __future__ import annotations

import pytest

from runner.suite import Engine, Measure

PROMPT_TOKENS = 64
OUTPUT_TOKENS = 256
REPETITIONS = 5


@pytest.mark.settle(max_temperature_c=45, timeout_s=300)
def test_generation(engine: Engine, measure: Measure) -> None:
    """One prompt, five times in one warm process: the rates that a user of a running assistant feels."""
    result = engine.run(
        prompt_tokens=PROMPT_TOKENS, n_predict=OUTPUT_TOKENS, ignore_eos=True, warmup=1, repeat=REPETITIONS
    )
    if result.texts:
        assert len(result.texts) == REPETITIONS
        assert all(result.texts), "an iteration generated nothing: its speed means nothing"
        assert len(set(result.texts)) == 1, "the same prompt gave different texts: which one was measured?"
    if engine.adapter == "events":
        measure.figures(result, "ttft", "prefill_rate", "decode_rate")
    else:
        measure.figures(result)


@pytest.mark.settle(max_temperature_c=45, timeout_s=300)
def test_start_up(engine: Engine, measure: Measure) -> None:
    """A fresh process each time, from its start to its first token: what somebody feels who opens the app."""
    for turn in measure.repeat(REPETITIONS, warmup=1):
        result = engine.run(prompt_tokens=4, n_predict=1, ignore_eos=True)
        turn.value("start_up", result.seconds * 1000, unit="ms", better="lower")
        load = result.figure("load_time")
        if load is not None:
            turn.value("load_time", load.values[0], unit="ms", better="lower")
        memory = result.memory.get("hwm_kb")
        if memory is not None:
            turn.value("peak_rss", memory * 1024 / 1e6, unit="MB", better="lower")
