"""One text of a device -> the same fault as another device, build and moment would print it.

Drawn anew: which functions were inlined, addresses, process numbers (the same one everywhere), dates, build ids,
installation folders, the format of the log and its vendors' prefixes, which other lines stand between, and the order of
what has none (threads behind the first, rows of a CPU table).
"""

from __future__ import annotations

import itertools
import random
import re

from farm.evidence.lines import split

_HEX = re.compile(r"\b(0x)?((?=[0-9a-f]*\d)[0-9a-f]{8,40})\b")
_DATE = re.compile(r"\b((?:20\d\d-)?)(\d\d)-(\d\d)([ T])(\d\d):(\d\d):(\d\d)")
_APP = re.compile(r"/data/app/[^/ ]+(?:/[\w.]+-[^/ ]{4,}==)?")
_PID = re.compile(r"\b(?:pid:? ?|PID: |\bpid=|\(pid )(\d{3,6})\b|sysTid=(\d{3,6})|\((\d{3,6})\), (?:uid|adj)")
_CLOCK = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}")
_FRAME = re.compile(r"#\d\d +pc |^\s*at \w|: \s*at \w")
_ROW = re.compile(r"^\s*(?:\S+ +)*\d+(?:\.\d+)?% \d+/")
_NOISE = (
    ("wpa_supplicant", "wlan0: CTRL-EVENT-SIGNAL-CHANGE above=1 signal=-47 noise=-95 txrate=866700"),
    ("BatteryService", "level:81, scale:100, status:2, health:2, present:true"),
    ("chatty", "uid=1000(system) Binder:1612_9 expire 3 lines"),
    ("MIUIInput", "[MotionEvent] publisher action=0x0, 4921121, channel 'a1b2c3'"),
    ("OplusThermalStats", "report battery temp 31.2 skin 33"),
    ("SamsungAlarmManager", "setExact Intent (T:2/F:5/AC:false) 20260812T101500"),
    ("MtkThermal", "catm: target 85000 current 41200"),
    ("HwHiSysEvent", "HiSysEvent write domain POWERTHERMAL"),
)


def vary(text: str, seed: int) -> str:
    """Another account of the same fault; the same seed gives the same one."""
    r = random.Random(seed)
    text = _identities(text.replace("\r\n", "\n"), r)
    lines = _shuffled(_threads(_inlined(text.split("\n"), r), r), r)
    return "\n".join(_noisy(_logged(lines, r), r))


def _identities(text: str, r: random.Random) -> str:
    names: dict[str, str] = {}

    def other(match: re.Match[str]) -> str:
        digits = match[2]
        if digits not in names:
            drawn = "".join(r.choice("0123456789abcdef") for _ in digits)
            names[digits] = digits if set(digits) <= {"0"} else drawn
        return (match[1] or "") + names[digits]

    text = _APP.sub(lambda match: _folder(match[0], r), text)
    text = _HEX.sub(other, text)
    for old in {number for match in _PID.finditer(text) for number in match.groups() if number}:
        text = re.sub(rf"(?<![\w.]){old}(?![\w.])", str(r.randrange(1100, 32000)), text)
    month, day, hour, minute = r.randrange(1, 13), r.randrange(1, 29), r.randrange(24), r.randrange(60)
    return _DATE.sub(lambda m: f"{m[1]}{month:02d}-{day:02d}{m[4]}{hour:02d}:{minute:02d}:{m[7]}", text)


def _folder(path: str, r: random.Random) -> str:
    """Android 11 and newer put random words into an installation's path; the name of the package stays."""
    named = re.search(r"([a-z]\w*(?:\.\w+)+)", path)
    drawn = ["".join(r.choice("ABCxyz0189_-") for _ in range(22)) for _ in range(2)]
    return f"/data/app/~~{drawn[0]}==/{named[1] if named else 'com.example'}-{drawn[1]}=="


def _inlined(lines: list[str], r: random.Random) -> list[str]:
    """A build in three has one of the inner functions of a longer stack inlined: its frame is not there."""
    frames = [index for index, line in enumerate(lines) if _FRAME.search(line)]
    if len(frames) < 5 or r.random() >= 1 / 3:
        return lines
    gone = r.choice(frames[1:4])
    return [line for index, line in enumerate(lines) if index != gone]


def _threads(lines: list[str], r: random.Random) -> list[str]:
    """Threads behind the first, in another order: they are told as the runtime happens to find them."""
    heads = [index for index, line in enumerate(lines) if re.match(r'^"[^"]{1,100}" ', line)]
    if len(heads) < 3:
        return lines
    blocks = [lines[a:b] for a, b in itertools.pairwise(heads[1:])]
    r.shuffle(blocks)
    return [*lines[: heads[1]], *(line for block in blocks for line in block), *lines[heads[-1] :]]


def _shuffled(lines: list[str], r: random.Random) -> list[str]:
    """Rows of a CPU table in another order."""
    rows = [index for index, line in enumerate(lines) if _ROW.match(split(line).text)]
    drawn = [lines[index] for index in rows]
    r.shuffle(drawn)
    for index, line in zip(rows, drawn, strict=True):
        lines[index] = line
    return lines


def _logged(lines: list[str], r: random.Random) -> list[str]:
    """A log in the format that another tool or vendor writes; a file's own lines stay as they are."""
    parts = [split(line) for line in lines]
    dated = [part for part in parts if part.tag and part.pid is not None and part.time]
    if not dated:
        return _kernel(lines, r)
    style = r.choice(("threadtime", "year", "time", "brief", "uid"))
    return [
        line if not (part.tag and part.pid is not None and part.time) else _prefix(style, part.tag, part, r) + part.text
        for line, part in zip(lines, parts, strict=True)
    ]


def _prefix(style: str, tag: str, part: object, r: random.Random) -> str:
    pid, tid = getattr(part, "pid", 0), getattr(part, "tid", None)
    level, clock = getattr(part, "level", None) or "I", _CLOCK.search(str(getattr(part, "time", "")))
    time = clock[0] if clock else "01-02 03:04:05.006"
    tid = pid if tid is None else tid
    return {
        "threadtime": f"{time} {pid:5d} {tid:5d} {level} {tag}: ",
        "year": f"2026-{time} {pid:5d} {tid:5d} {level} {tag}: ",
        "uid": f"{time}  {r.choice(('1000', 'root', 'u0_a231'))} {pid:5d} {tid:5d} {level} {tag}: ",
        "time": f"{time} {level}/{tag}({pid:5d}): ",
        "brief": f"{level}/{tag}({pid:5d}): ",
    }[style]


def _kernel(lines: list[str], r: random.Random) -> list[str]:
    """The kernel's lines with the prefix that a vendor's kernel writes."""
    style = r.choice(("", "(4)[{}:kworker/u16:3]", "[{}:    kworker/4:1]", " C[1:{}]"))
    made = []
    for line in lines:
        part = split(line)
        clock = f"[{r.randrange(100, 99999):5d}.{r.randrange(10**6):06d}]"
        head = f"<{r.randrange(3, 7)}>{clock} {style.format(r.randrange(100, 9000))}".rstrip()
        made.append(f"{head} {part.text}" if part.kernel and not style.startswith(" C") else line)
    return made


def _noisy(lines: list[str], r: random.Random) -> list[str]:
    """Lines of others in between, where the text is a log."""
    if sum(split(line).tag is not None for line in lines) * 2 < len(lines):
        return lines
    made: list[str] = []
    for line in lines:
        if r.random() < 0.15 and split(line).tag is not None:
            tag, words = r.choice(_NOISE)
            made.append(f"08-12 10:15:{r.randrange(60):02d}.{r.randrange(1000):03d}  1612  1699 I {tag}: {words}")
        made.append(line)
    return made
