"""JSON inside the output of an engine: whole lines, documents over many lines, and documents that are cut off.

Of a cut document all that is complete is kept: the parts that the cut went through are left out, and what is open is
closed. A number at the cut is no complete part.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

MAX_DOCUMENT = 8 << 20
MAX_SALVAGED = 1 << 20
MAX_ATTEMPTS = 64
_INSIDE = re.compile(r'\s*(?:$|[{}\[\]",]|-?\d[-+\d.eE,\s]*[\]}]*,?\s*$|(?:true|false|null)\s*,?\s*$)')


@dataclass(slots=True)
class Documents:
    """Feed it raw lines; it gives back each document as it is complete."""

    torn: bool = False
    took: bool = False  # whether the last line was a part of a document
    _lines: list[str] = field(default_factory=list)
    _size: int = 0
    _depth: int = 0
    _attempts: int = 0

    def feed(self, line: str) -> Any | None:
        """The document that ends with this line, or None. A line of somebody else inside a document is passed over."""
        text = line.strip()
        self.took = text.startswith(("{", "[")) if not self._lines else may_be_json(text)
        if not self.took:
            return None
        if not self._lines:
            whole = _loads(text)
            if whole is not None or not _opens(text):
                self.took = whole is not None
                return whole
        self._lines.append(line)
        self._size += len(line) + 1
        self._depth += sum(map(text.count, "{[")) - sum(map(text.count, "}]"))
        if self._size > MAX_DOCUMENT:
            self.torn = True
            self._reset()
            return None
        if (self._depth > 0 and line not in ("}", "]")) or self._attempts >= MAX_ATTEMPTS:
            return None
        self._attempts += 1
        whole = _loads("\n".join(self._lines))
        if whole is not None:
            self._reset()
        return whole

    def rest(self) -> Any | None:
        """What is complete of the document that the output stops in."""
        if not self._lines:
            return None
        self.torn = True
        text = "\n".join(self._lines)
        self._reset()
        return salvage(text)

    def _reset(self) -> None:
        self._lines, self._size, self._depth, self._attempts = [], 0, 0, 0


def may_be_json(line: str) -> bool:
    """Whether a line can stand inside a document of many lines; a message of another stream cannot."""
    return _INSIDE.match(line) is not None


def salvage(text: str) -> Any | None:
    """The complete part of a JSON text that is cut off, with what is open closed; None if there is none."""
    text = text.lstrip()[:MAX_SALVAGED]
    closers: list[str] = []
    safe: tuple[int, str] | None = None
    inside = escaped = False
    for at, mark in enumerate(text):
        if inside:
            escaped, inside = mark == "\\" and not escaped, mark != '"' or escaped
        elif mark == '"':
            inside = True
        elif mark in "{[":
            closers.append("}" if mark == "{" else "]")
            safe = at + 1, "".join(reversed(closers))
        elif mark in "}]":
            if not closers or closers.pop() != mark:
                break
            safe = at + 1, "".join(reversed(closers))
        elif mark == ",":
            safe = at, "".join(reversed(closers))
        if len(closers) > 200:
            break
    return None if safe is None else _loads(text[: safe[0]] + safe[1])


def elements(text: str) -> list[dict[str, Any]]:
    """The complete objects of a JSON array that may be cut off."""
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    at = text.find("[") + 1
    while at < len(text):
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        if isinstance(value, dict):
            found.append(value)
    return found


def _opens(text: str) -> bool:
    """Whether a line can begin a document of many lines: not a log line that happens to begin with a bracket."""
    return text in ("{", "[", "[{") or text.startswith(('{"', '[{"', '{ "', "[ {")) or text[1:].lstrip() == ""


def _loads(text: str) -> Any | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None
