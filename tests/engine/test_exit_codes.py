"""Each exit code of the table in docs/engine.md, with one clear message each."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import gguf
import pytest

from engine.models import container, make_model
from tests.engine.driving import EngineRun, run_engine

MEGABYTE = 1 << 20


def assert_refused(run: EngineRun, code: int, name: str, said: str) -> None:
    assert run.status == code
    error = run.one("error")
    assert (error["code"], error["name"]) == (code, name)
    assert said in error["message"]
    assert run.stderr == f"farm-engine: error: {error['message']}\n"
    assert run.events[-1]["exit_code"] == code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--prompt", "x"], "--model is missing"),
        (["--model", "m", "--frobnicate"], "unknown option '--frobnicate'"),
        (["--model", "m", "stray"], "unknown option 'stray'"),
        (["--model", "m"], "exactly one of --prompt and --prompt-tokens"),
        (["--model", "m", "--prompt", "x", "--prompt-tokens", "4"], "exactly one of"),
        (["--model", "m", "--prompt", "x", "--threads", "0"], "--threads wants a whole number from 1 to 64"),
        (["--model", "m", "--prompt", "x", "--threads", "2x"], "not '2x'"),
        (["--model", "m", "--prompt", "x", "--n-predict", "-1"], "--n-predict wants"),
        (["--model", "m", "--prompt", "x", "--seed", "99999999999999999999"], "--seed wants"),
    ],
)
def test_a_wrong_command_line_ends_with_2(engine_bin: Path, arguments: list[str], said: str) -> None:
    assert_refused(run_engine(engine_bin, *arguments), 2, "usage", said)


def test_an_option_without_its_value_ends_with_2(engine_bin: Path) -> None:
    done = subprocess.run([engine_bin, "--model"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == "farm-engine: error: --model needs a value (--help lists the options)\n"


def test_a_prompt_that_does_not_fit_ends_with_2(engine_bin: Path, models_dir: Path) -> None:
    model = models_dir / "tiny-q4_0.gguf"
    run = run_engine(engine_bin, "--model", model, "--prompt-tokens", "100", "--n-predict", "10", "--ctx", "109")
    assert_refused(run, 2, "usage", "do not fit into --ctx 109")
    run = run_engine(engine_bin, "--model", model, "--prompt-tokens", "100", "--n-predict", "10", "--ctx", "110")
    assert run.status == 0
    assert_refused(
        run_engine(engine_bin, "--model", model, "--prompt", "x", "--ctx", "4096"),
        2,
        "usage",
        "more than the model's 2048",
    )


def test_a_model_that_is_not_there_or_not_a_file_ends_with_3(engine_bin: Path, tmp_path: Path) -> None:
    missing = run_engine(engine_bin, "--model", tmp_path / "no.gguf", "--prompt", "x")
    assert_refused(missing, 3, "model_file", "No such file")
    assert missing.one("error")["stage"] == "load.open"
    assert missing.one("hello")["model"]["bytes"] is None
    assert_refused(run_engine(engine_bin, "--model", tmp_path, "--prompt", "x"), 3, "model_file", "")
    (tmp_path / "text.gguf").write_text("no model at all\n")
    text = run_engine(engine_bin, "--model", tmp_path / "text.gguf", "--prompt", "x")
    assert_refused(text, 3, "model_file", "invalid magic")


def limit_memory(megabytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (megabytes * MEGABYTE, megabytes * MEGABYTE))


@pytest.mark.parametrize("limit", [30, 60, 100])
def test_too_little_memory_ends_with_4(engine_bin: Path, models_dir: Path, limit: int) -> None:
    # small-f32 maps 80 MB and its cache of 2048 positions takes 29 MB: each limit stops another allocation.
    run = run_engine(
        engine_bin, "--model", models_dir / "small-f32.gguf", "--prompt", "x", "--ctx", "2048",
        before=lambda: limit_memory(limit),
    )  # fmt: skip
    assert run.status == 4, run.stderr
    assert run.one("error")["name"] == "out_of_memory"
    assert run.one("error")["stage"] in ("load.map", "load.init")


def test_a_leak_ends_with_4_where_memory_ends(engine_bin: Path, models_dir: Path) -> None:
    run = run_engine(
        engine_bin, "--model", models_dir / "tiny-q4_0.gguf", "--prompt", "x", "--n-predict", "100", "--ignore-eos",
        "--fault", "leak=16", before=lambda: limit_memory(128),
    )  # fmt: skip
    assert_refused(run, 4, "out_of_memory", "cannot allocate 16777216 more bytes")
    assert run.one("error")["stage"] == "decode"


def patched(source: Path, target: Path, old: bytes, new: bytes) -> Path:
    data = source.read_bytes()
    assert data.count(old) >= 1
    assert len(old) == len(new)
    target.write_bytes(data.replace(old, new, 1))
    return target


def test_an_architecture_or_vocabulary_that_is_not_supported_ends_with_5(
    engine_bin: Path, models_dir: Path, tmp_path: Path
) -> None:
    source = models_dir / "tiny-f32.gguf"
    other = patched(source, tmp_path / "arch.gguf", b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0gemma")
    assert_refused(run_engine(engine_bin, "--model", other, "--prompt", "x"), 5, "unsupported", "'gemma'")
    words = patched(source, tmp_path / "words.gguf", b"<0x41>", b"word-A")
    run = run_engine(engine_bin, "--model", words, "--prompt", "x")
    assert_refused(run, 5, "unsupported", "only byte vocabularies")
    assert run.one("error")["stage"] == "load.tokenizer"


def test_a_weight_type_that_is_not_supported_ends_with_5(engine_bin: Path, tmp_path: Path) -> None:
    path = tmp_path / "bf16.gguf"
    shape = make_model.SHAPES["tiny"]
    writer = gguf.GGUFWriter(path, "llama")
    container.add_metadata(writer, shape, "f32")
    container.add_vocabulary(writer)
    other = gguf.GGMLQuantizationType.BF16
    for name, weights in make_model.tensors(shape, 1):
        kind = other if weights.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quants.quantize(weights, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert_refused(run_engine(engine_bin, "--model", path, "--prompt", "x"), 5, "unsupported", "has type bf16")


def test_weights_that_are_not_numbers_end_with_6(engine_bin: Path, models_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "nan.gguf"
    data = bytearray((models_dir / "tiny-f32.gguf").read_bytes())
    data[-4096:] = b"\xff" * 4096  # float32 NaNs at the end of the output matrix
    path.write_bytes(data)
    run = run_engine(engine_bin, "--model", path, "--prompt", "x")
    assert_refused(run, 6, "not_finite", "not a finite number at position 1")
    assert run.one("error")["stage"] == "prefill"


def test_an_event_stream_that_cannot_be_written_ends_with_74(
    engine_bin: Path, models_dir: Path, tmp_path: Path
) -> None:
    basics = [str(engine_bin), "--model", str(models_dir / "tiny-q4_0.gguf"), "--prompt", "x", "--events"]
    done = subprocess.run([*basics, "/dev/full"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 74
    assert "cannot write the event stream: No space left on device" in done.stderr
    done = subprocess.run([*basics, tmp_path / "no" / "dir"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 74
    assert "cannot open the event file" in done.stderr


def test_a_reader_that_goes_away_ends_the_engine_with_74_and_not_by_a_signal(
    engine_bin: Path, models_dir: Path
) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [engine_bin, "--model", models_dir / "tiny-q4_0.gguf", "--prompt", "x", "--events", "-"],
            stdout=write_end, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(write_end)
    assert done.returncode == 74
    assert "Broken pipe" in done.stderr
