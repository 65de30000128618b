"""Who was killed to get memory back: Android's lmkd, the kernel's low-memory killer, the kernel's out-of-memory killer.

    lowmemorykiller: Kill 'com.example' (17933), uid 10446, oom_score_adj 0 to free 140528kB rss; reason: …
    lowmemorykiller: Killing 'd.process.media' (2846), adj 999,\\n  to free 81288kB on behalf of 'kswapd0' (136) …
    Out of memory: Killed process 4242 (farm-engine) total-vm:…kB, anon-rss:…kB, … oom_score_adj:900

The kernel knows a process by the last 15 characters of its name (`victim_comm`). Sources: AOSP `lmkd.cpp`, the kernel's
`drivers/staging/android/lowmemorykiller.c`, `mm/oom_kill.c`, EventLogTags `killinfo`, `am_kill`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from farm.evidence.lines import Line, split

MAX_LINES = 20_000
MAX_KILLS = 1_000

_LMKD = re.compile(
    r"(?:(?:low ?memory ?killer|lmkd)\S{0,3}:? ?|^\s*)(Kill|Killing) '(.{1,200}?)' \((\d{1,10})\)(.{0,1000})", re.I
)
_OOM = re.compile(r"Kill(?:ed)? process (\d{1,10}) \((.{1,40}?)\),?(.{0,600})")
_UID = re.compile(r"\buid:? (\d{1,10})", re.I)
_ADJ = re.compile(r"\b(?:oom_score_adj|oom_adj|score_adj|adj)[: ](-?\d{1,5})")
_FREED = re.compile(r"to free (\d{1,12}) ?kB")
_SWAP = re.compile(r"(\d{1,12}) ?kB swap")
_ANON = re.compile(r"anon-rss:(\d{1,12})kB")
_REASON = re.compile(r"reason: (.{1,200})")
_KILLINFO = re.compile(r"^\[(\d{1,10}),(\d{1,10}),(-?\d{1,5}),(-?\d{1,5}),(\d{1,12})")
_AM_KILL = re.compile(
    r"^\[(?:\d{1,6},)?(\d{1,10}),([^,\]]{1,200}),(-?\d{1,5}),((?:lmk|low ?mem|oom).{0,200}?)\]?$", re.I
)
_DIED = re.compile(r"Process (\S{1,200}) \(pid (\d{1,10})\) has died:? ?(.{0,60})")
_PROC_DIED = re.compile(r"^\[(?:\d{1,6},)?(\d{1,10}),([^,\]]{1,200})")


@dataclass(slots=True)
class LowMemoryKill:
    """The system ended a process to get its memory. `freed_kb`: None where the line does not say."""

    process: str
    pid: int
    freed_kb: int | None
    reason: str | None
    line: str
    by_kernel: bool = False
    oom_score_adj: int | None = None
    uid: int | None = None
    swap_kb: int | None = None
    state: str | None = None

    def core(self) -> dict[str, Any]:
        found = {
            "class": "low_memory_kill",
            "pid": self.pid,
            "process": None if self.by_kernel or self.process.startswith("pid ") else self.process,
            "victim_comm": self.process if self.by_kernel else None,
            "rss_kB": self.freed_kb or None,
            "swap_kB": self.swap_kb,
            "oom_score_adj": self.oom_score_adj,
            "uid": self.uid,
            "reason": self.reason,
            "state": self.state,
        }
        return {key: value for key, value in found.items() if value is not None}


class LowMemoryKills:
    """Takes lines; the kernel's record may be spread over three."""

    def __init__(self) -> None:
        self.found: list[LowMemoryKill] = []
        self._continues = 0

    def feed(self, line: Line) -> bool:
        """Whether the line speaks of a kill."""
        text = line.text.replace("\\x0a", " ").replace("\\n", " ")
        if "ill" in text and self._kill(line, text):
            self._continues = 4
            return True
        if line.tag == "killinfo" and (match := _KILLINFO.match(text)):
            self._event(int(match[1]), f"pid {match[1]}", int(match[5]), int(match[3]), text)
            return True
        if line.tag == "am_kill" and (match := _AM_KILL.match(text)):
            self._event(int(match[1]), match[2], None, int(match[3]), text)
            return True
        if line.tag == "am_proc_died" and (match := _PROC_DIED.match(text)):
            return self._named(int(match[1]), match[2])
        if "has died" in text and (match := _DIED.search(text)):
            return self._died(int(match[2]), match[3])
        if self._continues > 0 and text.strip():
            self._continues -= 1
            return self._more(text)
        return False

    def _kill(self, line: Line, text: str) -> bool:
        tagged = line.tag is not None and bool(re.match(r"low ?memory ?killer|lmkd", line.tag, re.I))
        match = _LMKD.search(text)
        if match and (tagged or re.search(r"low ?memory ?killer|lmkd", text[: match.end(1)], re.I)):
            kernel = line.kernel or line.pid == 0 or (not line.tag and match[1].lower() == "killing")
            self._put(LowMemoryKill(match[2], int(match[3]), None, None, text.strip()[:1000], kernel), match[4])
            return True
        if (match := _OOM.search(text)) and re.search(r"total-vm|anon-rss|out of memory|oom|memory cgroup", text, re.I):
            kill = LowMemoryKill(match[2], int(match[1]), None, "out of memory", text.strip()[:1000], True)
            if not any(k.pid == kill.pid and k.by_kernel for k in self.found[-3:]):
                self._put(kill, match[3])
            return True
        return False

    def _put(self, kill: LowMemoryKill, rest: str) -> None:
        if len(self.found) >= MAX_KILLS:
            return
        known = next((k for k in self.found[-20:] if k.pid == kill.pid and k.process.startswith("pid ")), None)
        if known is not None:
            self.found.remove(known)
        self.found.append(kill)
        self._read(kill, rest)

    def _read(self, kill: LowMemoryKill, rest: str) -> None:
        for attribute, pattern in (
            ("freed_kb", _FREED),
            ("freed_kb", _ANON),
            ("oom_score_adj", _ADJ),
            ("uid", _UID),
            ("swap_kb", _SWAP),
        ):
            if getattr(kill, attribute) is None and (match := pattern.search(rest)):
                setattr(kill, attribute, int(match[1]))
        if kill.reason is None and (match := _REASON.search(rest)):
            kill.reason = match[1].strip()

    def _more(self, text: str) -> bool:
        if not re.match(r"^\s*(?:to free |cache \d|reason: |Free memory|Free CMA|Total (?:reserve|free))", text):
            return False
        self._read(self.found[-1], text)
        return True

    def _event(self, pid: int, name: str, freed: int | None, adj: int, text: str) -> None:
        if not any(kill.pid == pid for kill in self.found[-50:]) and len(self.found) < MAX_KILLS:
            self.found.append(LowMemoryKill(name, pid, freed, None, text.strip()[:1000], oom_score_adj=adj))

    def _named(self, pid: int, name: str) -> bool:
        """The event log's kill has no name; the line of the process's death has."""
        known = next(
            (kill for kill in reversed(self.found) if kill.pid == pid and kill.process.startswith("pid ")), None
        )
        if known is not None:
            known.process = name
        return known is not None

    def _died(self, pid: int, state: str) -> bool:
        known = next((kill for kill in reversed(self.found) if kill.pid == pid), None)
        if known is not None:
            known.state = state.strip() or None
        return known is not None


def low_memory_kills(text: str) -> list[LowMemoryKill]:
    """Every process that the low-memory killer ended, by user space or kernel, in order."""
    kills = LowMemoryKills()
    for raw in text.splitlines()[:MAX_LINES]:
        kills.feed(split(raw[:4000]))
    return kills.found
