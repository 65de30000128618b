"""The engine under the address and undefined behaviour sanitizers: a finding ends the process with a report."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine import build
from engine.models import make_model
from engine.models.shape import Shape
from tests.engine.driving import run_engine

pytestmark = pytest.mark.slow

LITTLE = Shape("little", layers=1, embedding=32, feed_forward=32, heads=2, heads_kv=1, context=64)
FINDINGS = ("AddressSanitizer", "runtime error:", "LeakSanitizer")


@pytest.fixture(scope="module")
def sanitized() -> dict[str, Path]:
    return build.build("sanitize", build.DEFAULT_OUT, 2, print).programs


@pytest.fixture(scope="module")
def check(sanitized: dict[str, Path]) -> Callable[..., int]:
    def run(*arguments: str | Path) -> int:
        done = run_engine(sanitized["farm-engine"], *arguments)
        assert not any(word in done.stderr for word in FINDINGS), done.stderr
        return done.status

    return run


@pytest.mark.parametrize("model", ["tiny-f32", "tiny-q4_0"])
@pytest.mark.parametrize("threads", ["1", "2"])
def test_runs_are_clean(check: Callable[..., int], models_dir: Path, model: str, threads: str) -> None:
    arguments = ("--model", models_dir / f"{model}.gguf", "--threads", threads, "--batch", "7", "--ignore-eos")
    assert check(*arguments, "--prompt-tokens", "20", "--n-predict", "4", "--repeat", "2", "--warmup", "1") == 0
    assert check(*arguments, "--prompt", "x", "--n-predict", "0") == 0


def test_refusals_are_clean(check: Callable[..., int], models_dir: Path, tmp_path: Path) -> None:
    model = ("--model", models_dir / "tiny-q4_0.gguf", "--prompt", "x")
    assert check("--frobnicate") == 2
    assert check(*model, "--ctx", "9999") == 2
    assert check("--model", tmp_path / "none", "--prompt", "x") == 3
    assert check(*model, "--fault", "exit=7:decode") == 7
    assert check(*model, "--fault", "slow-stage=decode:1.5") == 0


@pytest.mark.parametrize("used", [1, 2, 5])
@pytest.mark.parametrize("weight_type", ["f32", "f16", "q8_0", "q4_1", "q4_0"])
def test_experts_are_clean(check: Callable[..., int], tmp_path: Path, weight_type: str, used: int) -> None:
    path = tmp_path / "sparse.gguf"
    make_model.write_model(path, replace(LITTLE, experts=5, experts_used=used), weight_type, seed=3)
    arguments = ("--model", path, "--threads", "2", "--batch", "7", "--ignore-eos", "--ctx", "64")
    assert check(*arguments, "--prompt-tokens", "20", "--n-predict", "4", "--repeat", "2", "--warmup", "1") == 0


@pytest.mark.parametrize("shape", [LITTLE, replace(LITTLE, experts=5, experts_used=2)], ids=["dense", "sparse"])
def test_damaged_models_are_clean(check: Callable[..., int], tmp_path: Path, shape: Shape) -> None:
    path = tmp_path / "little.gguf"
    make_model.write_model(path, shape, "q4_0", seed=3)
    whole = path.read_bytes()
    chance = random.Random(11)
    for turn in range(120):
        data = bytearray(whole)
        if turn % 3 == 0:
            data = data[: chance.randrange(len(data))]
        else:
            data[chance.randrange(1500 if turn % 3 == 1 else len(data))] = chance.randrange(256)
        path.write_bytes(data)
        assert check("--model", path, "--prompt", "hi", "--ctx", "64", "--n-predict", "2") in {0, 2, 3, 4, 5, 6}
