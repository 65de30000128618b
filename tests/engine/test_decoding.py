"""The arithmetic: the same every time, the same as NumPy, the same for any number of threads."""

from __future__ import annotations

import shutil
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import pytest

from engine.models.container import VOCABULARY
from tests.engine.driving import EngineRun, run_engine
from tests.engine.reference import ReferenceModel

PROMPT = "The farm runs engines on devices, Käse €5."


def generate(
    engine: Path, model: Path, logits: Path, *more: str, n_predict: int = 24
) -> tuple[EngineRun, npt.NDArray[np.float32]]:
    run = run_engine(
        engine, "--model", model, "--prompt", PROMPT, "--n-predict", str(n_predict), "--dump-logits", logits,
        "--ignore-eos", *more,
    )  # fmt: skip
    assert run.status == 0, run.stderr
    return run, np.fromfile(logits, dtype="<f4").reshape(-1, VOCABULARY)


def prompt_ids() -> list[int]:
    return [1, *(3 + byte for byte in PROMPT.encode())]


@pytest.mark.parametrize("weight_type", ["f32", "q4_0"])
def test_the_same_run_gives_the_same_bytes_for_any_number_of_threads(
    engine_bin: Path, models_dir: Path, tmp_path: Path, weight_type: str
) -> None:
    model = models_dir / f"tiny-{weight_type}.gguf"
    first, logits = generate(engine_bin, model, tmp_path / "1", n_predict=6)
    # Few tokens: threads beyond the free cores wait for each other by spinning.
    for threads, n_predict in (("1", 6), ("2", 6), ("3", 2)):
        again, others = generate(engine_bin, model, tmp_path / "n", "--threads", threads, n_predict=n_predict)
        assert again.token_ids == first.token_ids[:n_predict]
        assert np.array_equal(logits[:n_predict], others)


def test_iterations_of_one_process_do_not_influence_each_other(engine_bin: Path, models_dir: Path) -> None:
    run = run_engine(
        engine_bin, "--model", models_dir / "tiny-q4_0.gguf", "--prompt", PROMPT, "--n-predict", "8",
        "--repeat", "3", "--warmup", "2",
    )  # fmt: skip
    texts = [result["text"] for result in run.kind("result")]
    assert len(texts) == 3
    assert len(set(texts)) == 1


def test_float32_logits_agree_with_numpy_in_prefill_and_decode(
    engine_bin: Path, models_dir: Path, tmp_path: Path
) -> None:
    model = models_dir / "tiny-f32.gguf"
    run, logits = generate(engine_bin, model, tmp_path / "logits")
    tokens = [*prompt_ids(), *run.token_ids[:-1]]
    expected = ReferenceModel(model).logits(tokens)[len(prompt_ids()) - 1 :]
    assert logits.shape == expected.shape == (24, VOCABULARY)
    # float32 against float64 through four layers; logits are of order one.
    assert np.abs(logits - expected).max() < 2e-3
    assert expected.std() > 0.3


def test_prompt_pieces_of_any_size_give_the_same_logits_but_for_rounding(
    engine_bin: Path, models_dir: Path, tmp_path: Path
) -> None:
    model = models_dir / "tiny-f32.gguf"
    _, whole = generate(engine_bin, model, tmp_path / "whole", "--batch", "64", n_predict=1)
    for batch in ("1", "7", "44", "45"):
        _, pieces = generate(engine_bin, model, tmp_path / "pieces", "--batch", batch, n_predict=1)
        assert np.abs(whole - pieces).max() < 1e-4


def test_quantised_logits_agree_with_numpy_on_the_same_quantised_weights(
    engine_bin: Path, models_dir: Path, tmp_path: Path
) -> None:
    model = models_dir / "tiny-q4_0.gguf"
    _, logits = generate(engine_bin, model, tmp_path / "logits", n_predict=1)
    expected = ReferenceModel(model).logits(prompt_ids())[-1]
    # ggml multiplies q4_0 with activations rounded to eight bits; NumPy does not round them.
    assert np.corrcoef(logits[0], expected)[0, 1] > 0.995


def test_a_quantised_model_stays_close_to_the_float32_one(engine_bin: Path, models_dir: Path, tmp_path: Path) -> None:
    _, exact = generate(engine_bin, models_dir / "small-f32.gguf", tmp_path / "exact", n_predict=1)
    _, coarse = generate(engine_bin, models_dir / "small-q4_0.gguf", tmp_path / "coarse", n_predict=1)
    correlation = np.corrcoef(exact[0], coarse[0])[0, 1]
    assert 0.9 < correlation < 0.99999


def test_the_made_up_prompt_depends_on_the_seed_alone(engine_bin: Path, models_dir: Path) -> None:
    def ids(seed: str) -> list[int]:
        run = run_engine(
            engine_bin, "--model", models_dir / "tiny-f32.gguf", "--prompt-tokens", "40", "--n-predict", "12",
            "--seed", seed, "--ignore-eos",
        )  # fmt: skip
        assert run.one("result")["prompt_tokens"] == 40
        return run.token_ids

    assert ids("5") == ids("5")
    assert ids("5") != ids("6")


def with_eos(source: Path, target: Path, eos: int) -> Path:
    """The same model with another end-of-sequence token."""
    shutil.copyfile(source, target)
    reader = gguf.GGUFReader(target, "r+")
    field = reader.fields["tokenizer.ggml.eos_token_id"]
    field.parts[field.data[0]][0] = eos
    reader.data.flush()
    return target


def test_an_end_of_sequence_token_ends_the_iteration_and_is_no_output(
    engine_bin: Path, models_dir: Path, tmp_path: Path
) -> None:
    source = models_dir / "tiny-f32.gguf"
    arguments = ("--prompt", PROMPT, "--n-predict", "12")
    ids = run_engine(engine_bin, "--model", source, *arguments).token_ids
    last = next(i for i in range(4, 12) if ids[i] not in ids[:i])
    model = with_eos(source, tmp_path / "eos.gguf", ids[last])
    ended = run_engine(engine_bin, "--model", model, *arguments)
    assert ended.token_ids == ids[:last]
    assert ended.one("result")["output_tokens"] == ended.one("result")["decode_tokens"] == last
    assert run_engine(engine_bin, "--model", model, *arguments, "--ignore-eos").token_ids == ids


def test_a_sequence_that_ends_at_once_has_no_time_to_first_token(
    engine_bin: Path, models_dir: Path, tmp_path: Path
) -> None:
    source = models_dir / "tiny-f32.gguf"
    first = run_engine(engine_bin, "--model", source, "--prompt", PROMPT, "--n-predict", "1").token_ids[0]
    model = with_eos(source, tmp_path / "eos.gguf", first)
    result = run_engine(engine_bin, "--model", model, "--prompt", PROMPT).one("result")
    assert (result["output_tokens"], result["ttft_us"], result["decode_us"], result["text"]) == (0, None, None, "")
