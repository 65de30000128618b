"""The models: the same bytes every time, of the sizes that are promised, readable by others."""

from __future__ import annotations

import hashlib
from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.models import make_model


def test_a_model_has_the_same_bytes_every_time_and_others_for_another_seed(tmp_path: Path) -> None:
    shape = make_model.SHAPES["tiny"]
    digests = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make_model.write_model(tmp_path / name, shape, "q4_0", seed)
        digests.append(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest())
    assert digests[0] == digests[1] != digests[2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]  # no half-written file is left


def test_the_bytes_are_those_of_every_other_machine(models_dir: Path) -> None:
    digest = hashlib.sha256((models_dir / "tiny-f32.gguf").read_bytes()).hexdigest()
    assert digest == "6c1feda5e39548e84c6b0e3141cac9ff15ca056e0d1aa09dac70a633723a80ef"


@pytest.mark.parametrize(("name", "least", "most"), [("tiny", 2.5e6, 3.5e6), ("small", 15e6, 25e6)])
def test_models_have_the_promised_number_of_weights(models_dir: Path, name: str, least: float, most: float) -> None:
    for weight_type in ("f32", "q4_0"):
        reader = gguf.GGUFReader(models_dir / f"{name}-{weight_type}.gguf")
        assert least < sum(int(np.prod(tensor.shape)) for tensor in reader.tensors) < most


def test_only_the_matrices_of_the_blocks_are_quantised(models_dir: Path) -> None:
    reader = gguf.GGUFReader(models_dir / "tiny-q4_0.gguf")
    kinds = {tensor.name: tensor.tensor_type.name for tensor in reader.tensors}
    assert kinds["token_embd.weight"] == kinds["output.weight"] == kinds["blk.0.attn_norm.weight"] == "F32"
    assert kinds["blk.3.ffn_down.weight"] == kinds["blk.0.attn_q.weight"] == "Q4_0"


def test_weights_are_scaled_so_that_activations_stay_of_order_one() -> None:
    weights = make_model.uniform(np.random.PCG64(1), 200, 400)
    assert abs(float(weights.mean())) < 1e-3
    assert float(weights.var()) == pytest.approx(1 / 400, rel=0.02)
    assert float(np.abs(weights).max()) <= np.sqrt(3 / 400)
