"""Kills for want of memory in a log beside an engine's run: who died, how much it held, why.

Formats: lmkd (`Kill 'name' (pid), uid …, oom_score_adj … to free …kB rss, …kB swap; reason: …`; older: `adj`, no uid,
no reason) and the kernel's low-memory killer (`Killing 'name' (pid), adj …, to free …kB on behalf of …`). A
bystander's death shows pressure although the run lives.
"""

from __future__ import annotations

import re

from farm.evidence.engines.findings import Kind
from farm.evidence.engines.parsing import RuleParser

_KILL = re.compile(
    r"\bKill(?:ing)? '(?P<victim>[^']{1,200})' \((?P<pid>\d+)\)(?: \(tgid \d+\))?(?:, uid (?P<uid>\d+))?,?"
    r" (?:oom_score_adj|oom_adj|adj) (?P<adj>-?\d+),?\s+to free (?P<rss>\d+)\s*kB(?: rss)?"
    r"(?:,? (?P<swap>\d+)\s*kB swap)?"
    r"(?:; reason: (?P<reason>.*))?"
)
_FREE = re.compile(r"\((?P<free>\d+)\s*kB < (?P<wanted>\d+)\s*kB\)")
_NO_PROCESS = re.compile(r"^(?:\.{0,2}/|/)")


class LowMemory(RuleParser):
    """One reading per victim."""

    headings = False

    def __init__(self) -> None:
        super().__init__()
        self._kills = 0

    def line(self, text: str) -> None:
        match = _KILL.search(text)
        if match is None:
            return
        self._kills += 1
        labels = {"victim": match["victim"], "pid": match["pid"]}
        if match["uid"]:
            labels["uid"] = match["uid"]
        self.add("kill", self._kills, labels=labels)
        self.add("rss_freed", match["rss"], "kB", Kind.MAIN, labels=labels)
        self.add("oom_score_adj", match["adj"], labels=labels)
        if match["swap"]:
            self.add("swap_freed", match["swap"], "kB", labels=labels)
        if reason := match["reason"]:
            self.found.fact("reason", re.sub(r"\s*\(.*", "", reason))
            if free := _FREE.search(reason):
                self.add("swap_free", free["free"], "kB", labels=labels)
                self.add("swap_wanted", free["wanted"], "kB", labels=labels)
        if _NO_PROCESS.match(match["victim"]):
            self.found.note(f"victim {match['victim'][:100]} is a native program, no app")
