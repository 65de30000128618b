"""How outputs are read: what is believed, what is marked, and how a run looks from its output."""

from __future__ import annotations

from typing import Any

import pytest

from farm.evidence.engines import UnknownTool, parse, tools
from farm.evidence.engines.litert_lm import seconds
from farm.evidence.engines.report import Status


def figures(tool: str, text: str) -> tuple[set[tuple[str, float, str]], dict[str, Any]]:
    report = parse(tool, text.splitlines(keepends=True)).to_json()
    return {(m["name"], m["value"], m["unit"]) for m in report["measurements"]}, report


def test_an_unknown_tool_is_refused_with_the_list_of_the_known() -> None:
    with pytest.raises(UnknownTool, match=r"no parser for the output of 'cuda'; there are: .*litert-lm") as caught:
        parse("cuda", [])
    assert isinstance(caught.value, LookupError)
    assert {"llama-bench", "genie", "events"} <= set(tools())


def test_a_figure_at_the_cut_is_not_believed_and_the_same_figure_with_its_line_end_is() -> None:
    line = "count=15 first=66753 min=66709 avg=66767.6 std=39"
    whole, _ = figures("tflite", f"{line}\n")
    cut, report = figures("tflite", line)
    assert ("inference_time", 39.0, "us") in whole
    assert ("inference_time", 39.0, "us") not in cut
    assert ("inference_time", 66767.6, "us") in cut
    assert report["status"] == "incomplete"


def test_a_table_row_is_a_row_only_with_its_end() -> None:
    head = "| model | test | t/s |\n| --- | --- | --- |\n"
    found, report = figures("llama-bench", f"{head}| llama | pp512 | 212.38 ± 0.40\n| llama | tg128 | 20.50 ± 0.10 |\n")
    assert {figure for figure in found if figure[2] == "tok/s"} == {
        ("decode_rate", 20.5, "tok/s"),
        ("stddev", 0.1, "tok/s"),
    }
    assert report["status"] == "incomplete"


def test_a_figure_under_its_settings_carries_them() -> None:
    text = "num_threads = 4\ngpu_device = 0\n squeezenet  min =   26.02  max =   27.15  avg =   26.74\n"
    (reading, *_) = parse("ncnn", text.splitlines(keepends=True)).readings
    assert reading.labels == {
        "num_threads": "4", "gpu_device": "0", "model": "squeezenet", "backend": "gpu", "stat": "min",
    }  # fmt: skip


def test_what_computed_nothing_is_marked_and_kept_from_the_readings() -> None:
    head = "Forward type: **N/A** thread=4** precision=2\n"
    text = head + "[ - ] m.mnn   max =    1.229ms  min =    0.820ms  avg =    0.879ms\n"
    report = parse("mnn", text.splitlines(keepends=True))
    assert not report.readings
    assert {reading.labels.get("plausible") for reading in report.details if reading.unit == "ms"} == {"false"}


def test_an_invalid_run_of_loadgen_is_invalid_whatever_its_figures() -> None:
    report = parse("mlperf", ["90th percentile latency (ns) : 609750011\n", "Result is : INVALID\n"])
    assert report.status is Status.INVALID
    assert report.readings


def test_a_failure_after_the_figures_is_a_failure_and_a_delegate_that_refuses_is_none() -> None:
    row = "          squeezenet  min =   26.02  max =   27.15  avg =   26.74\n"
    assert parse("ncnn", [row, "Segmentation fault\n"]).status is Status.FAILED
    assert parse("ncnn", ["vkQueueSubmit failed -4\n", row]).status is Status.OK
    assert parse("ncnn", ["vkQueueSubmit failed -4\n"]).status is Status.FAILED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("372.565677ms", 0.372565677),
        ("1m2.5s", 62.5),
        ("2h3m", 7380.0),
        ("8.7s", 8.7),
        ("372.565677", None),
        ("", None),
    ],
)
def test_durations_are_read_as_abseil_prints_them(text: str, expected: float | None) -> None:
    assert seconds(text) == expected
