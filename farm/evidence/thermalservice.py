"""`dumpsys thermalservice`: what Android's thermal HAL reports, live and cached, with the overall status.

The service lists voltages, currents and percentages among its temperatures (mType 6, 7, 8), and old readings beside
live ones. Thermal status 0 means "not throttled" only while the HAL is ready. Values are °C. Source of the format:
AOSP `ThermalManagerService.dumpInternal`, `Temperature.toString` (Android 10 to 16).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from farm.evidence.thermal import plausible

_ENTRY = re.compile(r"Temperature\{mValue=([^,]+), mType=(-?\d+), mName=([^,]+), mStatus=(\d+)\}")
#: The same in the HAL's own words, as Android 10 prints it on some devices.
_HIDL_ENTRY = re.compile(r"\{\.type = (\w+), \.name = ([^,]+), \.value = ([^,}]+)(?:, \.throttlingStatus = (\w+))?")
_HIDL_TYPES = {
    "CPU": 0,
    "GPU": 1,
    "BATTERY": 2,
    "SKIN": 3,
    "USB_PORT": 4,
    "POWER_AMPLIFIER": 5,
    "BCL_VOLTAGE": 6,
    "BCL_CURRENT": 7,
    "BCL_PERCENTAGE": 8,
    "NPU": 9,
}
_HIDL_STATUS = ("NONE", "LIGHT", "MODERATE", "SEVERE", "CRITICAL", "EMERGENCY", "SHUTDOWN")
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


def parse(text: str) -> ThermalService:
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
        live_count=None if live is None else sum(1 for line in live if _ENTRY.search(line) or _HIDL_ENTRY.search(line)),
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
        if (entry := _entry(line)) is None:
            continue
        name, kind, value, status = entry
        try:
            celsius = float(value)
        except ValueError:
            continue
        if kind not in _NOT_TEMPERATURES and plausible(celsius):
            yield Reading(name, kind, celsius, status)


def _entry(line: str) -> tuple[str, int, str, int] | None:
    """(name, Android's type, value as printed, throttling status)."""
    if match := _ENTRY.search(line):
        kind = _TYPED_NAME.get(match[3], -1 if match[3].startswith("TYPE_") else int(match[2]))
        return match[3], kind, match[1], int(match[4])
    if match := _HIDL_ENTRY.search(line):
        status = _HIDL_STATUS.index(match[4]) if match[4] in _HIDL_STATUS else 0
        return match[2], _HIDL_TYPES.get(match[1], -1), match[3], status
    return None


def _max(readings: Iterable[Reading], kind: int) -> float | None:
    return max((reading.celsius for reading in readings if reading.kind == kind), default=None)


def core(text: str) -> dict[str, object]:
    """The uniform keys of kind `thermalservice`."""
    service = parse(text)
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
