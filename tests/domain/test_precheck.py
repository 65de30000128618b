"""The precheck: every check with its figure and remedy, and a peak that is predicted and learnt."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.domain.causes import CAUSES, Cause, fits
from farm.domain.model_files import ModelFile, missing_shards, read_model
from farm.domain.outcomes import Outcome
from farm.domain.precheck import Check, DeviceState, checks, failed, passed, predict, to_json

MB = 1_000_000
DEVICE = DeviceState(
    abi="arm64-v8a", release="14", sdk="34", kernel="5.10.1", page_size=4096, free_bytes=900 * MB, there_bytes=0,
    memory_available=2000 * MB, memory_total=4000 * MB, writes=True, executes=True, selinux="Enforcing",
    shared_memory="memfd",
)  # fmt: skip
MODEL = ModelFile(
    size=500 * MB, format="gguf", wanted=500 * MB, architecture="llama", tokenizer="gpt2", ctx_train=8192,
    kv_values=2048, embedding=1024, feed_forward=4096, vocabulary=32000,
)  # fmt: skip
MANIFEST: dict[str, Any] = {
    "files": {"arm64-v8a": {"engine": "bin/engine"}},
    "models": {"m": "models/m.gguf"},
    "default_model": "m",
    "parameters": {"ctx": 1024},
    "content": {"bin/engine": {"size": 2 * MB}, "models/m.gguf": {"size": 500 * MB}},
}


def made(device: DeviceState = DEVICE, manifest: dict[str, Any] = MANIFEST, model: ModelFile = MODEL) -> list[Check]:
    return checks(device, manifest, {"models/m.gguf": model})


def test_a_device_that_fits_passes_every_check_with_a_figure() -> None:
    found = made()
    assert failed(found) is None
    assert [check.name for check in found] == [
        "ABI", "versions", "permissions", "storage", "shared memory", "model", "tokenizer", "memory",
    ]  # fmt: skip
    assert all(check.figure for check in found)
    assert passed(to_json(found))


@pytest.mark.parametrize(
    ("device", "manifest", "model", "name", "cause"),
    [
        ({"abi": "x86_64"}, {}, {}, "ABI", Cause.WRONG_ABI),
        ({"writes": False}, {}, {}, "permissions", Cause.NOT_PERMITTED),
        ({"executes": False}, {}, {}, "permissions", Cause.NOT_PERMITTED),
        ({"free_bytes": 300 * MB}, {}, {}, "storage", Cause.STORAGE_FULL),
        ({"memory_available": 400 * MB}, {}, {}, "memory", Cause.NO_MEMORY),
        ({}, {}, {"wrong": "it has 1 bytes of 2: it is truncated"}, "model", Cause.MISSING_FILE),
        ({}, {}, {"tokenizer": None}, "tokenizer", Cause.MISSING_FILE),
        ({}, {"models": {"m": "models/m-00001-of-00002.gguf"}}, {}, "model", Cause.MISSING_FILE),
    ],
)
def test_what_cannot_work_is_named_with_its_remedy(
    device: dict[str, Any], manifest: dict[str, Any], model: dict[str, Any], name: str, cause: Cause
) -> None:
    found = failed(made(replace(DEVICE, **device), {**MANIFEST, **manifest}, replace(MODEL, **model)))
    assert found is not None
    assert (found.name, found.cause) == (name, cause)
    assert found.remedy
    assert fits(Outcome.REFUSED, cause) or fits(Outcome.DEPLOY_FAILED, cause)
    assert CAUSES[cause].action


def test_what_is_not_measured_stops_nothing() -> None:
    found = made(DeviceState(), model=ModelFile(size=7 * MB))
    assert failed(found) is None
    assert [check.ok for check in found if check.name in ("memory", "storage", "permissions", "tokenizer")] == [
        None
    ] * 4


def test_files_that_lie_there_already_need_no_space() -> None:
    assert failed(made(replace(DEVICE, free_bytes=100 * MB, there_bytes=502 * MB))) is None


def test_the_peak_is_weights_cache_and_buffers() -> None:
    peak = predict(MODEL, {"ctx": 1024})
    assert peak.cache == 2048 * 1024 * 4
    assert peak.total > peak.weights + peak.cache
    assert predict(MODEL, {"ctx": 2048}).total > peak.total
    assert predict(replace(MODEL, kv_values=None), {}).cache is None


def test_a_learnt_peak_is_believed_more_than_the_formula() -> None:
    peak = predict(MODEL, {}, [700 * MB, 650 * MB])
    assert peak.total == pytest.approx(770 * MB)
    assert "2 earlier attempts" in peak.words()


def test_no_checks_are_no_pass() -> None:
    assert not passed(None)
    assert not passed([])
    assert passed([{"name": "ABI", "ok": None}])
    assert not passed([{"name": "ABI", "ok": False}])


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(tensors: int = 2, weights: int = 64) -> bytes:
    """The smallest whole file with a tokenizer, by the format's documentation."""
    pairs = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("llama.block_count") + struct.pack("<II", 4, 2),
        text("llama.attention.head_count") + struct.pack("<II", 4, 4),
        text("llama.attention.head_count_kv") + struct.pack("<II", 4, 2),
        text("llama.embedding_length") + struct.pack("<II", 4, 64),
        text("tokenizer.ggml.model") + struct.pack("<I", 8) + text("gpt2"),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"),
    ]
    infos = [text(f"t{n}") + struct.pack("<IQIQ", 1, weights, 0, n * weights * 4) for n in range(tensors)]
    head = b"GGUF" + struct.pack("<IQQ", 3, tensors, len(pairs)) + b"".join(pairs) + b"".join(infos)
    return head + b"\0" * (-len(head) % 32) + b"\1" * (tensors * weights * 4)


def test_a_gguf_file_says_what_it_needs() -> None:
    found = read_model(gguf())
    assert (found.wrong, found.wanted, found.tokenizer, found.vocabulary) == (None, len(gguf()), "gpt2", 2)
    assert found.kv_values == 2 * 2 * (16 + 16)


@given(st.integers(0, len(gguf()) - 1))
def test_a_gguf_file_cut_anywhere_is_truncated_or_none(length: int) -> None:
    found = read_model(gguf()[:length])
    assert found.wrong is not None or (length < 4 and found.format is None)


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail(data: bytes) -> None:
    assert read_model(b"GGUF" + data).size == len(data) + 4
    read_model(data)


def test_parts_that_are_not_there() -> None:
    assert missing_shards(["m/a-00001-of-00003.gguf", "m/a-00003-of-00003.gguf", "b.gguf"]) == [
        "m/a-00002-of-00003.gguf"
    ]
    assert missing_shards(["a.gguf"]) == []
