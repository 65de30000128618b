"""Parsers of engine output: the figures of known samples, and nothing that is not there."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.evidence.engines import events, generic, llama_cpp
from farm.evidence.engines.report import Report, Status, measured

SAMPLES = Path(__file__).parents[2] / "data" / "samples" / "engine" / "llama-bench"
STATUS = {"incomplete": Status.INCOMPLETE, "failed": Status.FAILED, "timeout": Status.TIMEOUT}


def sample(number: str) -> tuple[Report, dict[str, Any]]:
    (text,) = SAMPLES.glob(f"{number}_*.txt")
    return llama_cpp.parse(text.read_text()), json.loads(text.with_suffix(".json").read_text())["expected"]


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.txt")), ids=lambda path: path.stem)
def test_every_rate_of_a_llama_bench_sample_is_found(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text())["expected"]
    report = llama_cpp.parse(path.read_text())
    found = {round(value, 3) for reading in report.readings for value in reading.values}
    means = {round(sum(r.values) / len(r.values), 3) for r in report.readings}
    wanted = [float(v.split()[0]) for v in expected.values() if isinstance(v, str) and v.endswith(" tok/s")]
    deviations = [float(v.split()[0]) for k, v in expected.items() if "stddev" in k and isinstance(v, str)]
    for rate in wanted:
        if rate not in deviations:
            near = any(math.isclose(rate, other, rel_tol=5e-3) for other in found | means)
            assert near, f"{rate} is not among {sorted(found | means)}"
    if "run_status" in expected:
        assert report.status is STATUS[expected["run_status"]]
    if "rows_complete" in expected:
        assert len(report.readings) == expected["rows_complete"]


def test_the_json_lines_of_llama_bench_keep_every_sample() -> None:
    report, _ = sample("09")
    by_test = {reading.labels["test"]: reading for reading in report.readings}
    assert by_test["pp512"].name == "prefill_rate"
    assert by_test["tg128"].values == (119.03, 120.178, 119.43, 118.307, 117.464)
    assert by_test["tg128"].unit == "tok/s"


def test_a_torn_line_keeps_the_rows_before_it() -> None:
    report, _ = sample("11")
    assert [reading.labels["test"] for reading in report.readings] == ["pp512"]
    assert report.status is Status.INCOMPLETE


def test_prompts_of_different_depth_are_different_tests() -> None:
    report, _ = sample("13")
    assert {reading.labels["test"] for reading in report.readings} == {"pp512", "tg128", "pp512 @ d512", "tg128 @ d512"}


def test_a_debug_build_says_so() -> None:
    report, _ = sample("14")
    assert not report.readings
    assert sum("not comparable" in note for note in report.notes) == 2


# ---- the event stream ----


def stream(*lines: dict[str, Any]) -> events.EventStream:
    found = events.EventStream()
    for number, line in enumerate(lines):
        found.feed(json.dumps({"v": 1, "seq": number, "t_us": number * 1000, **line}))
    return found


RESULT = {
    "ev": "result",
    "iteration": 0,
    "prompt_tokens": 40,
    "output_tokens": 9,
    "decode_tokens": 8,
    "ttft_us": 20_000,
    "prefill_us": 10_000,
    "decode_us": 80_000,
    "text": "hello",
}


def test_rates_come_from_tokens_and_times_of_each_iteration() -> None:
    found = stream(
        {"ev": "hello"}, RESULT, {**RESULT, "iteration": 1, "decode_us": 40_000}, {"ev": "bye", "exit_code": 0}
    )
    report = found.report()
    figures = {reading.name: reading.values for reading in report.readings}
    assert report.status is Status.OK
    assert figures == {"ttft": (20.0, 20.0), "prefill_rate": (4000.0, 4000.0), "decode_rate": (100.0, 200.0)}


def test_what_was_not_measured_is_absent_and_never_zero() -> None:
    found = stream({**RESULT, "decode_us": 0, "ttft_us": None, "prefill_us": None}, {"ev": "bye", "exit_code": 0})
    assert not found.report().readings


def test_a_stream_without_its_end_is_incomplete_and_names_the_open_stage() -> None:
    found = stream({"ev": "hello"}, {"ev": "stage_begin", "stage": "prefill", "iteration": 0})
    assert found.report().status is Status.INCOMPLETE
    assert found.stage == "prefill"


def test_an_error_event_makes_a_failure_with_its_words() -> None:
    found = stream({"ev": "error", "code": 3, "name": "model_file", "stage": "load.open", "message": "bad magic"})
    assert found.report().status is Status.FAILED
    assert found.report().notes == ("model_file in load.open: bad magic",)


def test_missing_events_are_counted() -> None:
    found = events.EventStream()
    for seq in (0, 1, 5):
        found.feed(json.dumps({"v": 1, "seq": seq, "t_us": 1, "ev": "token"}))
    assert found.lost == 3


def test_memory_is_the_peak_of_each_kind() -> None:
    found = stream({"ev": "memory", "rss_kb": 10, "pss_kb": None}, {"ev": "memory", "rss_kb": 7, "hwm_kb": 12})
    assert found.memory == {"rss_kb": 10, "hwm_kb": 12}


def test_a_stream_of_another_version_is_not_read() -> None:
    found = events.EventStream()
    assert found.feed('{"v":2,"seq":0,"t_us":1,"ev":"hello"}') is None
    assert found.report().status is Status.INVALID


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = ("ev", "seq", "t_us", "stage", "iteration", "dur_us", "counters", "text", "ops", "decode_tokens", "decode_us")
KINDS = st.sampled_from([*events._READERS, "token", "progress", "?"])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(KINDS, st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6)), max_size=8))
def test_no_event_whatever_its_fields_breaks_the_stream(lines: list[tuple[str, dict[str, Any]]]) -> None:
    found = events.EventStream()
    for kind, fields in lines:
        found.feed(json.dumps({"v": 1, **fields, "ev": kind}))
    for reading in found.report().readings:
        assert all(measured(value) for value in reading.values)


TEXT = st.text(max_size=200) | st.sampled_from([p.read_text() for p in sorted(SAMPLES.glob("*.txt"))])


@settings(max_examples=100, deadline=None)
@given(TEXT, st.integers(0, 4000), st.text(max_size=20))
def test_no_text_breaks_the_llama_bench_parser(text: str, at: int, inserted: str) -> None:
    report = llama_cpp.parse(text[:at] + inserted + text[at:])
    assert all(measured(value) for reading in report.readings for value in reading.values)
    json.dumps(report.to_json())


# ---- any engine ----

SPEC = {
    "text": {"regex": "out: (.*)"},
    "metrics": [
        {"name": "decode_rate", "unit": "tok/s", "better": "higher", "regex": r"decode: ([0-9.a-z]+) tok/s"},
        {"name": "ttft", "unit": "ms", "better": "lower", "json_path": "$.timings[*].first"},
    ],
}


def test_figures_are_picked_by_expressions_and_paths() -> None:
    found = generic.Generic.of(SPEC)
    for line in (
        "out: hi there",
        "decode: 12.5 tok/s",
        '{"timings": [{"first": 3}, {"first": "4.5"}]}',
        "decode: 13 tok/s",
    ):
        found.feed(line)
    report = found.report()
    assert {r.name: r.values for r in report.readings} == {"decode_rate": (12.5, 13.0), "ttft": (3.0, 4.5)}
    assert found.texts == ["hi there"]
    assert report.status is Status.OK


def test_a_whole_output_that_is_json_over_many_lines_is_read() -> None:
    found = generic.Generic.of({"metrics": [{"name": "x", "unit": "s", "json_path": "a.b[1]"}]})
    for line in ("{", '"a": {"b": [1,', "2]}", "}"):
        found.feed(line)
    assert found.report().readings[0].values == (2.0,)


def test_a_figure_that_is_missing_or_no_number_is_said_and_left_out() -> None:
    found = generic.Generic.of(SPEC)
    found.feed("decode: nan tok/s")
    report = found.report()
    assert not report.readings
    assert report.status is Status.NO_METRICS
    assert any("ttft: not found" in note for note in report.notes)


@pytest.mark.parametrize(
    "metric",
    [
        {"name": "x"},
        {"name": "x", "regex": "(", "unit": "s"},
        {"name": "x", "regex": "no group"},
        {"name": "x", "json_path": "a..b["},
        {"name": "x", "regex": "(a)", "json_path": "a"},
        {"name": "x", "regex": "(a)", "better": "faster"},
    ],
)
def test_a_metric_that_cannot_work_is_refused_in_words(metric: dict[str, str]) -> None:
    with pytest.raises(generic.MetricError):
        generic.Generic.of({"metrics": [metric]})


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=80), max_size=20))
def test_no_output_breaks_the_generic_parser(lines: list[str]) -> None:
    found = generic.Generic.of(SPEC)
    for line in lines:
        found.feed(line)
    assert all(measured(value) for reading in found.report().readings for value in reading.values)
