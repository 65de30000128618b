"""Whatever the bytes: no parser raises, believes a cut figure, or grows with what it reads."""

from __future__ import annotations

import json
import math
import re
import resource
from collections.abc import Iterator
from itertools import chain, islice, product, repeat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.evidence.engines import parse, tools
from farm.evidence.engines.registry import parser
from farm.evidence.engines.report import MAX_NOTES, MAX_READINGS, Report

SAMPLES = Path(__file__).parents[2] / "data" / "samples" / "engine"
TEXTS = {f"{path.parent.name}/{path.stem}": path.read_bytes().decode() for path in sorted(SAMPLES.glob("*/*.txt"))}
SAMPLE = st.sampled_from(sorted(TEXTS))
TOOL = st.sampled_from(tools())
NOISE = "10-01 09:12:44.120 12001 12044 W OtherApp: nothing of interest"


def read(tool: str, text: str) -> Report:
    return parse(tool, text.splitlines(keepends=True))


def figures(report: Report) -> set[tuple[str, float, str]]:
    return {(entry["name"], entry["value"], entry["unit"]) for entry in report.to_json()["measurements"]}


def sound(report: Report) -> None:
    """What holds of every report."""
    body = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert all(0 < entry["value"] < math.inf and entry["name"] and entry["unit"] for entry in body["measurements"])
    assert len(report.notes) <= MAX_NOTES
    assert len(report.readings) <= 2 * MAX_READINGS


@settings(max_examples=300, deadline=None)
@given(TOOL, st.binary(max_size=600))
def test_no_bytes_break_a_parser(tool: str, data: bytes) -> None:
    sound(read(tool, data.decode(errors="replace")))


@settings(max_examples=200, deadline=None)
@given(TOOL, SAMPLE, st.integers(0, 2000), st.text(max_size=40))
def test_no_insertion_breaks_a_parser_not_even_of_another_tool(tool: str, name: str, at: int, inserted: str) -> None:
    text = TEXTS[name]
    sound(read(tool, text[:at] + inserted + text[at:]))


@settings(max_examples=400, deadline=None)
@given(SAMPLE, st.floats(0, 1))
def test_a_truncated_output_has_no_figure_that_the_whole_has_not(name: str, where: float) -> None:
    text = TEXTS[name]
    cut = text[: int(len(text) * where)]
    assert figures(read(name.split("/")[0], cut)) <= figures(read(name.split("/")[0], text))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TEXTS))
def test_no_truncation_at_all_makes_a_figure(name: str) -> None:
    tool, text = name.split("/")[0], TEXTS[name]
    whole = figures(read(tool, text))
    wrong = {at: found for at in range(len(text)) if (found := figures(read(tool, text[:at])) - whole)}
    assert not wrong


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_line_ends_of_another_system_change_nothing(name: str) -> None:
    tool, text = name.split("/")[0], TEXTS[name]
    plain, other = read(tool, text), read(tool, re.sub(r"\r?\n", "\r\n", text))
    assert plain.to_json() == other.to_json()


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_messages_of_others_between_the_lines_change_no_figure(name: str) -> None:
    tool, text = name.split("/")[0], TEXTS[name]
    lines = text.splitlines(keepends=True)
    mixed = "".join(f"{NOISE}\n{line}" for line in lines)
    assert figures(read(tool, mixed)) == figures(read(tool, text))


@pytest.mark.parametrize("name", sorted(TEXTS))
@pytest.mark.parametrize("prefix", ["10-01 09:12:44.120 12001 12044 I stdout  : ", "I/stdout  ( 5395): ", "\x1b[32m"])
def test_a_logger_s_prefix_or_a_colour_changes_no_figure(name: str, prefix: str) -> None:
    tool, text = name.split("/")[0], TEXTS[name]
    if prefix.startswith("\x1b"):
        dressed = "".join(f"{prefix}{line.rstrip()}\x1b[0m\n" for line in text.splitlines(keepends=True)[:-1])
        text = "".join(text.splitlines(keepends=True)[:-1])
    else:
        dressed = "".join(f"{prefix}{line}" for line in text.splitlines(keepends=True))
    assert figures(read(tool, dressed)) == figures(read(tool, text))


def endless(text: str) -> Iterator[str]:
    return chain.from_iterable(repeat(text.splitlines(keepends=True)))


@pytest.mark.slow
@pytest.mark.parametrize("tool", sorted({name.split("/")[0] for name in TEXTS}))
def test_memory_does_not_grow_with_the_output(tool: str) -> None:
    name = max((name for name in TEXTS if name.startswith(f"{tool}/")), key=lambda name: len(TEXTS[name]))
    reader, lines = parser(tool), endless(TEXTS[name])
    peaks = []
    for _ in range(2):
        for line in islice(lines, 20_000):
            reader.feed(line.rstrip("\n"))
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)  # kB
    assert peaks[1] - peaks[0] < 8_000
    sound(reader.report())


#: Repeated to the longest line that is searched: each begins what some pattern looks for, and none ends it.
BEGINNINGS = (
    "-", "=", "#", " ", "\t", "1", "1,", "1.", "a", "a ", "| ", "|1", "[1]", "{", '"a":', "Init Time: ", "min = 1 ",
    "eval time = 1 ms / ", "Prefill 1 ", "n_ctx = 1 ", "failed to allocate ", "error ", "op ", "file ", "Backend (",
    "encoded 1 tokens in ", "Load model ", "layer ", "NPU (", "Peak memory ", "1e", "inf ", "Kill 'a", "Generated ",
)  # fmt: skip


@pytest.mark.parametrize("tool", tools())
def test_no_line_costs_more_than_a_look(tool: str) -> None:
    for beginning, ending in product(BEGINNINGS, ("x", "!1", "|-", ":")):
        reader = parser(tool)
        reader.feed((beginning * (4096 // len(beginning)))[:4090] + ending)
        sound(reader.report())


def test_a_line_without_end_is_read_in_bounds() -> None:
    for tool in tools():
        sound(parse(tool, ["[" * 3_000_000]))
        sound(parse(tool, ["1 " * 2_000_000, '{"a": ' * 100_000]))
