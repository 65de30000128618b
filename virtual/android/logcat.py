"""`logcat` and `log`: options, filters and output formats of Android's own."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from virtual.android.calls import Call, Handler, UsageError
from virtual.android.logd import BUFFERS, DEFAULT_BUFFERS, PRIORITIES, SIZE_MAX, SIZE_MIN, Entry, Logd

_NAMES = {"V": "V", "D": "D", "I": "I", "W": "W", "E": "E", "F": "F"}


def _stamp(entry: Entry, modifiers: set[str]) -> str:
    """Date and time, or seconds, as the modifiers ask."""
    digits = 6 if "usec" in modifiers else 3
    if "monotonic" in modifiers:
        return f"{entry.monotonic_s:>{7 + digits}.{digits}f}"
    if "epoch" in modifiers:
        return f"{entry.time_s:>{12 + digits}.{digits}f}"
    moment = time.gmtime(entry.time_s) if "UTC" in modifiers else time.localtime(entry.time_s)
    fraction = int(entry.time_s % 1 * 10**digits)
    layout = "%Y-%m-%d %H:%M:%S" if "year" in modifiers else "%m-%d %H:%M:%S"
    zone = time.strftime(" %z", moment) if "zone" in modifiers else ""
    return f"{time.strftime(layout, moment)}.{fraction:0{digits}d}{zone}"


def _prefix_threadtime(entry: Entry, modifiers: set[str]) -> str:
    uid = f"{entry.uid:>5} " if "uid" in modifiers else ""
    return f"{_stamp(entry, modifiers)} {uid}{entry.pid:>5} {entry.tid:>5} {entry.priority} {entry.tag:<8}: "


FORMATS: dict[str, Callable[[Entry, set[str]], str]] = {
    "threadtime": _prefix_threadtime,
    "time": lambda e, m: f"{_stamp(e, m)} {e.priority}/{e.tag:<8}({e.pid:>5}): ",
    "brief": lambda e, m: f"{e.priority}/{e.tag:<8}({e.pid:>5}): ",
    "tag": lambda e, m: f"{e.priority}/{e.tag:<8}: ",
    "process": lambda e, m: f"{e.priority}({e.pid:>5}) ",
    "thread": lambda e, m: f"{e.priority}({e.pid:>5}:{e.tid:>5}) ",
    "raw": lambda e, m: "",
}
_MODIFIERS = {"color", "descriptive", "epoch", "monotonic", "printable", "uid", "usec", "UTC", "year", "zone", "nsec"}


@dataclass
class Options:
    """A parsed command line."""

    buffers: list[str] = field(default_factory=list)
    format: str = "threadtime"
    modifiers: set[str] = field(default_factory=set)
    dump: bool = False
    clear: bool = False
    show_size: bool = False
    set_size: int | None = None
    tail: str | None = None
    filters: dict[str, str] = field(default_factory=dict)
    default_priority: str = "V"
    regex: re.Pattern[str] | None = None
    max_count: int | None = None
    pid: int | None = None
    last: bool = False

    def admits(self, entry: Entry) -> bool:
        """Whether filters, --pid and --regex let it through."""
        least = self.filters.get(entry.tag, self.default_priority)
        if least == "S" or PRIORITIES.index(entry.priority) < PRIORITIES.index(least):
            return False
        if self.pid is not None and entry.pid != self.pid:
            return False
        return self.regex is None or self.regex.search(entry.message) is not None

    def render(self, entry: Entry) -> str:
        """The entry's lines."""
        if self.format == "long":
            head = (
                f"[ {_stamp(entry, self.modifiers)} {entry.pid:>5}:{entry.tid:>5} {entry.priority}/{entry.tag:<8} ]\n"
            )
            return f"{head}{entry.message}\n\n"
        prefix = FORMATS[self.format](entry, self.modifiers)
        return "".join(f"{prefix}{line}\n" for line in entry.message.split("\n"))


_WITH_VALUE = {
    "-b": "buffer", "--buffer": "buffer", "-v": "format", "--format": "format", "-t": "tail", "-T": "follow",
    "-G": "size", "--buffer-size": "size", "-e": "regex", "--regex": "regex", "-m": "count", "--max-count": "count",
    "--pid": "pid",
}  # fmt: skip
_IGNORED = {"-D", "--dividers", "--print", "--wrap", "-S", "--statistics"}


def _tokens(arguments: list[str]) -> Iterator[tuple[str, str | None]]:
    """(option or "", value) in order; options may carry their value after `=` or without a blank."""
    rest = iter(arguments)
    for word in rest:
        name, equals, value = word.partition("=")
        if equals and name in _WITH_VALUE:
            yield name, value
        elif word in _WITH_VALUE:
            yield word, next(rest, None)
        elif word[:2] in _WITH_VALUE and not word.startswith("--") and len(word) > 2:
            yield word[:2], word[2:]
        elif word.startswith("-") and len(word) > 1:
            yield word, None
        else:
            yield "", word


def parse(arguments: list[str], log_tags: str = "") -> Options:
    """Reads the command line of logcat; raises `UsageError`."""
    options = Options()
    specs: list[str] = []
    for name, value in _tokens(arguments):
        if name == "":
            specs += (value or "").split()
        elif name in _WITH_VALUE:
            if value is None:
                raise UsageError(f"logcat: option requires an argument -- '{name.lstrip('-')}'")
            _set_value(options, _WITH_VALUE[name], value)
        elif name not in _IGNORED:
            _set_flags(options, name)
    for spec in specs or log_tags.split():
        _add_filter(options, spec)
    options.buffers = options.buffers or list(DEFAULT_BUFFERS)
    return options


def _set_flags(options: Options, word: str) -> None:
    flags = {"--dump": "d", "--clear": "c", "--last": "L"}.get(word, word[1:])
    for flag in flags:
        if flag == "d":
            options.dump = True
        elif flag == "c":
            options.clear = True
        elif flag == "g":
            options.show_size = True
        elif flag == "s":
            options.default_priority = "S"
        elif flag == "L":
            options.last = options.dump = True
        else:
            raise UsageError(f"logcat: invalid option -- '{word.lstrip('-')}'")


def _set_value(options: Options, what: str, value: str) -> None:
    if what == "buffer":
        _add_buffers(options, value)
    elif what == "format":
        _set_format(options, value)
    elif what in ("tail", "follow"):
        options.tail = value
        options.dump = options.dump or what == "tail"
        _start(value)
    elif what == "size":
        options.set_size = _bytes(value)
    elif what == "regex":
        try:
            options.regex = re.compile(value)
        except re.error as error:
            raise UsageError(f"logcat: bad regular expression: {error}") from None
    elif not value.isdigit():
        raise UsageError(f"logcat: {what} must be a number, not {value!r}")
    elif what == "count":
        options.max_count = int(value)
    else:
        options.pid = int(value)


def _add_buffers(options: Options, value: str) -> None:
    for name in value.split(","):
        if name not in (*BUFFERS, "all", "default"):
            raise UsageError(f"unknown buffer {name}")
        chosen = {"all": BUFFERS, "default": DEFAULT_BUFFERS}.get(name, (name,))
        options.buffers += [one for one in chosen if one not in options.buffers]


def _set_format(options: Options, value: str) -> None:
    for name in value.split(","):
        if name in _MODIFIERS:
            options.modifiers.add(name)
        elif name in FORMATS or name == "long":
            options.format = name
        else:
            raise UsageError(f'Invalid parameter "{name}" to -v')


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    size = int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]] if match else 0
    if not SIZE_MIN <= size <= SIZE_MAX:
        raise UsageError(f"Invalid buffer size {text}: must be between 64K and 256M")
    return size


def _add_filter(options: Options, spec: str) -> None:
    tag, colon, priority = spec.rpartition(":")
    if not colon:
        tag, priority = spec, "V"
    priority = {"": "V", "*": "V"}.get(priority, priority.upper())
    if priority not in PRIORITIES + "S":
        raise UsageError(f"Invalid filter expression '{spec}'")
    if tag in ("*", ""):
        options.default_priority = priority
    else:
        options.filters[tag] = priority


def _start(text: str) -> tuple[int | None, float | None]:
    """-t/-T value: a count of entries, or a moment (s since the epoch)."""
    if text.isdigit():
        return int(text), None
    if re.fullmatch(r"\d+\.\d+", text):
        return None, float(text)
    today = datetime.now().astimezone()
    for prefix in ("", f"{today.year}-", f"{today:%Y-%m-%d} "):
        with contextlib.suppress(ValueError):
            moment = datetime.strptime(prefix + text, "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=today.tzinfo)
            return None, moment.timestamp()
    raise UsageError(f"logcat: {text!r} is neither a count nor a time ('MM-DD hh:mm:ss.mmm')")


async def logcat(call: Call) -> int | None:
    """`logcat [options] [filterspecs]`."""
    options = parse(call.arguments, call.log_tags)
    logd = call.android.logd
    if options.last:
        raise UsageError("logcat: no log of the boot before this one (no pstore)")
    if options.clear or options.set_size is not None or options.show_size:
        await _administer(call, options, logd)
        return None
    await _Reader(call, options, logd).run()
    return None


async def _administer(call: Call, options: Options, logd: Logd) -> None:
    for name in options.buffers:
        ring = logd.rings[name]
        if options.set_size is not None:
            ring.size = options.set_size
            ring.trim()
        if options.clear:
            ring.clear()
        if options.show_size:
            size, used = ring.size >> 10, (ring.used + 1023) >> 10
            consumed = f"({used} KiB consumed, {used} KiB readable), max entry is 5120 B, max payload is 4068 B"
            await call.out(f"{name}: ring buffer is {size} KiB {consumed}\n")


class _Reader:
    """Prints what there is, then (unless dumping) what comes."""

    def __init__(self, call: Call, options: Options, logd: Logd) -> None:
        self._call = call
        self._options = options
        self._logd = logd
        self._begun: set[str] = set()
        self._printed = 0

    async def run(self) -> None:
        sequence = self._logd.last_sequence
        entries = [entry for entry in self._logd.since(self._options.buffers, 0) if self._options.admits(entry)]
        if self._options.tail is not None:
            count, moment = _start(self._options.tail)
            if count is not None:
                entries = entries[len(entries) - count :] if count < len(entries) else entries
            if moment is not None:
                entries = [entry for entry in entries if entry.time_s >= moment]
        await self._print(entries)
        while not self._options.dump and not self._full:
            await self._logd.wait_newer(sequence)
            newer = self._logd.since(self._options.buffers, sequence)
            sequence = self._logd.last_sequence
            await self._print([entry for entry in newer if self._options.admits(entry)])

    @property
    def _full(self) -> bool:
        return self._options.max_count is not None and self._printed >= self._options.max_count

    async def _print(self, entries: list[Entry]) -> None:
        parts: list[str] = []
        for entry in entries:
            if self._full:
                break
            if entry.buffer not in self._begun:
                self._begun.add(entry.buffer)
                parts.append(f"--------- beginning of {entry.buffer}\n")
            parts.append(self._options.render(entry))
            self._printed += 1
        if parts:
            await self._call.out("".join(parts))


async def log(call: Call) -> int | None:
    """`log [-b BUFFER] [-p PRIORITY] [-t TAG] MESSAGE…`, as toybox on Android."""
    priority, tag, buffer = "I", "log", "main"
    words = list(call.arguments)
    while words and words[0].startswith("-") and len(words) > 1:
        option, value = words[0][:2], words[0][2:]
        words.pop(0)
        value = value or words.pop(0)
        if option == "-p" and value[:1].upper() in (*PRIORITIES, "S"):
            priority = "F" if value[:1].upper() == "S" else value[:1].upper()
        elif option == "-t":
            tag = value
        elif option == "-b" and value in BUFFERS:
            buffer = value
        else:
            raise UsageError(f"log: bad {option} '{value}'")
    if not words:
        raise UsageError("usage: log [-p PRI] [-t TAG] MESSAGE...")
    call.android.logd.write(priority, tag, " ".join(words), buffer=buffer, pid=call.pid, uid=2000)
    return None


COMMANDS: dict[str, Handler] = {"logcat": logcat, "log": log}
