"""The rules by which most parsers find their figures.

A rule is a pattern with a group `v` (the figure) and, where the line names it, a group `unit`. Other named groups are
labels. `{N}`, `{TIME}`, `{RATE}` and `{SIZE}` in a pattern stand for a figure and for the spellings of a unit. A rule
knows the longest text that its lines must contain: most lines are told from it without a search.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from farm.evidence.engines.findings import Kind

_N = r"(?P<{v}>[-+]?(?:\d+(?:[.,]\d+)?(?:[eE][-+]?\d+)?|[Ii]nf(?:inity)?\b|[Nn]a[Nn]\b))(?![.,]?\d|[eE][-+])"
N = _N.format(v="v")
TIME = r"(?P<unit>ms|us|µs|μs|ns|milliseconds|microseconds|seconds|secs?|s)(?![\w/])"
RATE = r"(?P<unit>tok(?:en)?s?(?:\(s\))?\s*(?:/|per)\s*s(?:ec(?:ond)?)?|t/s)(?![a-z])"
SIZE = r"(?P<unit>[KkMG]i?B|bytes|B)(?![A-Za-z/])"
_UNITS = {
    "seconds": "s",
    "sec": "s",
    "secs": "s",
    "秒": "s",
    "milliseconds": "ms",
    "毫秒": "ms",
    "microseconds": "us",
    "µs": "us",
    "μs": "us",
    "bytes": "B",
    "byte": "B",
    "KB": "kB",
    "inf/sec": "1/s",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One figure of a line."""

    name: str
    pattern: re.Pattern[str]
    unit: str
    kind: Kind
    better: str
    needs: str  # what a line must contain, in small letters


def rule(name: str, pattern: str, unit: str = "1", kind: Kind = Kind.MAIN, better: str | None = None) -> Rule:
    """A rule from its short form. `better` is what the unit says, unless it is given."""
    for word, meaning in (("{N}", N), ("{TIME}", TIME), ("{RATE}", RATE), ("{SIZE}", SIZE)):
        pattern = pattern.replace(word, meaning)
    if better is None:
        timed = (
            unit in ("ms", "s", "us", "ns") or TIME in pattern or SIZE in pattern or unit in ("MB", "MiB", "GB", "B")
        )
        rated = RATE in pattern or unit in ("tok/s", "1/s")
        better = "higher" if rated else "lower" if timed else "neither"
    better = "neither" if kind is Kind.DETAIL else better
    return Rule(name, re.compile(pattern, re.IGNORECASE), unit, kind, better, literal(pattern))


def detail(name: str, pattern: str, unit: str = "1") -> Rule:
    return rule(name, pattern, unit, Kind.DETAIL)


def setup(name: str, pattern: str, unit: str = "1") -> Rule:
    return rule(name, pattern, unit, Kind.SETUP)


def unit_of(spelling: str) -> str:
    """One spelling for each unit."""
    if re.fullmatch(RATE, spelling, re.IGNORECASE):
        return "tok/s"
    return _UNITS.get(spelling, _UNITS.get(spelling.lower(), spelling))


def literal(pattern: str) -> str:
    """The longest text, in small letters, that every match of `pattern` contains; empty where none is certain."""
    best = run = ""
    depth = at = 0
    while at < len(pattern):
        mark = pattern[at]
        plain = ""
        if mark == "\\":
            at += 1
            plain = pattern[at] if at < len(pattern) and not pattern[at].isalnum() else ""
        elif mark == "[":
            at = pattern.index("]", at + 2)
        elif mark in "()":
            depth += 1 if mark == "(" else -1
        elif mark == "|" and depth == 0:
            return ""
        elif mark not in ".^$*+?{}|":
            plain = mark
        following = pattern[at + 1 : at + 2]
        if plain and depth == 0 and following not in ("?", "*", "{"):
            run += plain
        else:
            best, run = max(best, run, key=len), ""
        if mark == "{" and depth == 0:
            at = pattern.index("}", at)
        at += 1
    return max(best, run, key=len).lower()
