"""The vocabulary of the engine's byte tokenizer, for training: one token per byte value behind the special tokens."""

from __future__ import annotations

from collections.abc import Iterable

UNKNOWN, BEGIN, END = 0, 1, 2
FIRST_BYTE = 3
VOCABULARY = FIRST_BYTE + 256


def encode(text: str) -> list[int]:
    """Ids of the text's UTF-8 bytes, without special tokens."""
    return [FIRST_BYTE + byte for byte in text.encode()]


def decode(ids: Iterable[int]) -> str:
    """The text that ids stand for; special tokens stand for nothing, broken UTF-8 becomes U+FFFD."""
    return bytes(i - FIRST_BYTE for i in ids if i >= FIRST_BYTE).decode("utf-8", "replace")
