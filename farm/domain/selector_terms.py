"""One comparison of a selector: does a fact of a device say what the term wants?"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_FALSE = {"", "false", "no", "0"}
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True)
class FailedTerm:
    """A term that a device does not meet: what it wants, and what the device has (None: nothing).

    `distance`: how far off that is, from nearly 0 to 1 (nothing known, nothing in common, or just what is not wanted).
    """

    term: str
    key: str
    have: str | None
    distance: float = field(default=1.0, compare=False)

    def words(self) -> str:
        """`soc is Tensor G3, wanted soc=RK3568`."""
        return f"{self.key} is {self.have if self.have is not None else 'unknown'}, wanted {self.term}"


@dataclass(frozen=True, slots=True)
class Term:
    """`key op values`; op is one of = != < > <= >= in has. `text` is the term as a person would write it."""

    key: str
    op: str
    values: tuple[str, ...]
    text: str

    def well_formed(self) -> bool:
        """False for an order comparison with something that is no number."""
        return self.op not in _ORDER or number(self.values[0]) is not None

    def holds(self, facts: Mapping[str, str]) -> bool:
        have = facts.get(self.key)
        if self.op == "has":
            return have is not None and have.strip().lower() not in _FALSE
        if self.op == "!=":
            return have is None or not equals(have, self.values[0])
        if have is None:
            return False
        if self.op in _ORDER:
            return compare(have, self.op, self.values[0])
        return any(equals(have, value) for value in self.values)

    def failure(self, facts: Mapping[str, str]) -> FailedTerm:
        have = facts.get(self.key)
        return FailedTerm(self.text, self.key, have, self._distance(have))

    def _distance(self, have: str | None) -> float:
        if have is None or self.op in ("has", "!="):
            return 1.0
        return min(distance(have, value, ordered=self.op in _ORDER) for value in self.values)


def equals(have: str, want: str) -> bool:
    """Case-folded, `*` and `?` as wildcards; two plain numbers are compared as numbers (8 = 8.0)."""
    if any(c in want for c in "*?"):
        return _glob(want.casefold(), have.strip().casefold())
    if have.strip().casefold() == want.strip().casefold():
        return True
    try:
        return float(have) == float(want)
    except ValueError:
        return False


def distance(have: str, want: str, *, ordered: bool = False) -> float:
    """How unlike two values are, 0 to 1: numbers and versions by how much, others by the letters that differ.

    `ordered`: whatever begins with a number counts as one, as it does where two are compared by order.
    """
    left, right = number(have), number(want)
    if left is not None and right is not None and (ordered or (_plain(have) and _plain(want))):
        width = max(len(left), len(right))
        pairs = zip(left + (0.0,) * (width - len(left)), right + (0.0,) * (width - len(right)), strict=True)
        first = next(((a, b) for a, b in pairs if a != b), (0.0, 0.0))
        most = max(abs(first[0]), abs(first[1]))
        return abs(first[0] - first[1]) / (2 * most) if most else 0.0
    a, b = (text.casefold().replace("*", "").replace("?", "")[:200] for text in (have, want))
    return 1.0 - difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()


def _plain(text: str) -> bool:
    """Whether a value is a number or version, perhaps with a unit: `8 GB`, not `8-core Foo`."""
    match = _NUMBER.match(text.strip())
    return match is not None and re.fullmatch(r"\s*[A-Za-z%]{0,3}", text.strip()[match.end() :]) is not None


def _glob(pattern: str, text: str) -> bool:
    """Wildcard match in at most len(pattern) × len(text) steps: a regular expression could take for ever."""
    p = t = 0
    star, retry = -1, 0
    while t < len(text):
        if p < len(pattern) and pattern[p] == "*":
            star, retry = p, t
            p += 1
        elif p < len(pattern) and pattern[p] in ("?", text[t]):
            p, t = p + 1, t + 1
        elif star >= 0:  # let the last star take one character more
            retry += 1
            p, t = star + 1, retry
        else:
            return False
    return all(c == "*" for c in pattern[p:])


def number(text: str) -> tuple[float, ...] | None:
    """The number or version that `text` begins with: (8.5,) for "8.5 GB", (8.0, 1.0, 0.0) for "8.1.0"; else None."""
    match = _NUMBER.match(text.strip())
    if match is None or len(match.group()) > 60:
        return None
    parts = match.group().split(".")
    return (float(match.group()),) if len(parts) <= 2 else tuple(float(p) for p in parts)


_ORDER = {"<", ">", "<=", ">="}


def compare(have: str, op: str, want: str) -> bool:
    """Order of two numbers or versions; False when either is none."""
    left, right = number(have), number(want)
    if left is None or right is None:
        return False
    if len(left) != len(right):  # 8.1 against 8.1.0: both as versions
        left, right = _version(have), _version(want)
    width = max(len(left), len(right))
    a, b = left + (0.0,) * (width - len(left)), right + (0.0,) * (width - len(right))
    return {"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}[op]


def _version(text: str) -> tuple[float, ...]:
    match = _NUMBER.match(text.strip())
    return tuple(float(p) for p in match.group().split(".")) if match else ()


def quoted(value: str) -> str:
    """`value` as it can stand in a selector."""
    if value and not re.search(r"[\s()=<>!,\"']", value):
        return value
    return f'"{value}"' if '"' not in value else f"'{value}'"
