"""Temperatures: the kernel's thermal zones, and Android's thermal service.

Zones are chosen by their type name, never by number or position, and a value outside what a device can have is no
value: drivers print °C, tenths and thousandths, −127000, −274000 and 0 for "no sensor". The thermal service lists
voltages, currents and percentages among its temperatures (mType 6, 7, 8), and old readings beside live ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: °C that a running device can have. Zero and below is what absent sensors say.
PLAUSIBLE_C = (1.0, 150.0)

_PAIR = re.compile(r"^\s*([A-Za-z][\w.\-+]*)\s*[:\s]\s*(-?\d+(?:\.\d+)?)\s*$")
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
    """`type: value` or `type value` per line, or the output of `sensors`, → zone type → °C; what cannot be is left out.

    Two zones of one type: the hotter.
    """
    found: dict[str, float] = {}
    chip: str | None = None
    for line in text.splitlines():
        if match := _SENSORS_CHIP.match(line.strip()):
            chip = match[1] if match[2] == "virtual" else None
        elif (value := _SENSORS_VALUE.match(line.strip())) and chip:
            _hotter(found, chip, celsius(float(value[1])))
        elif (pair := _PAIR.match(line)) and not pair[1].lower().startswith("temp"):
            _hotter(found, pair[1], celsius(float(pair[2])))
    return found


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


# ---- dumpsys thermalservice ----

_ENTRY = re.compile(r"Temperature\{mValue=([^,]+), mType=(-?\d+), mName=([^,]+), mStatus=(\d+)\}")
_COOLING = re.compile(r"CoolingDevice\{mValue=(\d+), mType=(\d+), mName=([^}]+)\}")
_CPU_TYPE, _GPU_TYPE, _BATTERY_TYPE, _SKIN_TYPE, _NPU_TYPE = 0, 1, 2, 3, 9
_NOT_TEMPERATURES = {6, 7, 8}  # battery current limiter: millivolts or volts, milliamperes or amperes, per cent
#: Samsung's Android 10 counts types differently and says in the name what it means.
_TYPED_NAME = {"TYPE_CPU": 0, "TYPE_GPU": 1, "TYPE_BATTERY": 2, "TYPE_SKIN": 3, "TYPE_USB_PORT": 4}


@dataclass(frozen=True, slots=True)
class Reading:
    """One entry. `kind`: Android's TemperatureType (0 CPU, 1 GPU, 2 battery, 3 skin, 4 USB port, 9 NPU, −1 unknown)."""

    name: str
    kind: int
    celsius: float
    throttling: int  # 0 none … 6 shutdown


@dataclass(frozen=True, slots=True)
class ThermalService:
    """`status` 0 means "not throttled" only while `hal_ready`. `live` None: there is no such section."""

    status: int | None = None
    hal_ready: bool | None = None
    status_overridden: bool = False
    live: tuple[Reading, ...] | None = None
    live_count: int | None = None  # with the entries that are no temperatures
    cached: tuple[Reading, ...] = ()
    cooling: dict[str, int] = field(default_factory=dict)

    def live_max(self, kind: int) -> float | None:
        return _max(self.live or (), kind)

    def cached_max(self, kind: int) -> float | None:
        return _max(self.cached, kind)


def parse_service(text: str) -> ThermalService:
    sections = _sections(text)
    live = sections.get("Current temperatures from HAL")
    status = re.search(r"^\s*Thermal Status:\s*(\d+)", text, re.M)
    ready = re.search(r"^\s*HAL Ready:\s*(true|false)", text, re.M)
    overridden = re.search(r"^\s*IsStatusOverride:\s*true", text, re.M)
    return ThermalService(
        status=int(status[1]) if status else None,
        hal_ready=ready[1] == "true" if ready else None,
        status_overridden=bool(overridden),
        live=None if live is None else tuple(_readings(live)),
        live_count=None if live is None else sum(1 for line in live if _ENTRY.search(line)),
        cached=tuple(_readings(sections.get("Cached temperatures", []))),
        cooling={m[3]: int(m[1]) for line in text.splitlines() if (m := _COOLING.search(line))},
    )


def _sections(text: str) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.endswith(":") and "{" not in stripped:
            current = sections.setdefault(stripped[:-1], [])
        else:
            current.append(stripped)
    return sections


def _readings(lines: Iterable[str]) -> Iterable[Reading]:
    for line in lines:
        if match := _ENTRY.search(line):
            kind = _TYPED_NAME.get(match[3], -1 if match[3].startswith("TYPE_") else int(match[2]))
            try:
                value = float(match[1])
            except ValueError:
                continue
            if kind not in _NOT_TEMPERATURES and plausible(value):
                yield Reading(match[3], kind, value, int(match[4]))


def _max(readings: Iterable[Reading], kind: int) -> float | None:
    return max((reading.celsius for reading in readings if reading.kind == kind), default=None)


def service_core(text: str) -> dict[str, object]:
    """The uniform keys of kind `thermalservice`."""
    service = parse_service(text)
    return {
        "thermal_status": service.status,
        "hal_ready": service.hal_ready,
        "skin_C": service.live_max(_SKIN_TYPE),
        "battery_C": service.live_max(_BATTERY_TYPE),
        "cpu_max_C": service.live_max(_CPU_TYPE),
        "gpu_C": service.live_max(_GPU_TYPE),
        "npu_C": service.live_max(_NPU_TYPE),
        "cached_skin_C": service.cached_max(_SKIN_TYPE),
        "cached_battery_C": service.cached_max(_BATTERY_TYPE),
        "current_hal_count": service.live_count,
    }
