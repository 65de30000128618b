"""From what a pipe delivers to lines that a parser can trust: prefixes and colours off, cut figures marked.

A figure that the end of the output has cut looks like a smaller figure. So a last line without a line end is *cut*: the
number that it ends with is replaced by a mark that no pattern matches. Lines must therefore keep their line ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from farm.evidence.engines.report import MAX_LINE

#: Stands for a number that the end of the output has cut.
CUT = "\N{HORIZONTAL ELLIPSIS}"
#: Characters of a line in which figures are looked for; longer lines are JSON or no output of an engine.
MAX_SEARCHED = 4096

_ENDS = frozenset("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
_BREAKS = re.compile(r"\r\n|[\n\r]")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\^_])|\x00")
_TAIL = re.compile(r"[-+]?\d[\d.,]*(?:[eE][-+]?\d*)?$")
#: logcat (threadtime with or without year and uid; time; brief; tag), glog, ExecuTorch, llama.cpp, `INFO:`.
_PREFIX = re.compile(
    r"""
    (?:\d{4}-)?\d\d-\d\d\ \d\d:\d\d:\d\d\.\d{3,6}\s+(?:\S{1,12}\s+)?\d{1,7}\s+\d{1,7}\s+[VDIWEFSA]\ [^:]{0,60}?\s*:\ ?
  | (?:(?:\d{4}-)?\d\d-\d\d\ \d\d:\d\d:\d\d\.\d{3,6}\ +)?[VDIWEF]/[^(:]{0,60}(?:\(\s*\d+\))?:\ ?
  | [VDIWEF]\d{4}\ [\d:.]{8,32}\s+\d+\ [^\]\s]{1,120}\]\ ?
  | [VDIWEF]\ \d\d:\d\d:\d\d[\d.]*\ [^\]\s]{1,120}\]\ ?
  | \d+\.\d\d\.\d{3}\.\d{3}\ [VDIWEF]\ (?=\S)
  | [VDIWEF]\ [\w.-]{2,40}\s*:\ (?!=)
  | (?:INFO|WARNING|WARN|ERROR|VERBOSE|DEBUG):\ (?:\[[^\]\s]{1,200}\]\ )?
  | [VDIWEF]\ (?=[a-z_])
    """,
    re.VERBOSE,
)
_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)?(?:[eE][-+]?\d+)?$")


def split(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Every line without its end, and whether the output stops inside it."""
    pending: str | None = None
    for item in lines:
        if pending is not None:
            yield from ((part, False) for part in _parts(pending))
        pending = item[: MAX_LINE + 1]
    if pending:
        parts = _parts(pending)
        ended = pending[-1] in _ENDS
        yield from ((part, False) for part in parts[:-1])
        yield parts[-1], not ended


def clean(line: str, cut: bool = False) -> str:
    """`line` without terminal colours and logging prefixes; a number at a cut end becomes a mark."""
    text = _ANSI.sub("", line)
    for _ in range(2):  # a logger within a logger
        match = _PREFIX.match(text)
        if match is None:
            break
        text = text[match.end() :]
    return _TAIL.sub(CUT, text) if cut else text


def number(text: str) -> float | None:
    """The number that `text` is, with a decimal point or a decimal comma; None for what is none (inf and nan too)."""
    return float(text.replace(",", ".")) if len(text) <= 64 and _NUMBER.match(text) else None


def _parts(item: str) -> list[str]:
    parts = _BREAKS.split(item)
    return parts[:-1] if len(parts) > 1 and not parts[-1] else parts
