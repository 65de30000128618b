"""A log with many things in it: lines are passed over that are far from the words that an incident has.

A search for fixed words (`farm.evidence.needles`) is many times faster than looking at each line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from farm.evidence.lines import MAX_LINE, Facts, split
from farm.evidence.needles import Needles
from farm.evidence.registry import KINDS, Kind

#: Lines kept from before the first sign of a kind: heads come before what is sure.
BEFORE = 40
#: Lines after a word of interest that belong to what it began.
_WINDOW = 300
#: Lines before and after one that says all in its own line; round an exception, whose frames follow.
_ALONE, _STACK = (2, 5), (10, 120)
_STACKS = ("Exception: ", "Error: ")
#: Characters that are looked at as one piece when a log is skimmed.
PIECE = 1 << 18

_LOGS = tuple(kind for kind in KINDS.values() if kind.log)


class Log:
    """A log: every kind that is found anywhere, in one pass. Feed it lines, or text in pieces of any size.

    A kind's parser sees the lines around its words alone: some before, for what stands above, and a window after. A
    word that says all in its own line has a small window.
    """

    def __init__(self, kinds: Iterable[Kind] = _LOGS) -> None:
        self._states = [_State(kind) for kind in kinds]
        self._needles = Needles(needle for state in self._states for needle in state.kind.needles)
        self._wakes: dict[str, list[tuple[_State, int, int]]] = {}  # word -> who, lines before, lines after
        for state in self._states:
            for needle in state.kind.needles:
                around = _ALONE if needle in state.kind.alone else _STACK if needle in _STACKS else (BEFORE, _WINDOW)
                self._wakes.setdefault(needle, []).append((state, *around))
        self._waiting: list[str] = []  # text that has not been looked at, and its size
        self._size = 0
        self._tail: list[str] = []  # the last lines before it
        self._passed = 0  # lines before those
        self.lines = 0  # that a parser has seen

    def feed(self, line: str) -> None:
        self.feed_text(f"{line}\n")

    def feed_text(self, text: str) -> None:
        """A piece of a stream; lines may be cut anywhere."""
        self._waiting.append(text)
        self._size += len(text)
        if self._size < PIECE:
            return
        text = "".join(self._waiting)
        cut = text.rfind("\n") + 1
        start = 0
        while cut - start > 0:
            end = cut if cut - start <= PIECE else text.rfind("\n", start, start + PIECE) + 1 or start + PIECE
            self._piece(text[start:end])
            start = end
        rest = text[cut:][-PIECE:]
        self._waiting, self._size = [rest], len(rest)

    def _piece(self, piece: str) -> None:
        """Whole lines: between the windows round words of interest they are passed over."""
        hits = self._needles.find(piece)
        first, begin = self._passed, len(self._tail)
        piece = piece.removesuffix("\n")
        if hits or any(state.until >= first + begin for state in self._states):
            lines = [*self._tail, *piece.split("\n")]
            self._walk(lines, first, begin, self._by_line(piece, hits, begin))
            many = len(lines)
        else:
            many = begin + piece.count("\n") + 1
            lines = piece.rsplit("\n", BEFORE)
        self._tail = [line[:MAX_LINE] for line in lines[-BEFORE:]]
        self._passed = first + many - len(self._tail)

    def _by_line(self, piece: str, hits: list[tuple[int, str]], begin: int) -> dict[int, list[str]]:
        """Number of the line among `lines` -> the words in it."""
        found: dict[int, list[str]] = {}
        number, at = begin, 0
        for place, word in hits:
            number += piece.count("\n", at, place)
            at = place
            found.setdefault(number, []).append(word)
        return found

    def _walk(self, lines: list[str], first: int, begin: int, words: dict[int, list[str]]) -> None:
        """`first`: number of `lines[0]` in the whole log; those before `begin` have been walked already."""
        ahead = deque(sorted(words))
        index = begin
        while index < len(lines):
            awake = [state for state in self._states if state.until >= first + index]
            if index in words:
                ahead.popleft()
                awake = self._woken(lines, first, index, words[index], awake)
            elif not awake:
                if not ahead:
                    return
                index = ahead[0]
                continue
            line = lines[index]
            if line:
                self.lines += 1
                for state in awake:
                    state.feed(line, first + index, index in words)
            index += 1

    def _woken(self, lines: list[str], first: int, index: int, words: list[str], awake: list[_State]) -> list[_State]:
        """Who looks at this line; those who did not look before see the lines just before it."""
        for word in words:
            for state, before, after in self._wakes[word]:
                for earlier in range(max(0, index - before, state.fed + 1 - first), index):
                    if lines[earlier]:
                        state.parser.feed(lines[earlier])
                state.fed = max(state.fed, first + index - 1)
                state.until = max(state.until, first + index + after)
                if state not in awake:
                    awake.append(state)
        return awake

    def finish(self) -> dict[str, Facts]:
        """Kind → facts, of the kinds of which a sign was seen; the surest first."""
        if self._size:
            self._piece("".join(self._waiting))
            self._waiting, self._size = [], 0
        order = sorted((state for state in self._states if state.signs), key=lambda state: -state.weight)
        return {state.kind.name: state.parser.finish() for state in order}

    def weight(self, name: str) -> int:
        return next(state.weight for state in self._states if state.kind.name == name)


class _State:
    """One kind while a log is read: up to which line it looks, and which it has seen."""

    __slots__ = ("fed", "kind", "parser", "signs", "until")

    def __init__(self, kind: Kind) -> None:
        self.kind, self.parser = kind, kind.parser()
        self.until, self.fed, self.signs = -1, -1, 0

    def feed(self, line: str, number: int, hit: bool) -> None:
        """A sign is looked for in every line until there is one, then in those with words of interest."""
        self.fed = number
        self.parser.feed(line)
        if (hit or not self.signs) and (self.kind.sign.search(line) or self.kind.sign.search(split(line).text)):
            self.signs += 1

    @property
    def weight(self) -> int:
        return self.signs * self.kind.weight
