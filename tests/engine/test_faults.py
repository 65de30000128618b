"""Every fault does what it says, on purpose and for real."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.engine.driving import TIMEOUT_S, run_engine
from tests.waiting import eventually

STAGES = ("load.open", "load.map", "load.tokenizer", "load.init", "warmup", "prefill", "decode")


@pytest.fixture
def basics(models_dir: Path) -> list[str]:
    return ["--model", str(models_dir / "tiny-q4_0.gguf"), "--prompt", "Hello", "--n-predict", "6", "--ignore-eos"]


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("SEGV", "decode"),
        ("ABRT", "prefill"),
        ("BUS", "load.map"),
        ("ILL", "load.init"),
        ("FPE", "warmup"),
        ("TRAP", "load.open"),
    ],
)
def test_a_crash_leaves_a_tombstone_an_error_event_and_the_signal_as_status(
    engine_bin: Path, basics: list[str], name: str, stage: str
) -> None:
    run = run_engine(engine_bin, *basics, "--warmup", "1", "--fault", f"crash={stage}:{name}")
    number = signal.Signals[f"SIG{name}"]
    assert run.status == -number
    error = run.events[-1]
    assert (error["ev"], error["name"], error["code"], error["stage"]) == ("error", f"SIG{name}", 128 + number, stage)
    assert error["seq"] == len(run.events) - 1
    lines = run.stderr.splitlines()
    assert lines[0] == " ".join(["***"] * 16)
    assert re.search(
        rf"^signal {number.value} \(SIG{name}\), code -?\d+ \(\w+\), fault addr ", run.stderr, re.MULTILINE
    )
    assert re.search(r"^pid: \d+, tid: \d+, name: farm-engine  >>> \S+ <<<$", run.stderr, re.MULTILINE)


def test_a_tombstone_names_the_functions_from_the_crash_up_to_main(engine_bin: Path, basics: list[str]) -> None:
    run = run_engine(engine_bin, *basics, "--fault", "crash=decode")
    build_id = run.one("hello")["build"]["build_id"]
    frames = re.findall(r"^ {6}#(\d\d) pc ([0-9a-f]{16})  (\S+) \((.+)\+(\d+)\) \(BuildId: (\w+)\)$", run.stderr, re.M)
    names = [frame[3] for frame in frames]
    assert [int(frame[0]) for frame in frames] == list(range(len(frames)))
    assert names[:2] == ["farm_fault_null_write", "farm_fault_crash"]
    assert "farm::Session::decode" in names
    assert "main" in names
    assert {frame[5] for frame in frames} == {build_id}
    assert {frame[2] for frame in frames} == {str(engine_bin)}
    assert "code 1 (SEGV_MAPERR), fault addr 0x0000000000000000" in run.stderr


def test_an_abort_inside_the_c_library_still_shows_its_callers(engine_bin: Path, basics: list[str]) -> None:
    run = run_engine(engine_bin, *basics, "--fault", "crash=prefill:ABRT")
    assert "fault addr --------" in run.stderr
    assert re.search(r"#\d\d pc \w+  \S+ \(abort\+\d+\)", run.stderr)
    assert re.search(r"#\d\d pc \w+  \S+ \(farm_fault_crash[.\w]*\+\d+\)", run.stderr)
    assert "farm::Session::prefill" in run.stderr


@pytest.mark.parametrize("name", ["KILL", "TERM"])
def test_signals_that_are_not_crashes_leave_no_tombstone(engine_bin: Path, basics: list[str], name: str) -> None:
    run = run_engine(engine_bin, *basics, "--fault", f"crash=prefill:{name}")
    assert run.status == -signal.Signals[f"SIG{name}"]
    assert run.stderr == ""
    assert run.events[-1]["ev"] == "stage_begin"


def test_a_model_that_is_cut_while_mapped_is_a_real_bus_error_with_its_address(
    engine_bin: Path, models_dir: Path, tmp_path: Path
) -> None:
    model, target = tmp_path / "model.gguf", tmp_path / "events"
    shutil.copyfile(models_dir / "tiny-f32.gguf", model)
    command = [str(engine_bin), "--model", str(model), "--prompt", "x", "--repeat", "100000", "--events", str(target)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            eventually(lambda: '"ev":"result"' in target.read_text())
            os.truncate(model, 8192)
            _, stderr = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGBUS
    assert re.search(r"signal 7 \(SIGBUS\), code 2 \(BUS_ADRERR\), fault addr 0x[0-9a-f]{16}", stderr)
    assert "ggml" in stderr  # the frames inside the arithmetic


def test_a_signal_from_outside_is_told_apart_from_a_fault_of_the_hardware(
    engine_bin: Path, basics: list[str], tmp_path: Path
) -> None:
    target = tmp_path / "events"
    command = [str(engine_bin), *basics, "--events", str(target), "--fault", "hang=prefill"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            eventually(lambda: '"stage":"prefill"' in target.read_text())
            process.send_signal(signal.SIGABRT)  # as a farm does that wants the stacks of a hang
            _, stderr = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGABRT
    assert "signal 6 (SIGABRT), code 0 (SI_USER), fault addr --------" in stderr
    assert "farm_fault_hang" in stderr


@pytest.mark.parametrize("stage", STAGES)
def test_a_hang_is_silent_from_its_stage_on_until_it_is_killed(
    engine_bin: Path, basics: list[str], tmp_path: Path, stage: str
) -> None:
    target = tmp_path / "events"
    command = [str(engine_bin), *basics, "--warmup", "1", "--events", str(target), "--fault", f"hang={stage}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            begun = f'"ev":"stage_begin","stage":"{stage}"'
            eventually(lambda: target.exists() and begun in target.read_text(), timeout=60)
            last = target.read_text().splitlines()[-1]
            assert begun in last
            eventually(lambda: Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S")
            assert process.poll() is None
        finally:
            process.terminate()
        assert process.wait(TIMEOUT_S) == -signal.SIGTERM
    assert target.read_text().splitlines()[-1] == last


def test_a_leak_grows_with_each_token(engine_bin: Path, basics: list[str]) -> None:
    plain = run_engine(engine_bin, *basics)
    leaking = run_engine(engine_bin, *basics, "--fault", "leak=4")
    growth = leaking.kind("memory")[-1]["rss_kb"] - plain.kind("memory")[-1]["rss_kb"]
    assert growth == pytest.approx(6 * 4 * 1024, rel=0.1)
    assert leaking.token_ids == plain.token_ids


def cpu_seconds(engine: Path, arguments: list[str]) -> float:
    """CPU time of a run, user and system: what a busy machine does not change."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = run_engine(engine, *arguments)
    assert run.status == 0, run.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("stage", ["prefill", "decode"])
def test_a_slow_stage_costs_its_factor_and_changes_no_result(engine_bin: Path, models_dir: Path, stage: str) -> None:
    work = (
        ["--prompt-tokens", "400", "--n-predict", "1"]
        if stage == "prefill"
        else ["--prompt", "x", "--n-predict", "300"]
    )
    arguments = ["--model", str(models_dir / "tiny-q4_0.gguf"), "--ignore-eos", *work]
    slow = ["--fault", f"slow-stage={stage}:4.0"]
    # The least of several runs: neighbours on the machine make the same work dearer, never cheaper.
    plain, slowed = zip(
        *((cpu_seconds(engine_bin, arguments), cpu_seconds(engine_bin, [*arguments, *slow])) for _ in range(4)),
        strict=True,
    )
    assert 2.5 < min(slowed) / min(plain) < 5.5
    assert run_engine(engine_bin, *arguments, *slow).token_ids == run_engine(engine_bin, *arguments).token_ids


def test_a_slow_stage_repeats_the_real_work(engine_bin: Path, basics: list[str]) -> None:
    def touched(*fault: str) -> int:
        run = run_engine(engine_bin, *basics, *fault)
        return int(next(e["counters"]["weight_bytes_touched"] for e in run.kind("stage_end") if e["stage"] == "decode"))

    assert 2 * touched() <= touched("--fault", "slow-stage=decode:4") <= 8 * touched()


def test_a_load_stage_can_be_slow_too(engine_bin: Path, basics: list[str]) -> None:
    run = run_engine(engine_bin, *basics, "--fault", "slow-stage=load.init:2")
    assert run.status == 0


def test_an_exit_code_can_be_chosen_at_the_end_or_at_a_stage(engine_bin: Path, basics: list[str]) -> None:
    end = run_engine(engine_bin, *basics, "--fault", "exit=9")
    assert (end.status, end.one("bye")["exit_code"], len(end.kind("result"))) == (9, 9, 1)
    early = run_engine(engine_bin, *basics, "--fault", "exit=11:prefill")
    assert (early.status, early.one("error")["name"], early.one("error")["stage"]) == (11, "fault", "prefill")
    assert early.kind("result") == []


def test_the_environment_switches_faults_without_touching_the_command_line(engine_bin: Path, basics: list[str]) -> None:
    run = run_engine(engine_bin, *basics, env={"FARM_ENGINE_FAULT": "slow-stage=decode:1.5,exit=7"})
    assert run.status == 7
    assert run_engine(engine_bin, *basics, env={"FARM_ENGINE_FAULT": ""}).status == 0


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("explode", "no such fault"),
        ("crash=lunch", "no stage 'lunch'"),
        ("crash=decode:SIGNOPE", "no signal 'NOPE'"),
        ("hang=", "no stage ''"),
        ("leak=lots", "wants a number"),
        ("leak=nan", "wants a number"),
        ("slow-stage=decode", "wants a number"),
        ("slow-stage=decode:0.5", "wants a number"),
        ("exit=256", "wants a number"),
    ],
)
def test_a_fault_that_does_not_exist_is_refused_with_a_message(
    engine_bin: Path, basics: list[str], fault: str, said: str
) -> None:
    for run in (
        run_engine(engine_bin, *basics, "--fault", fault),
        run_engine(engine_bin, *basics, env={"FARM_ENGINE_FAULT": fault}),
    ):
        assert run.status == 2
        assert said in run.one("error")["message"]
        assert said in run.stderr
        assert len(run.stderr.splitlines()) == 1


def test_no_fault_is_active_by_default(engine_bin: Path, basics: list[str]) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "FARM_ENGINE_FAULT"}
    assert run_engine(engine_bin, *basics, env=environment).one("bye")["exit_code"] == 0
