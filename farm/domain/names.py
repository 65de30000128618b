"""Names that become file names, and how near a mistyped name is to the known ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


def safe(name: str) -> str:
    """`name` as one file name: anything but letters, digits, `-`, `_` and inner dots becomes `%XX`.

    Different names stay different, so that two devices never share a lock file. An empty name becomes `%`.
    """
    out = "".join(c if c in _PLAIN else "".join(f"%{b:02X}" for b in c.encode("utf-8", "replace")) for c in name)
    if out.startswith("."):
        out = "%2E" + out[1:]
    return out or "%"


def suggest(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The known names that `name` was probably meant to be, best first; empty when none is near."""
    by_folded = {k.casefold(): k for k in known}
    return [by_folded[f] for f in difflib.get_close_matches(name.casefold(), list(by_folded), limit, 0.6)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean a or b?`, or an empty string when nothing is near."""
    near = suggest(name, known)
    return f"did you mean {' or '.join(near)}?" if near else ""
