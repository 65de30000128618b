"""Where a text holds one of many fixed words: one look at each place of the text, however many words there are.

Each word is known by four of its bytes, the rarest; a table of 2¹⁸ entries says of every four bytes of the text whether
they may be those, and only then the word is compared. A search per word, one after the other, takes a time that grows
with their number, and a regular expression of all of them is slower than that.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

_BITS = 18
#: A multiplier that spreads four bytes over the table (2³² divided by the golden ratio, made odd).
_SPREAD = np.uint32(0x9E3779B1)
_SHIFT = np.uint32(32 - _BITS)
#: How common a character is in logs, roughly: words are known by their rare ones.
_COMMON = {**dict.fromkeys("etaoinsrdlc 0123456789:.-", 4), **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 2)}


class Needles:
    """Finds words, which are ASCII."""

    def __init__(self, words: Iterable[str]) -> None:
        self._table = np.zeros(1 << _BITS, np.bool_)
        self._by_gram: dict[int, list[tuple[int, bytes, str]]] = {}
        self._short: list[str] = []
        for word in dict.fromkeys(words):
            if len(word) < 4:
                self._short.append(word)
                continue
            raw = word.encode("ascii")
            offset = min(range(len(word) - 3), key=lambda at: _weight(word[at : at + 4]))
            gram = int.from_bytes(raw[offset : offset + 4], "little")
            self._by_gram.setdefault(gram, []).append((offset, raw, word))
            self._table[int((np.array([gram], np.uint32) * _SPREAD >> _SHIFT)[0])] = True

    def find(self, text: str) -> list[tuple[int, str]]:
        """(place, word) of every word in `text`, in order of place."""
        # One byte per character, so that places in both are the same; no word has any of what is replaced.
        data = text.encode("ascii") if text.isascii() else text.encode("latin-1", "replace")
        found = [(at, word) for word in self._short for at in _places(text, word)]
        for phase in range(4):
            count = (len(data) - phase) // 4
            if count <= 0:
                break
            grams = np.frombuffer(data, "<u4", count, phase)
            maybe = np.flatnonzero(self._table[(grams * _SPREAD) >> _SHIFT])
            for at, gram in zip((maybe * 4 + phase).tolist(), grams[maybe].tolist(), strict=True):
                for offset, raw, word in self._by_gram.get(gram, ()):
                    if at >= offset and data.startswith(raw, at - offset):
                        found.append((at - offset, word))
        found.sort()
        return found


def _weight(gram: str) -> int:
    return sum(_COMMON.get(character, 3 if character.isalpha() else 1) for character in gram)


def _places(text: str, word: str) -> Iterable[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)
