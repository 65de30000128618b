"""The table of CPU use that Android's activity manager prints: in an ANR's block and for `dumpsys cpuinfo`.

    CPU usage from 6334ms to 1271ms ago (2026-01-30 00:17:36.113 to 2026-01-30 00:17:41.177) with 99% awake:
      111% 20805/com.example.app: 75% user + 35% kernel / faults: 13442 minor
    46% TOTAL: 22% user + 18% kernel + 2.8% iowait

A row's per cent are of one core, those of TOTAL of all cores. A name may hold `/` and `:`. Source of the format: AOSP
`ProcessCpuTracker.printCurrentState`.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

MAX_ROWS = 600
_WINDOW = re.compile(
    r"CPU usage from (-?\d{1,12})ms to (-?\d{1,12})ms (ago" r"|later)(?: \((.{1,80}?)\))?(?: with (\d{1,3})% awake)?"
)
_ROW = re.compile(
    r"^( *)[+-]?(\d{1,6}(?:\.\d{1,3})?)% (\d{1,10})/(.{1,300}?)"
    r"(?:: ?(\d[\d.]{0,8})% user \+ (\d[\d.]{0,8})% kernel(?: / faults: (?:(\d{1,12}) minor)? ?(?:(\d{"
    r"1,12}) major)?)?)? *$"
)
_TOTAL = re.compile(r"^ *(\d[\d.]{0,8})% TOTAL(?:: (.{0,200}))?")
_PART = re.compile(r"(\d[\d.]{0,8})% (user|kernel|iowait|irq|softirq)")


@dataclass(frozen=True, slots=True)
class Row:
    """One process; per cent of one core, page faults in the window. None: not printed."""

    pid: int
    name: str
    cpu_pct: float
    user_pct: float | None = None
    kernel_pct: float | None = None
    minor_faults: int | None = None
    major_faults: int | None = None


class Table:
    """Reads the first window; a second one (while an ANR was written down) lists threads and is passed over."""

    def __init__(self) -> None:
        self.window_ms: tuple[int, int] | None = None
        self.window_kind: str | None = None
        self.awake_pct: int | None = None
        self.rows: list[Row] = []
        self.total_pct: float | None = None
        self.parts: dict[str, float] = {}
        self._second = False

    def feed(self, text: str) -> bool:
        """Whether the line belongs to such a table."""
        if "%" not in text and "CPU usage from" not in text:
            return False
        if window := _WINDOW.search(text):
            self._begin(window)
            return True
        if total := _TOTAL.match(text):
            if self.total_pct is None:
                self.total_pct = float(total[1]) if total[1].count(".") < 2 else None
                self.parts = {f"{name}_pct": float(value) for value, name in _PART.findall(total[2] or "")}
            return True
        return self._row(text)

    def _begin(self, window: re.Match[str]) -> None:
        if self.window_ms is not None or self.rows:
            self._second = True
            return
        self.window_ms, self.window_kind = (int(window[1]), int(window[2])), window[3]
        self.awake_pct = int(window[5]) if window[5] else None

    def _row(self, text: str) -> bool:
        match = _ROW.match(text)
        if match is None:
            return False
        if not self._second and len(self.rows) < MAX_ROWS:
            _, cpu, pid, name, user, kernel, minor, major = match.groups()
            if user is not None and (user.count(".") > 1 or kernel.count(".") > 1):
                return True
            self.rows.append(
                Row(
                    int(pid),
                    name.strip(),
                    float(cpu),
                    None if user is None else float(user),
                    None if kernel is None else float(kernel),
                    int(minor) if minor else None,
                    int(major) if major else None,
                )
            )
        return True

    def of(self, pid: int | None, name: str | None) -> Row | None:
        """The row of a process, by its number, else by its name."""
        by_pid = next((row for row in self.rows if pid is not None and row.pid == pid), None)
        return by_pid or next((row for row in self.rows if name is not None and row.name == name), None)

    def facts(self, most: int = MAX_ROWS) -> dict[str, object]:
        """What was read; keys of what was not are absent."""
        found: dict[str, object] = {}
        if self.window_ms is not None:
            found.update(cpu_window_ms=list(self.window_ms), cpu_window_kind=self.window_kind)
        if self.awake_pct is not None:
            found["awake_pct"] = self.awake_pct
        if self.rows:
            found["processes"] = [
                {key: value for key, value in asdict(row).items() if value is not None} for row in self.rows[:most]
            ]
        if self.total_pct is not None:
            found.update(total_pct=self.total_pct, total=self.parts)
        return found
