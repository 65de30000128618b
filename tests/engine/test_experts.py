"""Sparse experts: the arithmetic, what is counted, and models that lie about them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import pytest

from engine.models import container, make_model
from engine.models.container import VOCABULARY, Weights
from engine.models.shape import Shape
from tests.engine.driving import EngineRun, run_engine
from tests.engine.reference import ReferenceModel
from tests.engine.test_corrupt_models import ORDERLY, status_of

PROMPT = "two of five"
DENSE = Shape("little", layers=2, embedding=64, feed_forward=32, heads=2, heads_kv=1, context=128)


def sparse(experts: int, used: int) -> Shape:
    return replace(DENSE, name="sparse", experts=experts, experts_used=used)


def written(folder: Path, shape: Shape, weight_type: str = "f32") -> Path:
    path = folder / f"{shape.name}-{shape.experts}-{shape.experts_used}-{weight_type}.gguf"
    make_model.write_model(path, shape, weight_type, seed=5)
    return path


def generate(
    engine: Path, model: Path, folder: Path, *more: str, n_predict: int = 6
) -> tuple[EngineRun, npt.NDArray[np.float32]]:
    dump = folder / "logits"
    run = run_engine(
        engine, "--model", model, "--prompt", PROMPT, "--ctx", "128", "--ignore-eos", "--dump-logits", dump,
        "--n-predict", str(n_predict), *more,
    )  # fmt: skip
    assert run.status == 0, run.stderr
    return run, np.fromfile(dump, dtype="<f4").reshape(-1, VOCABULARY)


@pytest.mark.parametrize(("experts", "used"), [(5, 2), (4, 1), (3, 3), (1, 1)])
def test_logits_agree_with_numpy_in_prefill_and_decode(
    engine_bin: Path, tmp_path: Path, experts: int, used: int
) -> None:
    model = written(tmp_path, sparse(experts, used))
    run, logits = generate(engine_bin, model, tmp_path, "--batch", "4")
    prompt = [1, *(3 + byte for byte in PROMPT.encode())]
    expected = ReferenceModel(model).logits([*prompt, *run.token_ids[:-1]])[len(prompt) - 1 :]
    assert np.abs(logits - expected).max() < 2e-3
    assert expected.std() > 0.3


@pytest.mark.parametrize("weight_type", ["f16", "q8_0", "q4_1", "q4_0"])
@pytest.mark.parametrize("shape", [DENSE, sparse(5, 2)], ids=["dense", "sparse"])
def test_every_weight_type_agrees_with_numpy_on_the_same_weights(
    engine_bin: Path, tmp_path: Path, weight_type: str, shape: Shape
) -> None:
    model = written(tmp_path, shape, weight_type)
    run, logits = generate(engine_bin, model, tmp_path, n_predict=1)
    expected = ReferenceModel(model).logits([1, *(3 + byte for byte in PROMPT.encode())])[-1]
    # ggml rounds the activations as well (16 or 8 bits); NumPy does not.
    assert np.corrcoef(logits[0], expected)[0, 1] > 0.99
    assert run.one("model").get("experts") == (shape.experts or None)


def test_experts_that_are_all_alike_do_what_one_dense_part_does(engine_bin: Path, tmp_path: Path) -> None:
    shape, shared = sparse(4, 2), dict(make_model.tensors(DENSE, 5))

    def alike(name: str, weights: Weights) -> Weights:
        if name.endswith("ffn_gate_inp.weight"):
            return weights
        return np.stack([shared[name.replace("_exps", "")]] * 4) if "_exps" in name else shared[name]

    model = tmp_path / "alike.gguf"
    container.write(model, shape, "f32", ((n, alike(n, w)) for n, w in make_model.tensors(shape, 5)))
    same, logits = generate(engine_bin, model, tmp_path)
    dense, others = generate(engine_bin, written(tmp_path, DENSE), tmp_path)
    assert same.token_ids == dense.token_ids
    assert np.abs(logits - others).max() < 1e-4


def test_each_token_is_counted_once_per_expert_that_it_uses(engine_bin: Path, tmp_path: Path) -> None:
    run, _ = generate(engine_bin, written(tmp_path, sparse(5, 2)), tmp_path, "--warmup", "1")
    counts = np.array(run.one("experts")["tokens"])
    assert counts.shape == (DENSE.layers, 5)
    evaluated = len(PROMPT) + 1 + 5  # begin token and prompt, then all but the last of six tokens
    assert counts.sum(axis=1).tolist() == [2 * evaluated] * DENSE.layers
    dense, _ = generate(engine_bin, written(tmp_path, DENSE), tmp_path)
    assert dense.kind("experts") == []


def test_only_the_experts_that_are_used_count_as_read(engine_bin: Path, tmp_path: Path) -> None:
    model = written(tmp_path, sparse(8, 1))
    run, _ = generate(engine_bin, model, tmp_path, n_predict=2)
    decode = next(e for e in run.kind("stage_end") if e["stage"] == "decode")
    tensors = gguf.GGUFReader(model).tensors
    experts = sum(int(t.n_bytes) for t in tensors if "_exps" in t.name)
    rows = next(int(t.n_bytes) for t in tensors if t.name == "token_embd.weight")
    rest = sum(int(t.n_bytes) for t in tensors) - experts - rows
    assert decode["counters"]["weight_bytes_touched"] == experts // 8 + rest + rows // VOCABULARY


@pytest.mark.parametrize(
    ("key", "value", "status"),
    [("expert_used_count", 6, 3), ("expert_used_count", 0, 3), ("expert_count", 4, 3), ("expert_count", 0, 3)],
)
def test_a_model_that_lies_about_its_experts_is_refused(
    engine_bin: Path, tmp_path: Path, key: str, value: int, status: int
) -> None:
    model = written(tmp_path, sparse(5, 2))
    reader = gguf.GGUFReader(model, "r+")
    field = reader.fields[f"llama.{key}"]
    field.parts[field.data[0]][0] = value
    reader.data.flush()
    run = run_engine(engine_bin, "--model", model, "--prompt", "x", "--ctx", "64")
    assert (run.status, run.one("error")["stage"]) == (status, "load.open")


def test_damaged_bytes_never_crash_the_engine(engine_bin: Path, tmp_path: Path) -> None:
    whole = written(tmp_path, replace(sparse(4, 2), layers=1, embedding=32), "q4_0").read_bytes()
    chance = random.Random(7)
    for _ in range(40):
        data = bytearray(whole)
        place = chance.randrange(1500) if chance.random() < 0.6 else chance.randrange(len(data))
        data[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        assert status_of(engine_bin, tmp_path / "m.gguf", bytes(data)) in ORDERLY


@pytest.mark.parametrize("broken", ["blk.0.ffn_gate_inp.weight", "blk.0.attn_v.weight"])
@pytest.mark.parametrize("seed", range(3))
def test_scores_that_are_no_numbers_end_with_6(engine_bin: Path, tmp_path: Path, broken: str, seed: int) -> None:
    # Sorting by "greater than" has no order among values that are no numbers; with many of them it may leave its array.
    shape = sparse(256, 2)
    chance = np.random.default_rng(seed)

    def damaged(name: str, weights: Weights) -> Weights:
        if name != broken:
            return weights
        return np.where(chance.random((len(weights), 1)) < 0.5, np.float32("nan"), weights).astype(np.float32)

    model = tmp_path / "broken.gguf"
    container.write(model, shape, "f32", ((n, damaged(n, w)) for n, w in make_model.tensors(shape, 5)))
    assert status_of(engine_bin, tmp_path / "m.gguf", model.read_bytes()) == 6
