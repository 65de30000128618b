"""One line of a log or a terminal, taken apart: who wrote it, when, and what it says.

Read are the formats of `logcat -v` (brief, tag, time, threadtime with its modifiers year, zone, uid, epoch, usec), the
two exports of Android Studio, and the kernel's (`dmesg`, last_kmsg, with the prefixes that vendors put behind the
time). Sources: AOSP `system/logging/liblog/logprint.cpp`, the kernel's `printk`. Whatever has no prefix is all text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

Facts = dict[str, Any]

#: Longest line that is looked at, characters; the rest of a longer one is left out.
MAX_LINE = 8192
#: How much unknown text a parser keeps: lines, and characters of each.
MAX_UNKNOWN = 20
MAX_UNKNOWN_CHARS = 300


class Parser(Protocol):
    """Takes lines one by one, in any number, with bounded memory; `finish` says what is known."""

    def feed(self, line: str) -> None: ...

    def finish(self) -> Facts: ...


@dataclass(frozen=True, slots=True)
class Line:
    """`text`: without prefix and line end. `tag`, `level`, `pid`, `tid`, `time`: None where the format has none.

    `kernel`: the prefix was the kernel's. `package`: the process, as Android Studio prints it.
    """

    text: str
    tag: str | None = None
    level: str | None = None
    pid: int | None = None
    tid: int | None = None
    time: str | None = None
    package: str | None = None
    kernel: bool = False

    @property
    def bare(self) -> bool:
        """Nothing says who wrote it: a file's own line, or a continuation."""
        return self.tag is None and not self.kernel


_COLOUR = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_TIME = r"(?:(?:\d{4}-)?\d{2}-\d{2} +\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?|\d{8,11}\.\d{3,9})(?: [+-]\d{4})?"
_THREADTIME = re.compile(
    rf"({_TIME}) +(?:[\w.+-]{{1,20}} +)?(\d{{1,10}}) +(\d{{1,10}}) +([VDIWEFAS]) +(.{{0,80}}?)(?:: |:$)(.*)"
)
_SLASHED = re.compile(rf"(?:({_TIME}) +)?([VDIWEFAS])/(.{{1,80}}?) ?(?:\( {{0,8}}(\d{{1,10}})\))?: ?(.*)")
#: What is left when somebody cuts off date and numbers.
_LEVEL_TAG = re.compile(r"([VDIWEF]) ([A-Za-z][\w.\-/+]{1,40}) *: (.*)")
_STUDIO = re.compile(rf"({_TIME}) +(\d{{1,10}})-(\d{{1,10}})(?:/(\S{{1,200}}))? +(.*)")
_STUDIO_COLUMNS = re.compile(r"(\S.{0,60}?) {1,40}(\S{1,120}) +([VDIWEFA])(?:  (.*)|$)")
_KERNEL = re.compile(
    r"(?:<\d{1,4}>)?(?:\[ {0,8}\+? {0,8}(\d{1,10}\.\d{1,9})(?:,\d)?\]|(\d{1,10}\.\d{3,9})@\d\])"
    r"(?: {0,4}[A-Z]?\[[^\]]{1,60}\]){0,3}(?: {0,4}\(\d{1,3}\)\[[^\]]{1,60}\])? {0,8}(.*)"
)


def clean(raw: str) -> str:
    """Without line end, terminal colours and what is beyond the longest line."""
    text = raw[:MAX_LINE].rstrip("\r\n")
    return _COLOUR.sub("", text) if "\x1b" in text else text


def split(raw: str) -> Line:
    """Never fails; a line of no known format is all text."""
    text = clean(raw)
    body = text.lstrip("\t \ufeff")
    first = body[:1]
    if first.isdigit():
        return _dated(text, body)
    if first in "<[" and first and (kernel := _KERNEL.match(body)):
        return Line(kernel[3], time=kernel[1] or kernel[2], kernel=True)
    if body[1:2] == "/" and first in "VDIWEFAS" and (slashed := _SLASHED.match(body)):
        return _slashed(slashed)
    if body[1:2] == " " and first in "VDIWEF" and (short := _LEVEL_TAG.match(body)):
        return Line(short[3], short[2], short[1])
    return Line(text)


def _dated(text: str, body: str) -> Line:
    if match := _THREADTIME.match(body):
        return Line(match[6], match[5].strip(), match[4], int(match[2]), int(match[3]), match[1])
    if match := _STUDIO.match(body):
        return _studio(match)
    if match := _SLASHED.match(body):
        return _slashed(match)
    if match := _KERNEL.match(body):
        return Line(match[3], time=match[1] or match[2], kernel=True)
    return Line(text)


def _slashed(match: re.Match[str]) -> Line:
    return Line(match[5], match[3].strip(), match[2], int(match[4]) if match[4] else None, time=match[1])


def _studio(match: re.Match[str]) -> Line:
    time, pid, tid, package, rest = match[1], int(match[2]), int(match[3]), match[4], match[5]
    if inner := _SLASHED.match(rest):
        return Line(inner[5], inner[3].strip(), inner[2], pid, tid, time, package)
    if columns := _STUDIO_COLUMNS.match(rest):
        return Line(columns[4] or "", columns[1].strip(), columns[3], pid, tid, time, columns[2])
    return Line(rest, "", None, pid, tid, time, package)


def feed_all(parser: Parser, lines: Iterable[str]) -> Facts:
    """Every line into `parser`, and what it says then."""
    for line in lines:
        parser.feed(line)
    return parser.finish()


class Collected:
    """The lines that match `wanted`, up to a bound: for outputs that are small unless somebody is hostile."""

    def __init__(self, wanted: re.Pattern[str] | None = None, most: int = 20_000) -> None:
        self._wanted = wanted
        self._room = most
        self.lines: list[str] = []
        self.truncated = False

    def feed(self, line: str) -> None:
        text = clean(line)
        if self._wanted is not None and not self._wanted.search(text):
            return
        if self._room <= 0:
            self.truncated = True
            return
        self._room -= 1 + len(text) // 500
        self.lines.append(text)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


class Unknown:
    """Text that nobody understood, bounded; kept, since what is unknown today may be what matters."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, text: str) -> None:
        if len(self._lines) < MAX_UNKNOWN and text.strip():
            self._lines.append(text.strip()[:MAX_UNKNOWN_CHARS])

    def facts(self) -> Facts:
        return {"unknown": self._lines} if self._lines else {}


_PROMPT = re.compile(
    r"^.{0,80}?[#$>] *(?:su -c |sudo |adb shell )?[\"']?(?:cat|head" r"|grep \S+) +(/?[\w./*\-]{3,200})[\"']?\s*$"
)


def with_paths(lines: Iterable[str]) -> Iterator[str]:
    """`$ cat PATH` and the answer behind it as `PATH:answer`; every other line as it is."""
    path: str | None = None
    for line in lines:
        if prompt := _PROMPT.match(line):
            path = prompt[1] if "*" not in prompt[1] else None
        elif path is not None and line.strip() and not line.lstrip().startswith(("cat:", "/system/bin/")):
            yield f"/{path.lstrip('/')}:{line.strip()}"
            path = None
        else:
            path = None
            yield line


def number(text: str | None, low: float = -1e18, high: float = 1e18) -> int | None:
    """A whole number within bounds, or None: not measured."""
    if text is None or not re.fullmatch(r"[-+]?\d{1,18}", text.strip()):
        return None
    value = int(text)
    return value if low <= value <= high else None


def decimal(text: str | None, low: float = -1e18, high: float = 1e18) -> float | None:
    """A finite decimal number within bounds, or None: not measured."""
    if text is None or not re.fullmatch(r"[-+]?\d{1,18}(?:\.\d{0,18})?", text.strip()):
        return None
    value = float(text)
    return value if low <= value <= high else None
