"""What a long command is at, told while it runs: on a terminal one line that is kept up to date, in a log now and then.

Standard library only, as all of set-up.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

#: How often a terminal's line is renewed, and how often a log gets one, seconds.
TERMINAL_S, LOG_S = 1.0, 10.0
#: Reads a command's whole output and tells in a few words what it is at.
Words = Callable[[str], str]

_COLLECTING = re.compile(r"^Collecting ([A-Za-z0-9][A-Za-z0-9._-]*)", re.MULTILINE)


class Ticker:
    """Tells `words` of a command's output whenever it is time to; `close` leaves a terminal's line empty."""

    def __init__(self, step: str, words: Words, stream: TextIO | None = None, began: float | None = None) -> None:
        self._step, self._words, self._stream = step, words, stream or sys.stderr
        self._began = time.monotonic() if began is None else began
        self._terminal = self._stream.isatty()
        self.every_s = TERMINAL_S if self._terminal else LOG_S
        self._due = time.monotonic() + self.every_s
        self._shown = False

    def tick(self, output: Callable[[], str]) -> None:
        """Called as often as one likes."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + self.every_s
        line = f"[{now - self._began:6.1f} s] {self._step}: {self._words(output())} …"
        if self._terminal:
            self._shown = True
            self._stream.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
        else:
            self._stream.write(f"{line}\n")
        self._stream.flush()

    def close(self) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def last_line(output: str) -> str:
    """The last line that says something, printable and at most 100 characters; empty while none does."""
    lines = (" ".join(re.sub(r"[^ -~]", " ", line).split()) for line in reversed(output[-8000:].splitlines()))
    return next((line[:100] for line in lines if line), "")


def pip_words(total: int, installed: Callable[[], int]) -> Words:
    """For `pip install` of `total` packages; `installed` counts those that are in place."""

    def words(output: str) -> str:
        if "\nInstalling collected packages" in output:
            return f"2/2 installing, {min(installed(), total)} of {total} packages in place"
        fetched = _COLLECTING.findall(output)
        if fetched:
            return f"1/2 fetching {min(len(fetched), total)} of {total} packages: {fetched[-1]}"
        return f"1/2 fetching, asking for {total} packages"

    return words
