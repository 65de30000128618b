"""Temperatures of the kernel's thermal zones, in °C by the zone's type.

Zones are chosen by their type name, never by number or position, and a value outside what a device can have is no
value: drivers print °C, tenths and thousandths, −127000, −274000 and 0 for "no sensor". Read are pairs of type and
value, the files' own paths (`grep -H`, `cat` behind a prompt), columns of types and values one after the other, and
`sensors`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from farm.evidence.lines import with_paths

#: °C that a running device can have. Zero and below is what absent sensors say.
PLAUSIBLE_C = (1.0, 150.0)

#: Zones that are looked at; a phone has some 130.
MAX_ZONES = 1_000

_PAIR = re.compile(r"^\s*([A-Za-z][\w.\-+]*)\s*[:=\s]\s*(-?\d+(?:\.\d+)?)\s*(?:°?\s?C|m°?C)?\s*$")
_NAME, _VALUE = re.compile(r"[A-Za-z][\w.\-+]*"), re.compile(r"-?\d+(?:\.\d+)?")
_FILE = re.compile(r"^\S*thermal_zone(\d+)/(type|temp)\s*[:=]\s*(.*)$")
_COLUMN = re.compile(
    r"^\s*(?:/sys/class/thermal/|/sys/devices/virtual/thermal/)?(?:thermal_)?zone\d+\s*[:\s]\s*(?=[A-Z" r"a-z])"
)
_SENSORS_CHIP = re.compile(r"^([\w]+)-(virtual|isa|pci|i2c)-[0-9a-f]+$")
_SENSORS_VALUE = re.compile(r"^temp1:\s+\+?(-?\d+(?:\.\d+)?)\s*°?\s*C")

_CPU = re.compile(r"cpu|core|\b(big|mid|little)\b|^tsens|mtktscpu", re.I)
_GPU = re.compile(r"gpu|\bg3d\b", re.I)
_NPU = re.compile(r"npu|tpu|nsp|\bapu\b", re.I)
_SKIN = re.compile(r"skin|quiet|case_therm|shell", re.I)
_BATTERY = re.compile(r"^(battery|bat|bms|mtktsbattery|type_battery)$", re.I)
_SOC = re.compile(r"^soc[-_]?(thermal|max|$)", re.I)


def plausible(celsius: float) -> bool:
    return math.isfinite(celsius) and PLAUSIBLE_C[0] <= celsius <= PLAUSIBLE_C[1]


def celsius(raw: float) -> float | None:
    """A zone's number in °C: the kernel's unit is thousandths, some drivers print whole degrees. None: no reading."""
    value = raw / 1000 if abs(raw) >= 1000 else raw
    return value if plausible(value) else None


def zones(text: str) -> dict[str, float]:
    """Zone type → °C; what cannot be is left out. Two zones of one type: the hotter."""
    found: dict[str, float] = {}
    chip: str | None = None
    lines = text.splitlines()
    for line in [*_by_zone(with_paths(lines)), *_columns(lines)]:
        if match := _SENSORS_CHIP.match(line.strip()):
            chip = match[1] if match[2] == "virtual" else None
        elif (value := _SENSORS_VALUE.match(line.strip())) and chip:
            _hotter(found, chip, celsius(float(value[1])))
        elif (pair := _PAIR.match(line)) and not pair[1].lower().startswith(("temp", "thermal_zone")):
            _hotter(found, pair[1], celsius(float(pair[2])))
    return found


def _by_zone(lines: Iterable[str]) -> Iterator[str]:
    """`…/thermal_zone3/type:NAME` and `…/thermal_zone3/temp:37000` joined to `NAME: 37000`; other lines as they are."""
    types: dict[str, str] = {}
    values: dict[str, str] = {}
    for line in lines:
        match = _FILE.match(line.strip())
        if match is None:
            yield _COLUMN.sub("", line)
        elif len(types) + len(values) < 2 * MAX_ZONES:
            (types if match[2] == "type" else values).setdefault(match[1], match[3].strip())
    for number, name in types.items():
        if number in values:
            yield f"{name}: {values[number]}"


def _columns(lines: list[str]) -> Iterator[str]:
    """All types, then all values (`cat …/type; cat …/temp`), joined where there are as many of both."""
    words = [line.strip() for line in lines if line.strip()]
    half = len(words) // 2
    names, values = words[:half], words[half:]
    typed = 0 < half <= MAX_ZONES and len(names) == len(values) and all(map(_NAME.fullmatch, names))
    if typed and all(map(_VALUE.fullmatch, values)):
        yield from (f"{name}: {value}" for name, value in zip(names, values, strict=True))


def _hotter(found: dict[str, float], name: str, value: float | None) -> None:
    if value is not None and (name not in found or value > found[name]):
        found[name] = value


def hottest(temperatures: Mapping[str, float], pattern: re.Pattern[str]) -> float | None:
    return max((value for name, value in temperatures.items() if pattern.search(name)), default=None)


@dataclass(frozen=True, slots=True)
class Summary:
    """°C of what the farm asks for; None: no such zone. A chip without CPU zones has its SoC zone."""

    cpu_max_C: float | None = None
    gpu_C: float | None = None
    npu_C: float | None = None
    soc_C: float | None = None
    battery_C: float | None = None
    skin_C: float | None = None


def summary(temperatures: Mapping[str, float]) -> Summary:
    cpu = {n: v for n, v in temperatures.items() if not (_GPU.search(n) or _NPU.search(n))}
    return Summary(
        cpu_max_C=hottest(cpu, _CPU),
        gpu_C=hottest(temperatures, _GPU),
        npu_C=hottest(temperatures, _NPU),
        soc_C=hottest(temperatures, _SOC),
        battery_C=hottest(temperatures, _BATTERY),
        skin_C=hottest(temperatures, _SKIN),
    )


def device_temperature(temperatures: Mapping[str, float]) -> tuple[float, str] | None:
    """The one temperature that decides whether a device without a battery is cool, and the zone that it is from.

    Skin before chip: a chip is hot within a second of any work. None: no zone that means anything.
    """
    for pattern in (_SKIN, _SOC, _CPU):
        known = {name: value for name, value in temperatures.items() if pattern.search(name)}
        if known:
            name = max(known, key=lambda zone: known[zone])
            return known[name], name
    return None


def core(text: str) -> dict[str, object]:
    """The uniform keys of kind `sysfs_thermal`."""
    found = zones(text)
    brief = summary(found)
    named = {
        "cpu_max_C": brief.cpu_max_C,
        "gpu_C": brief.gpu_C,
        "gpu_max_C": brief.gpu_C,
        "npu_C": brief.npu_C,
        "soc_C": brief.soc_C,
        "battery_C": brief.battery_C,
        "skin_C": brief.skin_C,
    }
    return {"C": found, **named}
