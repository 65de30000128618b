"""Selectors: which devices a run wants, in a line that a person can type.

    soc=RK3568 ram_gb>=8 not virtual
    (gpu="Mali-G715*" or backend:vulkan) android>=14 pool in (demo, ci)

| written                  | true when                                                                         |
|--------------------------|-----------------------------------------------------------------------------------|
| `key=value`              | the fact equals the value: case does not matter, `*` and `?` stand for anything   |
| `key!=value`             | the fact is something else, or not there                                          |
| `key>=1` `<=` `<` `>`    | the fact begins with a number (or a version, 8.1.0) that compares so              |
| `key in (a, b)`          | it equals one of them                                                             |
| `key` or `label:key`     | it is there and not `false`, `no` or `0`; a key may hold a colon: `backend:vulkan`|
| `not x`, `x or y`, `( )` | as one would think; terms side by side must all hold                              |
| empty or `*`             | every device                                                                      |

Values with blanks or brackets stand in quotes. Keys are the facts of `DeviceFacts.facts()`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from farm.domain.devices import DeviceFacts
from farm.domain.selector_terms import FailedTerm, Term, quoted

#: Longest text and deepest nesting that is read; more is no selector that a person wrote.
MAX_TEXT = 2000
MAX_DEPTH = 40


class SelectorError(ValueError):
    """The text is no selector. `position` is the offset in the text; `suggestion` may be empty."""

    def __init__(self, message: str, position: int, suggestion: str = "") -> None:
        super().__init__(message if not suggestion else f"{message}; {suggestion}")
        self.message = message
        self.position = position
        self.suggestion = suggestion


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A device that does not match, and why."""

    device: DeviceFacts
    failed: tuple[FailedTerm, ...]

    def words(self) -> str:
        """`husky-v1: soc is Tensor G3, wanted soc=RK3568`."""
        return f"{self.device.name}: {'; '.join(f.words() for f in self.failed)}"


@dataclass(frozen=True, slots=True)
class _Not:
    inner: _Node


@dataclass(frozen=True, slots=True)
class _All:
    parts: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Any:
    parts: tuple[_Node, ...]


_Node = Term | _Not | _All | _Any


@dataclass(frozen=True, slots=True)
class Selector:
    """A parsed selector; `text` is as written."""

    text: str
    _root: _Node = field(repr=False)

    def matches(self, facts: Mapping[str, str]) -> bool:
        return not _failed(self._root, facts)

    def failed(self, facts: Mapping[str, str]) -> tuple[FailedTerm, ...]:
        """The terms that `facts` do not meet (of alternatives, the nearest one's); empty when they match."""
        return tuple(_failed(self._root, facts))

    def keys(self) -> frozenset[str]:
        """Every key that the selector asks for."""
        return frozenset(_keys(self._root))

    def names(self, facts: Mapping[str, str]) -> bool:
        """Whether it asks for this very device, by its whole name or serial number; a pattern names nobody."""
        own = [t for t in _terms(self._root) if t.key in ("name", "serial") and t.op in ("=", "in") and t.holds(facts)]
        return any(facts[t.key].casefold() == value.strip().casefold() for t in own for value in t.values)


def parse(text: str) -> Selector:
    """Read a selector. Raises SelectorError with position and suggestion."""
    if len(text) > MAX_TEXT:
        raise SelectorError(f"a selector of {len(text)} characters is too long (limit {MAX_TEXT})", MAX_TEXT)
    if text.strip() in ("", "*"):
        return Selector(text, _All(()))
    return Selector(text, _Parser(text).parse())


def nearest(selector: Selector, devices: Iterable[DeviceFacts], limit: int = 5) -> list[Mismatch]:
    """The devices that fail the fewest terms, of those the ones that fail them by the least; matching ones not."""
    missed = [Mismatch(d, failed) for d in devices if (failed := selector.failed(d.facts()))]
    return sorted(missed, key=lambda m: (*_far(m.failed), m.device.name))[:limit]


def words_of(missed: Iterable[Mismatch]) -> str:
    """Several devices in one line, what they miss said once: `d1: soc is A1; d2, d3: soc is A2, wanted soc=RK3568`."""
    wanted: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for miss in missed:
        terms = tuple(f.term for f in miss.failed)
        have = ", ".join(f"{f.key} is {f.have if f.have is not None else 'unknown'}" for f in miss.failed)
        wanted.setdefault(terms, {}).setdefault(have, []).append(miss.device.name)
    return "; ".join(
        "; ".join(f"{_names(names)}: {have}" for have, names in found.items()) + f", wanted {' and '.join(terms)}"
        for terms, found in wanted.items()
    )


def _names(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _far(failed: Iterable[FailedTerm]) -> tuple[int, float]:
    terms = list(failed)
    return len(terms), sum(term.distance for term in terms)


def _failed(node: _Node, facts: Mapping[str, str]) -> list[FailedTerm]:
    if isinstance(node, Term):
        return [] if node.holds(facts) else [node.failure(facts)]
    if isinstance(node, _All):
        return [f for part in node.parts for f in _failed(part, facts)]
    if isinstance(node, _Any):
        return min((_failed(part, facts) for part in node.parts), key=_far)
    if _failed(node.inner, facts):
        return []
    return [FailedTerm(f"not {t.text}", t.key, facts.get(t.key)) for t in _terms(node.inner)]


def _terms(node: _Node) -> Iterator[Term]:
    if isinstance(node, Term):
        yield node
    elif isinstance(node, _Not):
        yield from _terms(node.inner)
    else:
        for part in node.parts:
            yield from _terms(part)


def _keys(node: _Node) -> Iterator[str]:
    return (term.key for term in _terms(node))


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<op>==|!=|>=|<=|=|>|<)
    | (?P<mark>[(),])
    | "(?P<double>[^"]*)" | '(?P<single>[^']*)'
    | (?P<word>[^\s()=<>!,"']+)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # op, mark, quoted, word, end
    text: str
    at: int

    def is_word(self, word: str) -> bool:
        return self.kind == "word" and self.text.lower() == word


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            if text[at] in "\"'":
                raise SelectorError("a quote is not closed", at, f"add {text[at]} at the end of the value")
            raise SelectorError(f"{text[at]!r} cannot stand here", at, "put the value in quotes")
        kind = str(match.lastgroup)
        start = match.start(kind)
        found.append(_Token("quoted" if kind in ("double", "single") else kind, match.group(kind), start))
        at = match.end()
    return [*found, _Token("end", "", len(text))]


class _Parser:
    """Recursive descent over the tokens: or < and < not < term."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._index = 0
        self._depth = 0

    def parse(self) -> _Node:
        node = self._or()
        left = self._peek()
        if left.kind != "end":
            hint = "remove it, or open one before" if left.text == ")" else ""
            raise SelectorError(f"{left.text!r} cannot stand here", left.at, hint)
        return node

    def _peek(self) -> _Token:
        return self._tokens[self._index]

    def _take(self) -> _Token:
        token = self._tokens[self._index]
        self._index += token.kind != "end"
        return token

    def _or(self) -> _Node:
        parts = [self._and()]
        while self._peek().is_word("or"):
            self._take()
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else _Any(tuple(parts))

    def _and(self) -> _Node:
        parts = [self._unary()]
        while True:
            token = self._peek()
            if token.is_word("and"):
                self._take()
            elif (token.kind not in ("word", "quoted") and token.text != "(") or token.is_word("or"):
                return parts[0] if len(parts) == 1 else _All(tuple(parts))
            parts.append(self._unary())

    def _unary(self) -> _Node:
        token = self._take()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SelectorError(f"brackets and nots are nested deeper than {MAX_DEPTH}", token.at)
        try:
            if token.is_word("not"):
                return _Not(self._unary())
            if token.kind == "mark" and token.text == "(":
                node = self._or()
                if self._take().text != ")":
                    raise SelectorError("a bracket is not closed", token.at, "add ) where the group ends")
                return node
            return self._term(token)
        finally:
            self._depth -= 1

    def _term(self, token: _Token) -> Term:
        if token.kind != "word" or token.text.lower() in ("and", "or", "in"):
            what = repr(token.text) if token.kind != "end" else "the end"
            raise SelectorError(f"a term was expected, not {what}", token.at, "write key=value, for example soc=RK3568")
        key = token.text.removeprefix("label:")
        after = self._peek()
        if after.kind == "op":
            return self._comparison(key, self._take())
        if after.is_word("in"):
            self._take()
            return self._membership(key, after)
        return Term(key, "has", (), token.text)

    def _comparison(self, key: str, op: _Token) -> Term:
        if op.text == "==":
            raise SelectorError("'==' is not used here", op.at, f"write {key}=…")
        value = self._value(f"{key}{op.text}", op)
        term = Term(key, op.text, (value,), f"{key}{op.text}{quoted(value)}")
        if not term.well_formed():
            raise SelectorError(f"{op.text!r} compares numbers and {value!r} is none", op.at, f"write {key}={value}")
        return term

    def _membership(self, key: str, word: _Token) -> Term:
        values: list[str] = []
        if self._take().text != "(":
            raise SelectorError("'in' needs a list in brackets", word.at, f"write {key} in (a, b)")
        while True:
            values.append(self._value(f"{key} in (…", word))
            mark = self._take()
            if mark.text == ")":
                return Term(key, "in", tuple(values), f"{key} in ({', '.join(quoted(v) for v in values)})")
            if mark.text != ",":
                raise SelectorError("the list is not closed", mark.at, "separate values by commas and end with )")

    def _value(self, before: str, op: _Token) -> str:
        token = self._take()
        if token.kind not in ("word", "quoted"):
            raise SelectorError(f"a value is missing after {before!r}", op.at, f"for example {before}RK3568")
        return token.text
