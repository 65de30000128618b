"""What a scanner does to print: look-alike characters, lost and doubled letters, stray marks, broken spacing.

Numbers only suffer what can be undone: a digit may turn into a letter that looks like it, never into another digit.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

T = TypeVar("T")

DIGIT_LOOKS = {"0": "Oo", "1": "lI|", "2": "Z", "5": "Ss", "6": "G", "8": "B", "9": "gq"}
LETTER_LOOKS = {
    "O": "0", "o": "0", "I": "1l", "l": "1I", "S": "5", "s": "5", "B": "8", "Z": "2", "G": "6", "g": "9", "m": "rn",
    "w": "vv", "W": "VV", "d": "cl", "e": "c", "E": "F", "C": "(", "t": "f", "n": "ri", "A": "4",
}  # fmt: skip
SPECKS = ".,'`-~:_"


class Chance:
    """Dice that roll the same for a seed with every version of Python: only `random()` is promised to."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random

    def below(self, limit: int) -> int:
        """A whole number from 0 to `limit - 1`."""
        return int(self._random() * limit)

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def pick(self, choices: Sequence[T]) -> T:
        """One of them."""
        return choices[self.below(len(choices))]

    def happens(self, probability: float) -> bool:
        """True with this probability."""
        return self._random() < probability


class Part(Enum):
    """What a piece of print is, which decides what may happen to it."""

    WORD = "word"
    NUMBER = "number"
    GAP = "gap"


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of one line of print."""

    text: str
    part: Part = Part.WORD


Line = tuple[Piece, ...]
NOISE_LEVELS = (0.0, 0.01, 0.02, 0.03, 0.06)  # chance per character that it is misread


def _word(text: str, noise: float, chance: Chance) -> str:
    out = []
    for i, char in enumerate(text):
        if not chance.happens(noise):
            out.append(char)
        elif char in LETTER_LOOKS and chance.happens(0.75):
            looks = LETTER_LOOKS[char]
            out.append(looks if char in "mwdWn" else chance.pick(looks))
        elif char in DIGIT_LOOKS:
            out.append(chance.pick(DIGIT_LOOKS[char]))
        elif char.isalpha() and i > 0 and chance.happens(0.5):
            out.append("" if chance.happens(0.6) else char + char)
        else:
            out.append(char)
    return "".join(out)


def _number(text: str, noise: float, chance: Chance) -> str:
    out = []
    for char in text:
        if not chance.happens(noise):
            out.append(char)
        elif char in DIGIT_LOOKS:
            out.append(chance.pick(DIGIT_LOOKS[char]))
        elif char in ".,":
            out.append(chance.pick((".", ",", " .", ". ", ", ", "·", " ")))
        else:
            out.append(char)
    return "".join(out)


def _gap(text: str, noise: float, chance: Chance) -> str:
    if not chance.happens(noise * 8):
        return text
    if text.strip():  # a row of dots or dashes
        return "".join(chance.pick(" .,-") if chance.happens(0.3) else char for char in text) + " "
    return " " * chance.between(1, len(text) + 2)


_MISREAD = {Part.WORD: _word, Part.NUMBER: _number, Part.GAP: _gap}


def scan(lines: Sequence[Line], noise: float, chance: Chance) -> str:
    """The print as a scanner reads it, lines joined by newlines. `noise`: chance per character of a misreading."""
    read = []
    for line in lines:
        text = "".join(_MISREAD[piece.part](piece.text, noise, chance) for piece in line)
        if chance.happens(noise):
            text += " " + chance.pick(SPECKS)
        if chance.happens(noise):
            text = " " * chance.between(1, 3) + text
        read.append(text.rstrip())
        if chance.happens(noise / 2):
            read.append("".join(chance.pick(SPECKS + " ") for _ in range(chance.between(0, 5))).strip())
    return "\n".join(read)
