"""Smaller outputs: `dumpsys cpuinfo`, `dumpsys gfxinfo`, `ps`, `top`, `dumpsys window`.

gfxinfo prints one block per process; frame times are the upper edges of a histogram's buckets, in ms. Sources: AOSP
`ProcessCpuTracker`, `libs/hwui/JankTracker.cpp`, toybox `ps.c`.
"""

from __future__ import annotations

import re

from farm.evidence.cpu_usage import Table
from farm.evidence.lines import Facts, Unknown, clean, decimal, number

MAX_PROCESSES = 5_000
MAX_FIELDS = 64
_LOAD = re.compile(r"^\s*Load: (\d{1,6}\.?\d*) / (\d{1,6}\.?\d*) / (\d{1,6}\.?\d*)")
_GRAPHICS = re.compile(r"\*\* Graphics info for pid (\d{1,10}) \[(.{0,300}?)\] \*\*")
_FRAMES = re.compile(
    r"^\s*(Total frames rendered|Janky frames(?: \(legacy\))?|Number [\w ]{3,40}|\d{1,3}(?:th|st|nd"
    r"|rd)(?: gpu)? percentile"
    r"|Stats since|Total GPU memory usage)\s*: ?(.{0,80})$"
)
_PERCENTILE = re.compile(r"^(\d{1,3})(?:th|st|nd|rd)( gpu)? percentile$")
_FOCUS = re.compile(r"m(?:CurrentFocus|FocusedWindow)=.{0,20}?Window\{\w+ (?:u\d+ )?(.{1,200}?)\}")
_DIALOG = re.compile(r"Application (Error|Not Responding): (\S{1,200}?)\}?$")
_PS_HEAD = re.compile(r"^\s*(?:USER|UID|LABEL|PID)\s.*\b(?:NAME|CMD|COMMAND|ARGS)\s*$")
_TOP_HEAD = re.compile(r"^\s*\[?7?m?\s*PID\s+USER\s.*\b(?:ARGS|Name|COMMAND)\s*$")
#: What a histogram says for "longer than I count".
_NO_FRAME_MS = 4950


class DumpsysMisc:
    """Feed it one of them."""

    def __init__(self) -> None:
        self._table = Table()
        self._load: list[float] | None = None
        self._graphics: list[Facts] = []
        self._columns: list[str] = []
        self._processes: list[Facts] = []
        self._dialogs: list[str] = []
        self._focus: str | None = None
        self._unknown = Unknown()

    def feed(self, raw: str) -> None:
        text = clean(raw)
        if not text.strip():
            return
        if _PS_HEAD.match(text) or _TOP_HEAD.match(text):
            self._columns = text.replace("[", " ").replace("]", "").split()
        elif self._columns and self._process(text):
            return
        elif match := _LOAD.match(text):
            self._load = [float(part) for part in match.groups()]
        elif self._table.feed(text) or self._frames(text) or self._window(text):
            return
        else:
            self._unknown.add(text)

    def _process(self, text: str) -> bool:
        words = text.split(None, len(self._columns) - 1)
        if len(words) < len(self._columns):
            return False
        row = dict(zip(self._columns, words, strict=True))
        pid = number(row.get("PID"), 0, 10**9)
        if pid is None:
            return False
        name = next((row[key] for key in ("NAME", "CMD", "COMMAND", "ARGS", "Name") if key in row), "")
        cpu = decimal(
            (row.get("%CPU") or row.get("S%CPU") or row.get("CPU%") or "").lstrip("RSDTIZ").rstrip("%"), 0, 100_000
        )
        found = {
            "pid": pid,
            "name": name.strip(),
            "user": row.get("USER") or row.get("UID"),
            "cpu_pct": cpu,
            "ppid": number(row.get("PPID")),
            "rss_kB": number(row.get("RSS")),
            "vsz_kB": number(row.get("VSZ") or row.get("VSIZE")),
            "state": row.get("S") or row.get("STAT"),
        }
        if len(self._processes) < MAX_PROCESSES:
            self._processes.append({key: value for key, value in found.items() if value is not None})
        return True

    def _frames(self, text: str) -> bool:
        if match := _GRAPHICS.search(text):
            if len(self._graphics) < MAX_PROCESSES // 10:
                self._graphics.append({"pid": int(match[1]), "name": match[2]})
            return True
        match = _FRAMES.match(text)
        if match is None:
            return False
        if not self._graphics:
            self._graphics.append({})
        _put(self._graphics[-1], match[1], match[2].strip())
        return True

    def _window(self, text: str) -> bool:
        if (match := _FOCUS.search(text)) is None:
            return False
        self._focus = match[1]
        if (dialog := _DIALOG.search(match[1])) and len(self._dialogs) < MAX_FIELDS:
            self._dialogs.append(f"{dialog[1].lower()}: {dialog[2]}")
        return True

    def finish(self) -> Facts:
        facts: Facts = self._table.facts()
        if self._load is not None:
            facts["load"] = self._load
        rows = facts.get("processes")
        if isinstance(rows, list) and len(rows) == 1 and self._table.window_ms is None:
            facts.update(rows[0])
        if self._processes:
            facts["processes"] = self._processes
            facts["rows"] = len(self._processes)
        if len(self._graphics) == 1:
            facts.update(self._graphics[0])
        elif self._graphics:
            facts["graphics"] = self._graphics
        if self._focus is not None:
            facts["focused_window"] = self._focus
            facts["crash_dialog"] = any(dialog.startswith("error") for dialog in self._dialogs)
            facts["anr_dialog"] = any(dialog.startswith("not") for dialog in self._dialogs)
        return {**facts, **self._unknown.facts()}


def _put(found: Facts, name: str, value: str) -> None:
    plain = re.match(r"-?\d{1,18}", value)
    count = int(plain[0]) if plain else None
    if name == "Total frames rendered":
        found.setdefault("total_frames", count)
    elif name == "Janky frames":
        found.setdefault("janky", count)
        share = re.search(r"\((\d{1,3}(?:\.\d+)?)%\)", value)
        found.setdefault("janky_pct", float(share[1]) if share and found.get("total_frames") else None)
    elif match := _PERCENTILE.match(name):
        known = count is not None and value.endswith("ms") and count < _NO_FRAME_MS and found.get("total_frames") != 0
        found.setdefault(f"{'gpu_' if match[2] else ''}p{match[1]}_ms", count if known else None)
    elif name.startswith("Number ") and len(found) < MAX_FIELDS:
        found.setdefault("_".join(name[7:].lower().split()), count)
