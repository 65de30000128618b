"""Errors of the command line: one line that says what, and one command to type next."""

from __future__ import annotations

import sys

from farm.domain.outcomes import ExitCode


class CliError(Exception):
    """Ends a command: a message, a hint ("what to type next", may be empty) and the exit code."""

    def __init__(self, message: str, hint: str = "", code: ExitCode = ExitCode.FARM_TROUBLE) -> None:
        super().__init__(message)
        self.message, self.hint, self.code = message, hint, code

    @property
    def name(self) -> str:
        """One word for programs: that of the exit code, where the farm or a subclass has no better one."""
        return self.code.name.lower().replace("_", "-")


class Answer:
    """Whether the JSON document that `--json` promises is written: there is one on standard output, never two."""

    written = False


def plain(text: str) -> str:
    """`text` without control characters: what a device or a stranger wrote must not steer the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)


def show_error(message: str, hint: str = "") -> None:
    colour = sys.stderr.isatty()
    start, end = ("\x1b[31m", "\x1b[0m") if colour else ("", "")
    print(f"{start}farm:{end} {plain(message)}", file=sys.stderr)
    if hint:
        print(f"      {plain(hint)}", file=sys.stderr)
