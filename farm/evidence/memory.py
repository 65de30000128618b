"""Memory, in kB: `/proc/meminfo`, `/proc/PID/status`, `smaps_rollup`, `dumpsys meminfo` and `procrank`.

`dumpsys meminfo` is read by its column heads, never by position: vendors add columns. Its TOTAL contains swapped pages,
so PSS may exceed RSS. Source of the format: AOSP `ActivityThread.dumpMemInfoTable`.
"""

from __future__ import annotations

import re

Facts = dict[str, object]

_KB_LINE = re.compile(r"^([A-Za-z][\w()]*):\s+(\d{1,15}) kB\s*$")
_PID = re.compile(r"^\*\* MEMINFO in pid (\d{1,10}) \[(.*)\] \*\*")
_CHECKIN = re.compile(r"^(\d+),(\d+),([^,]+),(.*)$")
_PROCRANK_TOTAL = re.compile(r"^\s*(\d+)K\s+(\d+)K\s+TOTAL\s*$")

#: /proc/PID/smaps_rollup and status → our names.
_PROCESS_KEYS = {"Rss": "rss", "Pss": "pss", "SwapPss": "swap_pss", "VmRSS": "rss", "VmHWM": "hwm", "VmPeak": "vm_peak"}
#: (first head line, second head line) of a column → our name.
_COLUMNS = {
    ("Pss", "Total"): "pss",
    ("Pss", "Clean"): "pss_clean",
    ("Private", "Dirty"): "private_dirty",
    ("Private", "Clean"): "private_clean",
    ("Shared", "Dirty"): "shared_dirty",
    ("Shared", "Clean"): "shared_clean",
    ("SwapPss", "Dirty"): "swap_pss",
    ("Swap", "Dirty"): "swapped_dirty",
    ("Swapped", "Dirty"): "swapped_dirty",
    ("Rss", "Total"): "rss",
    ("Heap", "Size"): "heap_size",
    ("Heap", "Alloc"): "heap_alloc",
    ("Heap", "Free"): "heap_free",
}
#: In `--checkin` version 4, behind version, pid and name: the heap's four columns of size, allocated, free and PSS.
_CHECKIN_TOTAL_PSS = 15


def parse(text: str) -> Facts:
    """What the text says, under the uniform keys; what it does not say is absent."""
    facts: Facts = {}
    if "MEMINFO in pid" in text or "App Summary" in text:
        facts.update(_dumpsys(text))
    elif procrank := next((m for line in text.splitlines() if (m := _PROCRANK_TOTAL.match(line))), None):
        facts["total_pss"] = int(procrank[1])
    elif checkin := next((m for line in text.splitlines() if (m := _CHECKIN.match(line))), None):
        facts.update(_checkin(checkin))
    else:
        facts.update(_proc(text))
    return facts


def _proc(text: str) -> Facts:
    facts: Facts = {}
    for line in text.splitlines():
        if match := _KB_LINE.match(line.replace("\t", " ")):
            key, value = match[1], int(match[2])
            facts.setdefault(_PROCESS_KEYS.get(key, key), value)
        elif (pid := re.match(r"^Pid:\s+(\d+)$", line)) is not None:
            facts["pid"] = int(pid[1])
    if "Private_Clean" in facts and "Private_Dirty" in facts:
        clean, dirty = facts["Private_Clean"], facts["Private_Dirty"]
        if isinstance(clean, int) and isinstance(dirty, int):
            facts["uss"] = clean + dirty
    return facts


def _checkin(match: re.Match[str]) -> Facts:
    fields = match[4].split(",")
    facts: Facts = {"pid": int(match[2]), "process": match[3]}
    if match[1] == "4" and len(fields) > _CHECKIN_TOTAL_PSS and fields[_CHECKIN_TOTAL_PSS].isdigit():
        facts["total_pss"] = int(fields[_CHECKIN_TOTAL_PSS])
    return facts


def _dumpsys(text: str) -> Facts:
    facts: Facts = {}
    columns: list[str] = []
    previous: list[str] = []
    for line in text.splitlines():
        if match := _PID.match(line):
            facts.update(pid=int(match[1]), process=match[2])
        elif line.strip() == "App Summary":
            break
        words = line.split()
        if words[:1] == ["Total"] and previous[:1] == ["Pss"] and len(words) == len(previous):
            columns = [_COLUMNS.get(pair, "") for pair in zip(previous, words, strict=True)]
        elif row := re.match(r"^\s*(Native Heap|TOTAL)\s+((?:\d+\s*)+)$", line):
            values = [int(word) for word in row[2].split()]
            named = {name: value for name, value in zip(columns, values, strict=False) if name}
            if row[1] == "Native Heap" and named:
                facts["native_heap"] = named
            elif row[1] == "TOTAL":
                facts["total_pss"] = values[0]
                facts.update({f"total_{k}": v for k, v in named.items() if k in ("rss", "swap_pss")})
        previous = words
    facts.update(_app_summary(text))
    return facts


def _app_summary(text: str) -> Facts:
    """The second table: from Android 11 on `TOTAL PSS:`, before it `TOTAL:`."""
    _, found, summary = text.partition("App Summary")
    facts: Facts = {}
    if not found:
        return facts
    wanted = {
        "graphics_pss": r"^\s*Graphics:\s+(\d+)",
        "total_pss": r"\bTOTAL(?: PSS)?:\s+(\d+)",
        "total_rss": r"\bTOTAL RSS:\s+(\d+)",
        "total_swap_pss": r"\bTOTAL SWAP PSS:\s+(\d+)",
    }
    for key, pattern in wanted.items():
        if match := re.search(pattern, summary, re.M):
            facts[key] = int(match[1])
    return facts


def core(text: str) -> dict[str, object]:
    """The uniform keys of kind `memory`."""
    return dict(parse(text))
