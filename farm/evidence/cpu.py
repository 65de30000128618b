"""CPUs: `/proc/cpuinfo`, files below `/sys/devices/system/cpu` (as `path:value` lines), and `lscpu`.

`/proc/cpuinfo` lists only the cores that are online, so its count is a lower bound: `possible` is the device's.
Features are those of the reader's ABI: a 32-bit shell does not see `asimddp`. A feature is False only where a list that
could name it does not.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, replace

from farm.evidence.lines import with_paths

_INFO = re.compile(r"^([A-Za-z][\w ()\-]*?)\s*:\s*(.*?)\s*$")
_SYSFS = re.compile(
    r"^(?:/?sys/devices/system/cpu/|(?=(?:possible|present|online|offline|kernel_max"
    r"|cpu\d+/\S+)\s*:))([\w/]+)\s*:\s*(.*?)\s*$"
)
_LIST = re.compile(r"^\d+(-\d+)?(,\d+(-\d+)?)*$")


@dataclass(frozen=True, slots=True)
class Core:
    """One core of `/proc/cpuinfo`. `implementer` and `part` are Arm's numbers, as printed."""

    number: int
    implementer: str | None = None
    part: str | None = None
    model_name: str | None = None


@dataclass(frozen=True, slots=True)
class Cpu:
    """None: the text does not say. Lists of cores are in the kernel's form, `0-4,8`."""

    processors: int | None = None  # listed, that is online
    possible: str | None = None
    online: str | None = None
    offline: str | None = None
    online_count: int | None = None
    hardware: str | None = None
    dotprod: bool | None = None
    i8mm: bool | None = None
    sve2: bool | None = None
    bf16: bool | None = None
    fp16: bool | None = None
    cores: tuple[Core, ...] = ()
    features: tuple[str, ...] = ()
    max_khz: dict[str, int] = field(default_factory=dict)  # policy or core → the highest step it advertises


def count(cores: str) -> int | None:
    """How many cores a kernel list (`0-4,8`) names."""
    if not _LIST.match(cores):
        return None
    total = 0
    for part in cores.split(","):
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return total if 0 < total <= 4096 else None


def parse(text: str) -> Cpu:
    lines = list(with_paths(text.splitlines()))
    sysfs = {m[1]: m[2] for line in lines if (m := _SYSFS.match(line.strip()))}
    if sysfs:
        return _from_sysfs(sysfs)
    info = [(m[1], m[2]) for line in lines if (m := _INFO.match(line.strip()))]
    if any(key == "CPU(s)" for key, _ in info):
        return _from_lscpu(dict(info))
    return _from_cpuinfo(info)


def _from_sysfs(files: dict[str, str]) -> Cpu:
    online = files.get("online")
    maximum = {}
    for path, value in files.items():
        match = re.fullmatch(r"(?:cpufreq/)?(policy\d+|cpu\d+)(?:/cpufreq)?/cpuinfo_max_freq", path)
        if match and value.isdigit():
            maximum[match[1]] = int(value)
    return Cpu(
        possible=files.get("possible"),
        online=online,
        offline=files.get("offline") or None,
        online_count=count(online) if online else None,
        max_khz=maximum,
    )


def _from_lscpu(info: dict[str, str]) -> Cpu:
    online = info.get("On-line CPU(s) list")
    cpu = Cpu(
        online=online,
        offline=info.get("Off-line CPU(s) list"),
        online_count=count(online) if online else None,
    )
    return _with_features(cpu, tuple(info.get("Flags", "").split()))


def _from_cpuinfo(info: list[tuple[str, str]]) -> Cpu:
    cores: list[dict[str, str]] = []
    hardware = None
    features: tuple[str, ...] = ()
    for key, value in info:
        if key == "processor" and value.isdigit():
            cores.append({"number": value})
        elif key == "Hardware":
            hardware = value or None
        elif key in ("Features", "flags") and not features:
            features = tuple(value.split())
        elif cores:
            cores[-1].setdefault(key, value)
    cpu = Cpu(
        processors=len(cores) or None,
        hardware=hardware,
        cores=tuple(
            Core(int(c["number"]), c.get("CPU implementer"), c.get("CPU part"), c.get("model name")) for c in cores
        ),
    )
    return _with_features(cpu, features)


def _with_features(cpu: Cpu, features: tuple[str, ...]) -> Cpu:
    if "asimd" not in features:  # a 32-bit view, or no Arm: such a list does not name them
        return replace(cpu, features=features)
    return replace(
        cpu,
        features=features,
        dotprod="asimddp" in features,
        i8mm="i8mm" in features,
        sve2="sve2" in features,
        bf16="bf16" in features or "svebf16" in features,
        fp16="asimdhp" in features,
    )


def core(text: str) -> dict[str, object]:
    """The uniform keys of kind `cpu`; unknown ones are null."""
    return dict(asdict(parse(text)))
