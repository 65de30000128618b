"""What `farm doctor` finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. `remedy` is what to type when it is not ok; `needed`: the farm cannot work without."""

    name: str
    ok: bool
    words: str
    remedy: str = ""
    needed: bool = True
