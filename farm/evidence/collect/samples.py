"""The sampler's stream → points of named series, in named units.

`farm-devtool sample` (engine/devtool/sample.cpp) and the shell's loop (`runner/sample_loop.py`) write the same lines.
The device sends what its files say; units, plausibility and names are decided here, once for both.

    farm-samples 1 hz=1 page=4096 tick=100 via=tool     first; page: bytes, 0 where not known
    signal KIND NAME                                    one per column of `at`, in order
    fact KIND NAME VALUE                                what does not change: freq_max, swap_total, …
    absent KIND REASON                                  what is there and cannot be read, and why
    at SECONDS V0 V1 …                                  CLOCK_BOOTTIME; `-`: not read this time
    proc SECONDS PID PAGES                              resident pages of a watched process
    rollup SECONDS PID RSS PSS PSS_ANON SWAP            kB, from smaps_rollup, less often
    gone PID                                            it has ended
    cost SHARE hz=HZ                                    the sampler's own CPU time of the last seconds, per second

Numbers that cannot be (a clock of 0, 40 A, −274 °C) are no points. Source of the units: the kernel's
Documentation/ABI/testing (sysfs-class-thermal m°C, sysfs-class-power µA, µV, µW, sysfs-devices-system-cpu kHz,
sysfs-class-devfreq Hz) and Documentation/filesystems/proc.rst (kB of 1024 bytes, clock ticks).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass, field

from farm.evidence import thermal

#: Columns of one stream, processes of one moment, characters of a line: more is not ours.
MAX_SIGNALS, MAX_PROCESSES, MAX_LINE = 2000, 64, 64_000
#: Samples after which a signal that never had a value is absent.
PATIENCE = 5

_LEADING = re.compile(r"-?\d+(?:\.\d+)?")
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")
#: What a kind is called on a page when it is absent.
TITLES: Mapping[str, str] = {
    "temp": "temperature",
    "cooling": "cooling",
    "freq": "cpu_clock",
    "cap": "cpu_cap",
    "load": "load",
    "cpu": "cpu_busy",
    "mem": "memory_available",
    "kills": "oom_kills",
    "current": "battery_current",
    "voltage": "battery_voltage",
    "power": "battery_power",
    "level": "battery_level",
    "gpu": "gpu_busy",
    "npu": "npu_busy",
    "gpu_freq": "gpu_clock",
    "npu_freq": "npu_clock",
}


@dataclass(frozen=True, slots=True)
class Point:
    """One value. `at_s`: the device's seconds since its boot."""

    name: str
    unit: str
    at_s: float
    value: float


@dataclass(slots=True)
class SampleStream:
    """Reads one stream line by line; `feed` gives the points of a line, maybe none. Bounded whatever comes."""

    via: str | None = None  # "tool" or "shell", from the first line; None: no sampler has spoken yet
    hz: float | None = None
    facts: dict[tuple[str, str], str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)  # series name -> reason
    cost: float | None = None  # CPU seconds per second, as the sampler last told
    _page: int = 0
    _samples: int = 0
    _seen: set[str] = field(default_factory=set)
    _columns: list[tuple[str, str]] = field(default_factory=list)
    _jiffies: tuple[float, float] | None = None
    _kills: float | None = None
    _memory: dict[str, float] = field(default_factory=dict)
    _memory_at: float | None = None

    def feed(self, line: str) -> list[Point]:
        """The points of one line."""
        word, _, rest = line[:MAX_LINE].strip().partition(" ")
        if word == "at":
            return [*self._processes(), *self._sample(rest.split())]
        if word in ("proc", "rollup"):
            return self._process(word, rest.split())
        take = {"farm-samples": self._begin, "signal": self._signal, "fact": self._fact, "absent": self._absence}
        if word in take:
            take[word](rest)
        elif word == "cost":
            self.cost = number(rest.partition(" ")[0])
        return []

    def finish(self) -> list[Point]:
        """The points that waited for the end of their moment."""
        return self._processes()

    # ---- the head

    def _begin(self, rest: str) -> None:
        told = dict(item.split("=", 1) for item in rest.split() if "=" in item)
        self.via, self.hz = told.get("via"), number(told.get("hz", ""))
        self._page = int(number(told.get("page", "")) or 0)
        self._columns, self._jiffies, self._kills = [], None, None

    def _signal(self, rest: str) -> None:
        """Two of one name are told apart by a number."""
        kind, _, name = rest.partition(" ")
        name = name or kind
        same = sum(1 for k, n in self._columns if k == kind and n.partition("#")[0] == name)
        if len(self._columns) < MAX_SIGNALS:
            self._columns.append((kind, f"{name}#{same + 1}" if same else name))

    def _fact(self, rest: str) -> None:
        words = rest.split()
        if len(words) == 3 and len(self.facts) < MAX_SIGNALS:
            self.facts[words[0], words[1]] = words[2]

    def _absence(self, rest: str) -> None:
        kind, _, reason = rest.partition(" ")
        if kind in TITLES:
            self.absent[TITLES[kind]] = reason[:200] or "no reason given"

    # ---- a moment

    def _sample(self, words: list[str]) -> list[Point]:
        at = number(words[0]) if words else None
        if at is None:
            return []
        raw: dict[str, dict[str, str]] = {}
        for (kind, name), text in zip(self._columns, words[1:], strict=False):
            if text != "-":
                raw.setdefault(kind, {})[name] = text
        points = [Point(name, unit, at, value) for name, unit, value in self._values(raw)]
        self._seen.update(point.name.partition("/")[0] for point in points)
        self._samples += 1
        if self._samples == PATIENCE:
            self._miss()
        return points

    def _miss(self) -> None:
        """Whatever has had no value is absent, with a reason."""
        columns = {kind for kind, _ in self._columns}
        for kind, title in TITLES.items():
            why = "its file shows no value that can be" if kind in columns else "no such file on this device"
            self.absent.setdefault(title, why)
        for title in self._seen:
            self.absent.pop(title, None)

    def _values(self, raw: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str, float]]:
        yield from _temperatures(raw.get("temp", {}))
        for kind, (title, unit, convert) in _PLAIN.items():
            for name, text in raw.get(kind, {}).items():
                value = convert(number(text))
                if value is not None:
                    yield (title if kind in _SINGLE else f"{title}/{name}"), unit, value
        yield from self._busy_share(raw.get("cpu", {}).get("all"))
        yield from self._swap(number(raw.get("mem", {}).get("SwapFree", "")))
        available = _kilobytes(number(raw.get("mem", {}).get("MemAvailable", "")))
        if available is not None:
            yield "memory_available", "MB", available
        yield from self._killed(number(raw.get("kills", {}).get("oom_kill", "")))
        yield from _power(raw)
        for kind in ("gpu", "npu"):
            shares = (share(text) for text in raw.get(kind, {}).values())
            busy = next((value for value in shares if value is not None), None)
            if busy is not None:
                yield f"{kind}_busy", "%", busy

    def _busy_share(self, text: str | None) -> Iterator[tuple[str, str, float]]:
        """/proc/stat: user, nice, system, idle, iowait, irq, softirq, steal (then guests, which user has already)."""
        ticks = [number(word) for word in (text or "").split(",")][:8]
        known = [tick for tick in ticks if tick is not None]
        if len(known) < 4 or len(known) != len(ticks):
            return
        total, idle = sum(known), known[3] + (known[4] if len(known) > 4 else 0.0)
        before, self._jiffies = self._jiffies, (total, idle)
        if before is not None and total > before[0]:
            busy = 1 - (idle - before[1]) / (total - before[0])
            yield "cpu_busy", "%", round(100 * min(1.0, max(0.0, busy)), 2)

    def _swap(self, free_kb: float | None) -> Iterator[tuple[str, str, float]]:
        total = number(self.facts.get(("swap_total", "SwapTotal"), ""))
        if total == 0:
            self.absent["swap_used"] = "this device has no swap"
        elif total is not None and free_kb is not None and 0 <= free_kb <= total:
            yield "swap_used", "MB", round((total - free_kb) * 1024 / 1e6, 3)

    def _killed(self, count: float | None) -> Iterator[tuple[str, str, float]]:
        """Processes that the kernel's killer took since the stream began."""
        if count is not None:
            self._kills = count if self._kills is None else self._kills
            yield "oom_kills", "processes", count - self._kills

    # ---- processes

    def _process(self, word: str, words: list[str]) -> list[Point]:
        numbers = [number(text) for text in words]
        if len(numbers) < 3 or numbers[0] is None:
            return []
        out = self._processes() if numbers[0] != self._memory_at else []
        self._memory_at = numbers[0]
        pages = numbers[2]
        found = {"rss": pages * self._page if pages is not None and self._page else None}
        if word == "rollup":
            names = ("pss", "pss_anon", "swap")
            found = {k: None if v is None else v * 1024 for k, v in zip(names, numbers[3:6], strict=False)}
        for name, size in found.items():
            if size is not None and size >= 0 and len(self._memory) < MAX_PROCESSES:
                self._memory[name] = self._memory.get(name, 0.0) + size
        return out

    def _processes(self) -> list[Point]:
        """The watched processes of one moment, together."""
        at, memory = self._memory_at, self._memory
        self._memory_at, self._memory = None, {}
        return [] if at is None else [Point(f"engine_{k}", "MB", at, round(v / 1e6, 3)) for k, v in memory.items()]


def number(text: str) -> float | None:
    """The number that a word begins with; None: none, or one that is not finite."""
    found = _LEADING.match(text)
    value = float(found[0]) if found else math.nan
    return value if math.isfinite(value) else None


def share(text: str) -> float | None:
    """Percent of busy time: `12`, `12%`, `12@800000000Hz`, `load:,Core0:,3%,Core1:,9%` (the mean of the cores)."""
    cores = [float(found) for found in _SHARE.findall(text)]
    value = sum(cores) / len(cores) if cores else number(text)
    return value if value is not None and 0 <= value <= 100 else None


def _temperatures(raw: Mapping[str, str]) -> Iterator[tuple[str, str, float]]:
    """The hottest zone of those whose type means something, then each zone."""
    zones = {name: thermal.celsius(value) for name, text in raw.items() if (value := number(text)) is not None}
    known = {name: value for name, value in zones.items() if value is not None}
    told = [value for value in astuple(thermal.summary(known)) if value is not None] or list(known.values())
    if told:
        yield "temperature", "°C", max(told)
    for name, value in known.items():
        yield f"temperature/{name}", "°C", value


def _power(raw: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str, float]]:
    """Battery power: what the driver says, else current × voltage. The sign of a current differs by maker: its size."""
    for battery in sorted({*raw.get("power", {}), *raw.get("current", {})}):
        told = number(raw.get("power", {}).get(battery, ""))
        amperes = _micro(40)(number(raw.get("current", {}).get(battery, "")))
        volts = _micro(60)(number(raw.get("voltage", {}).get(battery, "")))
        watts = _micro(300)(told) if told else None
        if watts is None and amperes is not None and volts is not None:
            watts = amperes * volts
        if watts is not None:
            yield f"battery_power/{battery}", "W", round(abs(watts), 4)


def _scaled(by: float, low: float, high: float) -> Callable[[float | None], float | None]:
    def convert(value: float | None) -> float | None:
        scaled = None if value is None else value * by
        return None if scaled is None or not low <= scaled <= high else round(scaled, 6)

    return convert


def _micro(most: float) -> Callable[[float | None], float | None]:
    return _scaled(1e-6, -most, most)


def _kilobytes(value: float | None) -> float | None:
    return None if value is None or value < 0 else round(value * 1024 / 1e6, 3)


#: kind -> series, unit, how its number becomes one; `_SINGLE` have one column and no name behind the series.
_PLAIN: Mapping[str, tuple[str, str, Callable[[float | None], float | None]]] = {
    "cooling": ("cooling", "steps", _scaled(1, 0, 10_000)),
    "freq": ("cpu_clock", "MHz", _scaled(1e-3, 1, 20_000)),
    "cap": ("cpu_cap", "MHz", _scaled(1e-3, 1, 20_000)),
    "load": ("load", "tasks", _scaled(1, 0, 100_000)),
    "current": ("battery_current", "A", _micro(40)),
    "voltage": ("battery_voltage", "V", _scaled(1e-6, 0.5, 60)),
    "level": ("battery_level", "%", _scaled(1, 0, 100)),
    "gpu_freq": ("gpu_clock", "MHz", _scaled(1e-6, 1, 20_000)),
    "npu_freq": ("npu_clock", "MHz", _scaled(1e-6, 1, 20_000)),
}
_SINGLE = frozenset({"load"})
