"""The journal file and the gate before it."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.domain.journal import MAX_LINE, Kind, parse_line
from runner.gate import Gate, Refused
from runner.journal import FileJournal, read
from runner.reporter import DeskReporter
from runner.turns import Turns


def test_numbers_go_on_after_the_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    first = FileJournal(path)
    first.record("note", text="a")
    first.record("note", text="b")
    first.close()
    with path.open("ab") as torn:
        torn.write(b'{"v":1,"seq":2,"wall":1,"mono":1,"kind":"no')
    second = FileJournal(path)
    assert second.record("note", text="c") == 2
    second.close()
    assert [(r.seq, r.fields["text"]) for r in read(path)] == [(0, "a"), (1, "b"), (2, "c")]


def test_a_record_that_the_full_disk_tore_costs_no_other_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.jsonl"
    journal = FileJournal(path)
    real, pieces = os.write, iter([20])

    def little(fd: int, data: bytes) -> int:
        room = next(pieces, None)
        if room is None:
            raise OSError(28, "No space left on device")
        return real(fd, bytes(data)[:room])

    with monkeypatch.context() as full:
        full.setattr("runner.journal.os.write", little)
        with pytest.raises(OSError, match="No space"):
            journal.record("note", text="torn")
    journal.record("test_end", test="a", outcome="passed")
    journal.close()
    assert [(r.seq, r.kind) for r in read(path)] == [(0, "test_end")]


@pytest.mark.parametrize("seq", ["1e999", "99999999999999999999999", "-1", "NaN"])
def test_a_number_that_no_record_can_have_makes_no_record(seq: str) -> None:
    assert parse_line(f'{{"v":1,"seq":{seq},"wall":1,"mono":1,"kind":"note"}}') is None


def test_a_reader_passes_over_what_is_no_record_and_what_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = FileJournal(path)
    journal.record("note", text="a")
    with path.open("ab") as foreign:
        foreign.write(b"\n{}\n[1]\nnot json\n" + b"x" * (3 * MAX_LINE) + b"\n")
    journal.record("note", text="b")
    journal.close()
    assert [r.fields["text"] for r in read(path)] == ["a", "b"]


def test_lines_of_many_threads_are_whole_and_numbered(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = FileJournal(path)
    writers = [
        threading.Thread(target=lambda: [journal.record("note", text="x" * 5000) for _ in range(50)]) for _ in range(4)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    journal.close()
    assert [r.seq for r in read(path)] == list(range(200))


def test_what_is_no_number_cannot_be_written(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "journal.jsonl")
    with pytest.raises(ValueError):
        journal.record("note", value=float("nan"))
    assert journal.record("note", text="after") == 0
    journal.close()


# ---- the gate ----

TEST = "s/test_x.py::test_x"


@pytest.fixture
def gate() -> Gate:
    found = Gate(["S1"], finished=["s/test_x.py::test_done"])
    found.admit("collected", {"tests": [TEST, "s/test_x.py::test_done"]})
    found.admit("test_start", {"test": TEST})
    return found


def measurement(**changes: Any) -> dict[str, Any]:
    return {"test": TEST, "name": "x", "unit": "ms", "better": "lower", "values": [1.5, 2], **changes}


def test_a_measurement_of_the_running_test_passes_with_its_device(gate: Gate) -> None:
    assert gate.admit("measurement", measurement(marks=[None, "warmup"])) == {
        "test": TEST,
        "device": "S1",
        "name": "x",
        "unit": "ms",
        "better": "lower",
        "values": [1.5, 2.0],
        "marks": [None, "warmup"],
        "labels": {},
    }


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        ("end", {"outcome": "passed"}, "cannot write"),
        ("start", {}, "cannot write"),
        ("note", {"text": "x", "seq": 4}, "belong to the journal"),
        ("note", {"text": "x", "level": "error"}, "neither info nor warning"),
        ("measurement", measurement(values=[0]), "not measured"),
        ("measurement", measurement(values=[float("inf")]), "not a number"),
        ("measurement", measurement(values=["1"]), "not a number"),
        ("measurement", measurement(values=[True]), "not a number"),
        ("measurement", measurement(values=[]), "no values"),
        ("measurement", measurement(marks=["warmup"]), "marks for"),
        ("measurement", measurement(better="faster"), "faster"),
        ("measurement", measurement(device="S2"), "not leased"),
        ("measurement", measurement(test="s/test_x.py::test_done"), "not running"),
        ("measurement", measurement(name="x" * 300), "not a name"),
        ("test_start", {"test": "s/test_x.py::test_done"}, "finished already"),
        ("test_start", {"test": "elsewhere"}, "not among the collected"),
        ("test_end", {"test": "s/test_x.py::test_done", "outcome": "passed", "duration_s": 1}, "not running"),
        ("test_end", {"test": TEST, "outcome": "great", "duration_s": 1}, "great"),
        ("test_end", {"test": TEST, "outcome": "failed", "duration_s": 1, "cause": "boredom"}, "boredom"),
        ("collected", {"tests": ["late"]}, "settled"),
        ("incident", {"class": "lens-refused", "summary": "x"}, "not a suite's"),
        ("incident", {"class": "../x", "summary": "x"}, "not a suite's"),
        ("fingerprint", {"facts": {"x": "y" * 200_000}}, "128 KB"),
        ("stage", {"name": "x", "began": 0, "dur_s": -1}, "less than nothing"),
        ("series", {"name": "x", "unit": "s", "t": [1], "values": []}, "as many values"),
        ("artifact", {"name": "x"}, "path"),
    ],
)
def test_what_the_gate_refuses_and_why(gate: Gate, kind: str, fields: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused, match=why):
        gate.admit(kind, fields)


def test_a_test_ends_once(gate: Gate) -> None:
    end = {"test": TEST, "outcome": "passed", "duration_s": 1}
    gate.admit("test_end", end)
    with pytest.raises(Refused):
        gate.admit("test_end", end)
    with pytest.raises(Refused, match="finished already"):
        gate.admit("test_start", {"test": TEST})


def test_a_test_that_lost_its_device_may_start_again(gate: Gate) -> None:
    gate.admit("test_end", {"test": TEST, "outcome": "error", "duration_s": 1, "cause": "device-lost"})
    gate.admit("test_start", {"test": TEST})


def test_long_texts_are_cut_and_say_so(gate: Gate) -> None:
    found = gate.admit("incident", {"class": "x", "summary": "s" * 5000, "evidence": "e" * 100_000})
    assert len(found["summary"]) <= 2000
    assert "left out" in found["evidence"]


ANY = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
NAMES = [
    "test",
    "tests",
    "device",
    "name",
    "unit",
    "better",
    "values",
    "marks",
    "labels",
    "outcome",
    "duration_s",
    "cause",
]
NAMES += ["class", "summary", "evidence", "facts", "t", "began", "dur_s", "counters", "path", "text", "level"]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([*Kind, "?"]), st.dictionaries(st.sampled_from(NAMES), ANY | st.just(TEST), max_size=8))
def test_whatever_passes_the_gate_is_a_line_of_the_journal(kind: str, fields: dict[str, Any]) -> None:
    gate = Gate(["S1"])
    gate.admit("collected", {"tests": [TEST]})
    gate.admit("test_start", {"test": TEST})
    try:
        checked = gate.admit(kind, fields)
    except Refused:
        return
    line = json.dumps({"v": 1, "seq": 0, "wall": 0, "mono": 0, "kind": kind, **checked}, allow_nan=False)
    assert len(line) < MAX_LINE
    assert parse_line(line) is not None


def test_a_desk_notes_what_its_journal_refuses(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "journal.jsonl")
    reporter = DeskReporter(journal, Gate(["S1"]), Turns(tmp_path), print)
    reporter.record("measurement", **measurement())
    reporter.close()
    (note,) = read(journal.path)
    assert note.kind == "note"
    assert "not among the collected" in note.fields["text"]
