"""Does this engine run on this device at all? The shortest honest answer, before anything is measured."""

from __future__ import annotations

import pytest

from runner.suite import Engine

PROMPT = "The farm has three devices."


def test_says_what_it_is(engine: Engine) -> None:
    """A build that cannot be told from another one makes every later figure worthless."""
    described = engine.describe()
    assert described.get("engine"), f"the engine does not say its name: {dict(described)}"


def test_starts_and_exits_clean(engine: Engine) -> None:
    """Loads its model, does a little work, ends by itself with exit code 0."""
    result = engine.run(PROMPT, n_predict=1)
    assert result.exit_code == 0


def test_generates_the_same_text_twice(engine: Engine) -> None:
    """Greedy decoding in two fresh processes gives the same text, and there is some."""
    first, second = (engine.run(PROMPT, n_predict=12, ignore_eos=True).text for _ in range(2))
    if first is None:
        pytest.skip(f"not available: the adapter {engine.adapter} reports no text for this engine")
    assert first, "the engine generated an empty text"
    assert first == second


def test_reports_its_memory(engine: Engine) -> None:
    """Peak memory is known, and is at least the size of what the engine says it keeps there."""
    memory = engine.run(PROMPT, n_predict=1).memory
    if not memory:
        pytest.skip(f"not available: the adapter {engine.adapter} reports no memory for this engine")
    assert memory["hwm_kb"] > 0
    assert memory["rss_kb"] <= memory["hwm_kb"]
