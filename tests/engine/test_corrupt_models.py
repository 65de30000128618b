"""A model file may hold anything: the engine says what is wrong and never crashes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from engine.models import make_model
from engine.models.shape import Shape
from tests.engine.driving import run_engine

# 0: the damage did not matter (a byte of a weight, a name); 2: the limits no longer fit; 6: weights became NaN.
ORDERLY = {0, 2, 3, 4, 5, 6}


@pytest.fixture(scope="module")
def little(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The smallest model that is one: most of the file is header."""
    path = tmp_path_factory.mktemp("little") / "little.gguf"
    shape = Shape("little", layers=1, embedding=32, feed_forward=32, heads=2, heads_kv=1, context=64)
    make_model.write_model(path, shape, "q4_0", seed=3)
    return path.read_bytes()


def status_of(engine: Path, path: Path, data: bytes) -> int:
    path.write_bytes(data)
    run = run_engine(engine, "--model", path, "--prompt", "hi", "--ctx", "64", "--n-predict", "2")
    if run.status != 0:
        assert run.one("error")["message"]
        assert len(run.stderr.splitlines()) == 1, run.stderr
    return run.status


def test_the_little_model_itself_is_fine(engine_bin: Path, tmp_path: Path, little: bytes) -> None:
    assert status_of(engine_bin, tmp_path / "m.gguf", little) == 0


def test_a_file_cut_off_anywhere_ends_with_3(engine_bin: Path, tmp_path: Path, little: bytes) -> None:
    chance = random.Random(1)
    lengths = {0, 1, 3, 4, 7, 8, 16, 23, 24, 25, len(little) - 1, *chance.sample(range(len(little)), 60)}
    for length in sorted(lengths):
        # The last tensor is padded to 32 bytes at most: cutting the padding alone is harmless.
        assert status_of(engine_bin, tmp_path / "m.gguf", little[:length]) == 3 or length > len(little) - 32, length


@pytest.mark.parametrize("seed", range(4))
def test_damaged_bytes_never_crash_the_engine(engine_bin: Path, tmp_path: Path, little: bytes, seed: int) -> None:
    chance = random.Random(seed)
    seen = set()
    for _ in range(60):
        data = bytearray(little)
        for _ in range(chance.choice((1, 1, 2, 8))):
            # Damage the dense part of the header more often than the vocabulary and the weights.
            place = chance.randrange(1500) if chance.random() < 0.6 else chance.randrange(len(data))
            data[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        seen.add(status_of(engine_bin, tmp_path / "m.gguf", bytes(data)))
    assert seen <= ORDERLY
    assert 3 in seen


def test_huge_counts_in_the_header_end_with_3_at_once(engine_bin: Path, tmp_path: Path, little: bytes) -> None:
    for place in (8, 16):  # number of tensors, number of metadata entries
        for value in (b"\xff" * 8, b"\xff" * 7 + b"\x7f", b"\0\0\0\0\1\0\0\0", b"\0\0\0\0\0\0\0\1"):
            data = little[:place] + value + little[place + 8 :]
            assert status_of(engine_bin, tmp_path / "m.gguf", data) in (3, 4)
