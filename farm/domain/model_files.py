"""What a model's file says of itself: whether it is whole, what its weights, cache and tokenizer need.

GGUF, versions 2 and 3 (ggml's docs/gguf.md): magic, version (u32), number of tensors and of key-value pairs (u64), the
pairs, one record per tensor (name, dimensions, type, offset), padding to the alignment, the tensors' bytes. Sizes of
tensor types: ggml's `type_traits`. Other formats tell only their size here.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

MAX_PAIRS, MAX_TENSORS, MAX_ITEMS, MAX_DIMENSIONS = 10_000, 100_000, 10_000_000, 8
#: ggml type -> (weights in a block, bytes of a block).
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66),
    17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136),
    24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54),
    35: (256, 66), 39: (32, 17),
}  # fmt: skip
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_SHARD = re.compile(r"^(.*)-(\d{5})-of-(\d{5})(\.\w+)$")
#: Files beside a model that are its tokenizer, by engines that do not keep it in the model.
TOKENIZERS = re.compile(r"tokenizer|vocab|merges|\.spm$|spiece|sentencepiece", re.I)


@dataclass(frozen=True, slots=True)
class ModelFile:
    """None: the file does not say. `wrong`: why it cannot be loaded; `wanted`: bytes that a whole file has."""

    size: int
    format: str | None = None
    wrong: str | None = None
    wanted: int | None = None
    architecture: str | None = None
    tokenizer: str | None = None
    ctx_train: int | None = None
    kv_values: int | None = None  # numbers that the cache keeps for one position, keys and values of all layers
    embedding: int | None = None
    feed_forward: int | None = None
    vocabulary: int | None = None


class _Cut(Exception):
    """The file ends too early, or counts more than any model has."""


class _Reader:
    def __init__(self, data: Any, size: int) -> None:
        self.data, self.size, self.at = data, size, 0

    def take(self, form: str) -> Any:
        width = struct.calcsize("<" + form)
        if self.at + width > len(self.data):
            raise _Cut
        (value,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += width
        return value

    def skip(self, count: int) -> None:
        if count < 0 or self.at + count > len(self.data):
            raise _Cut
        self.at += count

    def text(self, keep: bool = True) -> str:
        length = self.take("Q")
        begin = self.at
        self.skip(length)
        return bytes(self.data[begin : begin + min(length, 1000)]).decode("utf-8", "replace") if keep else ""

    def value(self, kind: int) -> Any:
        """A scalar or a text; of an array its length."""
        if kind in _SCALARS:
            return self.take(_SCALARS[kind])
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            raise _Cut
        item, count = self.take("I"), self.take("Q")
        if count > MAX_ITEMS or item == _ARRAY:
            raise _Cut
        if item in _SCALARS:
            self.skip(count * struct.calcsize("<" + _SCALARS[item]))
        else:
            for _ in range(count):
                self.text(keep=False)
        return count


def read_model(data: Any, size: int | None = None) -> ModelFile:
    """`data`: the file as bytes or a memory map. Never fails; a file that is none of ours tells its size alone."""
    size = len(data) if size is None else size
    if bytes(data[:4]) != b"GGUF":
        return ModelFile(size)
    reader = _Reader(data, size)
    reader.skip(4)
    try:
        return _gguf(reader)
    except _Cut:
        return ModelFile(size, "gguf", wrong="its header is cut off or makes no sense")


def _gguf(reader: _Reader) -> ModelFile:
    version = reader.take("I")
    if version not in (2, 3):
        return ModelFile(reader.size, "gguf", wrong=f"GGUF version {version} is not supported")
    tensors, pairs = reader.take("Q"), reader.take("Q")
    if tensors > MAX_TENSORS or pairs > MAX_PAIRS:
        raise _Cut
    said = {reader.text(): reader.value(reader.take("I")) for _ in range(pairs)}
    end = 0
    for _ in range(tensors):
        end = max(end, _tensor(reader))
    alignment = said.get("general.alignment", 32)
    alignment = alignment if isinstance(alignment, int) and 0 < alignment <= 1 << 20 else 32
    wanted = -(-reader.at // alignment) * alignment + end
    wrong = None if reader.size >= wanted else f"it has {reader.size} bytes of {wanted}: it is truncated"
    return _described(said, reader.size, wrong, wanted)


def _tensor(reader: _Reader) -> int:
    """Where the tensor's bytes end, from the begin of all tensors' bytes."""
    reader.text(keep=False)
    dimensions = reader.take("I")
    if dimensions > MAX_DIMENSIONS:
        raise _Cut
    count = 1
    for _ in range(dimensions):
        count *= reader.take("Q")
    kind, offset = reader.take("I"), reader.take("Q")
    block, width = _BLOCKS.get(kind, (1, 0))
    return int(offset + -(-count // block) * width)


def _described(said: Mapping[str, Any], size: int, wrong: str | None, wanted: int) -> ModelFile:
    name = said.get("general.architecture")

    def figure(key: str) -> int | None:
        value = said.get(f"{name}.{key}")
        return int(value) if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 40 else None

    layers, heads, width = figure("block_count"), figure("attention.head_count"), figure("embedding_length")
    heads_kv = figure("attention.head_count_kv") or heads
    head = figure("attention.key_length") or (width // heads if width and heads else None)
    value_head = figure("attention.value_length") or head
    kv = layers * heads_kv * (head + value_head) if layers and heads_kv and head and value_head else None
    return ModelFile(
        size=size,
        format="gguf",
        wrong=wrong,
        wanted=wanted,
        architecture=str(name)[:60] if name else None,
        tokenizer=str(said["tokenizer.ggml.model"])[:60] if said.get("tokenizer.ggml.model") else None,
        ctx_train=figure("context_length"),
        kv_values=kv,
        embedding=width,
        feed_forward=figure("feed_forward_length"),
        vocabulary=figure("vocab_size") or _count(said.get("tokenizer.ggml.tokens")),
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def missing_shards(paths: Collection[str]) -> list[str]:
    """Parts of models split as `NAME-00001-of-00003.gguf` that are named by their siblings and are not there."""
    have = set(paths)
    wanted = {
        f"{match[1]}-{number:05d}-of-{match[3]}{match[4]}"
        for path in have
        if (match := _SHARD.match(path)) and int(match[3]) <= 1000
        for number in range(1, int(match[3]) + 1)
    }
    return sorted(wanted - have)
