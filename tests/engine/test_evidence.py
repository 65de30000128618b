"""What the engine writes is what the farm's parsers read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farm.evidence.crash import crashes
from farm.evidence.engines.events import EventStream
from tests.engine.driving import EngineRun, run_engine


def read(run: EngineRun) -> EventStream:
    stream = EventStream()
    for event in run.events:
        assert stream.feed(json.dumps(event)) is not None
    return stream


def test_the_farm_reads_rates_and_times_from_the_stream(engine_bin: Path, models_dir: Path) -> None:
    run = run_engine(
        engine_bin, "--model", models_dir / "tiny-q4_0.gguf", "--prompt", "Hello", "--n-predict", "5",
        "--repeat", "3", "--ignore-eos",
    )  # fmt: skip
    report = read(run).report()
    assert (report.status, report.notes) == ("ok", ())
    readings = {reading.name: reading for reading in report.readings}
    results = run.kind("result")
    expected = [result["decode_tokens"] / result["decode_us"] * 1e6 for result in results]
    assert readings["decode_rate"].values == pytest.approx(expected)
    assert readings["ttft"].values == pytest.approx([result["ttft_us"] / 1000 for result in results])
    assert set(readings) >= {"prefill_rate", "load_time", "peak_rss"}


@pytest.mark.parametrize(("name", "code"), [("SEGV", "SEGV_MAPERR"), ("ABRT", "SI_TKILL")])
def test_the_farm_reads_a_crash_from_the_tombstone_and_from_the_stream(
    engine_bin: Path, models_dir: Path, name: str, code: str
) -> None:
    run = run_engine(
        engine_bin, "--model", models_dir / "tiny-q4_0.gguf", "--prompt", "x", "--fault", f"crash=decode:{name}"
    )
    (crash,) = crashes(run.stderr)
    assert (crash.signal_name, crash.code_name, crash.thread) == (f"SIG{name}", code, "farm-engine")
    assert crash.pid == run.one("hello")["pid"]
    assert any("farm::Session::decode" in frame for frame in crash.backtrace)
    stream = read(run)
    assert stream.exit_code is None
    assert [(error.name, error.stage) for error in stream.errors] == [(f"SIG{name}", "decode")]
