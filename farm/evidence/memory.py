"""Memory, in kB: `/proc/meminfo`, `/proc/PID/status`, `smaps`, `smaps_rollup`, `dumpsys meminfo` and `procrank`.

`dumpsys meminfo` is read by its column heads, never by position: vendors add columns. Its TOTAL contains swapped pages,
so PSS may exceed RSS. Source of the format: AOSP `ActivityThread.dumpMemInfoTable`.
"""

from __future__ import annotations

import re

Facts = dict[str, object]

_KB_LINE = re.compile(r"^([A-Za-z][\w()]*):\s+(\d{1,15}) kB\s*$")
_MAPPING = re.compile(r"^[0-9a-f]{4,16}-[0-9a-f]{4,16} [r-][w-][x-][ps] (?!.*\[rollup\])")
_PROCRANK_HEAD = re.compile(r"^\s*PID\s+Vss\s+Rss\s+Pss\s+Uss\b")
_ROW = re.compile(r"^\s*(Native Heap|Native|TOTAL)\s+((?:\d{1,15}\s*)+)$")
_BY_PROCESS = re.compile(r"^\s*([\d,]{1,15}) ?(?:kB|K): (.{1,200}?) \(pid (\d{1,10})")
_COMPACT = re.compile(r"^proc,\w+,([^,]{1,200}),(\d{1,10}),(\d{1,15}),", re.M)
_RAM = re.compile(r"^\s*(Total|Free|Used|Lost) RAM:\s+([\d,]{1,15}) ?(?:kB|K)")
_NO_PROCESS = re.compile(r"No process found for: (.{1,200})")
_GRAPHICS = re.compile(r"^ *Graphics: +(\d{1,15})", re.M)
#: In the summary of Android 12 and newer a number further right than this stands in the Rss column.
_PSS_COLUMN_ENDS = 32
MAX_ROWS = 2_000
_PID = re.compile(r"^\*\* MEMINFO in pid (\d{1,10}) \[(.*)\] \*\*")
_CHECKIN = re.compile(r"^(\d+),(\d+),([^,]+),(.*)$")
_PROCRANK_TOTAL = re.compile(r"^\s*(\d{1,15})K\s+(?:\d{1,15}K\s+)*TOTAL\s*$")

#: /proc/PID/smaps_rollup and status → our names.
_PROCESS_KEYS = {
    "Rss": "rss",
    "Pss": "pss",
    "SwapPss": "swap_pss",
    "VmRSS": "rss",
    "VmHWM": "hwm",
    "VmPeak": "vm_peak",
    "VmSwap": "swap",
}
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
    ("", "Pss"): "pss",
}
#: In `--checkin` version 4, behind version, pid and name: the heap's four columns of size, allocated, free and PSS.
_CHECKIN_TOTAL_PSS = 15


def parse(text: str) -> Facts:
    """What the text says, under the uniform keys; what it does not say is absent."""
    facts: Facts = {}
    lines = text.splitlines()
    if "MEMINFO in pid" in text or "App Summary" in text or "TOTAL PSS:" in text or _looks_like_a_table(lines):
        facts.update(_dumpsys(text))
    elif any(_PROCRANK_TOTAL.match(line) or _PROCRANK_HEAD.match(line) for line in lines):
        facts.update(_procrank(lines))
    elif checkin := next((m for line in lines if (m := _CHECKIN.match(line))), None):
        facts.update(_checkin(checkin))
    elif "by process:" in text or _COMPACT.search(text):
        facts.update(_whole_system(lines))
    else:
        facts.update(_proc(lines))
    if match := _NO_PROCESS.search(text):
        facts["missing_process"] = match[1].strip()
    return facts


def _proc(lines: list[str]) -> Facts:
    facts: Facts = {}
    mappings = sum(1 for line in lines if _MAPPING.match(line))
    summed = mappings > 1
    for line in lines:
        if match := _KB_LINE.match(line.replace("\t", " ")):
            key, value = _PROCESS_KEYS.get(match[1], match[1]), int(match[2])
            known = facts.get(key)
            facts[key] = known + value if summed and isinstance(known, int) else value if known is None else known
        elif (pid := re.match(r"^Pid:\s+(\d{1,10})$", line)) is not None:
            facts["pid"] = int(pid[1])
        elif name := re.match(r"^Name:\s+(.{1,100})$", line):
            facts.setdefault("process", name[1])
    if summed:
        facts["mappings"] = mappings
    clean, dirty = facts.get("Private_Clean"), facts.get("Private_Dirty")
    if isinstance(clean, int) and isinstance(dirty, int):
        facts["uss"] = clean + dirty
    return facts


def _procrank(lines: list[str]) -> Facts:
    """One row per process; the TOTAL row has no Vss and no Rss."""
    facts: Facts = {}
    columns: list[str] = []
    rows: list[Facts] = []
    for line in lines:
        if _PROCRANK_HEAD.match(line):
            columns = [word.lower() for word in line.split()]
        elif match := _PROCRANK_TOTAL.match(line):
            facts["total_pss"] = int(match[1])
        elif columns and len(rows) < MAX_ROWS and (row := _procrank_row(columns, line)) is not None:
            rows.append(row)
    if len(rows) == 1:
        facts.update(rows[0])
    if rows:
        facts["processes"] = rows
    return facts


def _procrank_row(columns: list[str], line: str) -> Facts | None:
    words = line.split(None, len(columns) - 1)
    if len(words) != len(columns) or not words[0].isdigit():
        return None
    found: Facts = {}
    for column, word in zip(columns, words, strict=True):
        if column in ("pid",):
            found["pid"] = int(word[:10])
        elif column == "cmdline":
            found["process"] = word
        elif match := re.fullmatch(r"(\d{1,15})K", word):
            found[{"swap": "swap", "pswap": "swap_pss"}.get(column, column)] = int(match[1])
        else:
            return None  # a damaged row
    return found


def _whole_system(lines: list[str]) -> Facts:
    """`dumpsys meminfo` without a process, and its compact form (`-c`)."""
    facts: Facts = {}
    rows: list[Facts] = []
    section = ""
    for line in lines:
        if line.rstrip().endswith(":") and "by" in line:
            section = line.strip()
        elif (match := _BY_PROCESS.match(line)) and section.startswith("Total PSS by process") and len(rows) < MAX_ROWS:
            rows.append({"pid": int(match[3]), "process": match[2], "pss": int(match[1].replace(",", ""))})
        elif (match := _COMPACT.match(line)) and len(rows) < MAX_ROWS:
            rows.append({"pid": int(match[2]), "process": match[1], "pss": int(match[3])})
        elif match := _RAM.match(line):
            facts[f"{match[1].lower()}_ram"] = int(match[2].replace(",", ""))
    if rows:
        facts["processes"] = rows
    return facts


def _checkin(match: re.Match[str]) -> Facts:
    fields = match[4].split(",")
    facts: Facts = {"pid": int(match[2]), "process": match[3]}
    if match[1] in ("2", "3", "4") and len(fields) > _CHECKIN_TOTAL_PSS + 1 and fields[_CHECKIN_TOTAL_PSS].isdigit():
        facts["total_pss"] = int(fields[_CHECKIN_TOTAL_PSS])
    return facts


def _looks_like_a_table(lines: list[str]) -> bool:
    return any(_ROW.match(line) for line in lines) and any(
        word in line for line in lines for word in ("Private", "mmap")
    )


def _dumpsys(text: str) -> Facts:
    facts: Facts = {}
    columns: list[str] = []
    previous: list[str] = []
    for line in text.splitlines():
        if match := _PID.match(line.strip()):
            facts.update(pid=int(match[1]), process=match[2])
        elif line.strip() == "App Summary":
            break
        words = line.split()
        if found := _columns(previous, words):
            columns = found
        elif row := _ROW.match(line):
            _table_row(facts, columns, row[1], [int(word) for word in row[2].split()])
        previous = words
    facts.update(_app_summary(text))
    return facts


def _columns(above: list[str], below: list[str]) -> list[str] | None:
    """The names of a table's columns from its two head lines; Android 4.3 has no word above the first column."""
    if below[:1] == ["Total"] and above[:1] == ["Pss"] and len(below) == len(above):
        return [_COLUMNS.get(pair, "") for pair in zip(above, below, strict=True)]
    if below[:1] == ["Pss"] and above[:2] == ["Shared", "Private"] and len(below) == len(above) + 1:
        return [_COLUMNS.get(pair, "") for pair in zip(["", *above], below, strict=True)]
    return None


def _table_row(facts: Facts, columns: list[str], row: str, values: list[int]) -> None:
    named = {name: value for name, value in zip(columns, values, strict=False) if name}
    if row.startswith("Native"):
        if named and "native_heap" not in facts:
            facts["native_heap"] = named
    elif "total_pss" not in facts:
        facts["total_pss"] = values[0]
        facts.update({f"total_{k}": v for k, v in named.items() if k in ("rss", "swap_pss")})


def _app_summary(text: str) -> Facts:
    """The second table: from Android 11 on `TOTAL PSS:`, before it `TOTAL:`."""
    _, found, summary = text.partition("App Summary")
    facts: Facts = {}
    if not found and "TOTAL PSS:" not in text:
        return facts
    summary = summary if found else text
    if (graphics := _GRAPHICS.search(summary)) and graphics.end(1) - graphics.start() <= _PSS_COLUMN_ENDS:
        facts["graphics_pss"] = int(graphics[1])
    wanted = {
        "total_pss": r"\bTOTAL(?: PSS)?:\s+(\d+)",
        "total_rss": r"\bTOTAL RSS:\s+(\d+)",
        "total_swap_pss": r"\bTOTAL SWAP PSS:\s+(\d+)",
        "java_heap_pss": r"^\s*Java Heap:\s+(\d+)",
        "total_swap": r"\bTOTAL SWAP \(KB\):\s+(\d+)",
    }
    for key, pattern in wanted.items():
        if match := re.search(pattern, summary, re.M):
            facts[key] = int(match[1])
    return facts


def core(text: str) -> dict[str, object]:
    """The uniform keys of kind `memory`."""
    return dict(parse(text))
