"""The event stream: every kind, its members and its order, as engine/EVENTS.md says."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.engine.driving import EngineRun, run_engine

LOAD_STAGES = ["load.open", "load.map", "load.tokenizer", "load.init"]
KINDS = {
    "hello", "model", "stage_begin", "stage_end", "token", "backend", "ops", "memory", "result", "bye",
}  # fmt: skip


@pytest.fixture(scope="module")
def run(engine_bin: Path, models_dir: Path) -> EngineRun:
    done = run_engine(
        engine_bin, "--model", models_dir / "tiny-q4_0.gguf", "--prompt", "Hello", "--n-predict", "5",
        "--repeat", "2", "--warmup", "1", "--threads", "2", "--ignore-eos",
    )  # fmt: skip
    assert done.status == 0, done.stderr
    return done


def test_lines_are_numbered_without_gaps_and_time_never_goes_back(run: EngineRun) -> None:
    assert [event["seq"] for event in run.events] == list(range(len(run.events)))
    assert {event["v"] for event in run.events} == {1}
    times = [event["t_us"] for event in run.events]
    assert times == sorted(times)
    assert times[0] >= 0


def test_hello_comes_first_and_bye_last_and_every_kind_of_a_good_run_is_there(run: EngineRun) -> None:
    assert run.events[0]["ev"] == "hello"
    assert run.events[-1] == {**run.events[-1], "ev": "bye", "exit_code": 0}
    assert {event["ev"] for event in run.events} - {"progress"} == KINDS  # progress: only where the machine is slow


def test_hello_names_engine_build_and_model_and_leaves_unknown_what_is_not_known_yet(
    run: EngineRun, models_dir: Path
) -> None:
    hello = run.one("hello")
    size = (models_dir / "tiny-q4_0.gguf").stat().st_size
    assert (hello["engine"], hello["abi"], hello["threads"]) == ("farm-engine", "x86_64", 2)
    assert hello["build"]["content"].startswith("sha256:")
    assert re.fullmatch("[0-9a-f]{40}", hello["build"]["build_id"])
    assert hello["pid"] > 0
    assert hello["start_monotonic_us"] > 0
    expected = {"name": "tiny-q4_0.gguf", "bytes": size, "params": None, "weight_type": None, "ctx": 512}
    assert hello["model"] == expected


def test_the_model_is_described_once_its_header_was_read(run: EngineRun) -> None:
    model = run.one("model")
    assert (model["params"], model["weight_type"], model["architecture"]) == (3084032, "q4_0", "llama")
    assert (model["layers"], model["heads"], model["heads_kv"], model["vocabulary"]) == (4, 4, 2, 259)


def test_stages_come_in_order_and_each_begin_has_its_end(run: EngineRun) -> None:
    stages = [(e["ev"], e["stage"], e["iteration"]) for e in run.events if e["ev"].startswith("stage_")]
    wanted = [*((stage, 0) for stage in LOAD_STAGES), ("warmup", 0)]
    wanted += [(stage, iteration) for iteration in (0, 1) for stage in ("prefill", "decode")]
    assert stages == [(edge, *stage) for stage in wanted for edge in ("stage_begin", "stage_end")]


def counters_of(run: EngineRun, stage: str) -> dict[str, Any]:
    return next(e["counters"] for e in run.kind("stage_end") if e["stage"] == stage)


def test_counters_hold_what_the_stages_did(run: EngineRun, models_dir: Path) -> None:
    size = (models_dir / "tiny-q4_0.gguf").stat().st_size
    assert counters_of(run, "load.map")["bytes_mapped"] == size
    # The header, a little more because of buffering; not the weights, which are mapped.
    assert 4096 <= counters_of(run, "load.open")["bytes_read"] < size / 10
    assert counters_of(run, "load.map")["bytes_read"] == 0
    assert counters_of(run, "load.tokenizer")["tokens"] == 6
    assert (counters_of(run, "prefill")["tokens"], counters_of(run, "decode")["tokens"]) == (6, 4)
    for event in run.kind("stage_end"):
        assert event["dur_us"] >= 0
        assert event["counters"]["minor_faults"] >= 0


def test_each_decoded_token_touches_all_weights_but_the_embedding_table(run: EngineRun) -> None:
    weights = run.kind("memory")[0]["weights_bytes"]
    embedding_table, embedding_row = 259 * 256 * 4, 256 * 4
    touched = counters_of(run, "decode")["weight_bytes_touched"]
    assert touched == 4 * (weights - embedding_table + embedding_row)


def test_tokens_carry_their_iteration_their_index_and_a_duration(run: EngineRun) -> None:
    tokens = run.kind("token")
    assert [(token["iteration"], token["i"]) for token in tokens] == [(r, i) for r in (0, 1) for i in range(5)]
    assert all(token["dur_us"] > 0 for token in tokens)
    for iteration, result in enumerate(run.kind("result")):
        own = [token for token in tokens if token["iteration"] == iteration]
        assert result["ttft_us"] == own[0]["dur_us"]
        assert result["decode_us"] >= sum(token["dur_us"] for token in own[1:]) * 0.9


def test_results_count_tokens_and_times(run: EngineRun) -> None:
    for iteration, result in enumerate(run.kind("result")):
        assert result["iteration"] == iteration
        assert (result["prompt_tokens"], result["output_tokens"], result["decode_tokens"]) == (6, 5, 4)
        assert 0 < result["prefill_us"] <= result["ttft_us"] * 1.5
        assert result["decode_us"] > 0


def test_the_backend_says_why_and_which_operators_ran_on_it(run: EngineRun) -> None:
    backend = run.one("backend")
    assert (backend["name"], backend["threads"]) == ("CPU", 2)
    assert "AVX2" in backend["features"]
    for event in run.kind("ops"):
        assert set(event["ops"]) == {"CPU"}
        # Per evaluation and layer: q, k, v, output, gate, up, down, scores, mix; one output matrix. Five evaluations.
        assert event["ops"]["CPU"]["MUL_MAT"] == 5 * (4 * 9 + 1)
        assert event["ops"]["CPU"]["SOFT_MAX"] == 5 * 4


def test_memory_is_told_after_loading_and_after_each_iteration(run: EngineRun) -> None:
    memory = run.kind("memory")
    assert [event["iteration"] for event in memory] == [None, 0, 1]
    for event in memory:
        assert event["hwm_kb"] >= event["rss_kb"] > 1000
        assert event["kv_bytes"] == 4 * 2 * 512 * 128 * 4
        assert event["weights_bytes"] > 2_000_000
        assert event["compute_bytes"] > 0
        assert event["pss_kb"] is None or 0 < event["pss_kb"] <= event["rss_kb"] * 1.1


def test_a_long_stage_says_that_it_still_works(engine_bin: Path, models_dir: Path) -> None:
    slow = run_engine(
        engine_bin, "--model", models_dir / "tiny-q4_0.gguf", "--prompt-tokens", "128", "--n-predict", "0",
        "--fault", "slow-stage=prefill:60",
    )  # fmt: skip
    duration = next(e["dur_us"] for e in slow.kind("stage_end") if e["stage"] == "prefill")
    progress = slow.kind("progress")
    # At least a beat for every two seconds of the stage, however slow the machine; none where a second did not pass.
    assert len(progress) >= duration // 2_000_000
    assert duration > 1_000_000 or not progress
    for event in progress:
        assert (event["stage"], event["iteration"]) == ("prefill", 0)
        assert event["elapsed_us"] > 0


def test_nothing_to_predict_means_no_tokens_and_no_times_for_them(engine_bin: Path, models_dir: Path) -> None:
    run = run_engine(engine_bin, "--model", models_dir / "tiny-q4_0.gguf", "--prompt", "x", "--n-predict", "0")
    result = run.one("result")
    assert (result["output_tokens"], result["ttft_us"], result["decode_us"]) == (0, None, None)
    assert result["prefill_us"] > 0
    assert "decode" not in {event["stage"] for event in run.kind("stage_begin")}


@pytest.mark.parametrize("name", [b"caf\xc3\xa9.gguf", b"bad\xff\xc3name.gguf", b'quote".gguf', b"line\nfeed.gguf"])
def test_lines_are_valid_json_whatever_the_names(
    engine_bin: Path, models_dir: Path, tmp_path: Path, name: bytes
) -> None:
    link = os.fsencode(tmp_path) + b"/" + name
    os.symlink(models_dir / "tiny-q4_0.gguf", link)
    done = subprocess.run(
        [os.fsencode(engine_bin), b"--model", link, b"--prompt", b"\xff\xfe\x01", b"--events", b"-"],
        capture_output=True, timeout=120, check=True,
    )  # fmt: skip
    events = [json.loads(line) for line in done.stdout.decode("utf-8").splitlines()]
    assert events[0]["model"]["name"] == re.sub(rb"\xff|\xc3(?=n)", "\ufffd".encode(), name).decode()
    assert events[-1]["exit_code"] == 0


def test_events_go_to_a_file_and_the_text_to_people(engine_bin: Path, models_dir: Path, tmp_path: Path) -> None:
    target = tmp_path / "events.jsonl"
    done = subprocess.run(
        [engine_bin, "--model", models_dir / "tiny-q4_0.gguf", "--prompt", "x", "--n-predict", "3", "--events", target],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert json.loads(target.read_text().splitlines()[-1])["ev"] == "bye"
    assert re.search(r"^decode: \d+ tokens, [0-9.]+ tokens/s$", done.stdout, re.MULTILINE)


def test_describe_tells_build_backends_and_options(engine_bin: Path) -> None:
    done = subprocess.run([engine_bin, "--describe"], capture_output=True, text=True, timeout=60, check=True)
    told = json.loads(done.stdout)
    assert (told["engine"], told["abi"], told["event_stream"]) == ("farm-engine", "x86_64", 1)
    assert told["weight_types"] == ["f32", "f16", "q8_0", "q4_1", "q4_0"]
    assert told["backends"][0]["name"] == "CPU"
    assert told["build"]["compiler"].split()[0] in ("gcc", "clang")
    options = {option["name"]: option for option in told["options"]}
    assert (options["--threads"]["default"], options["--threads"]["type"]) == (1, "int")
    assert options["--model"]["default"] is None
    helped = subprocess.run([engine_bin, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert all(name in helped for name in options)
