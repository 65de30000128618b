"""`dumpsys battery`: level, temperature, voltage, and whether to believe them.

The service prints tenths of a degree and millivolts; board drivers that print whole degrees and volts, and batteries
that are not there, are common: see `temperature_plausible`, `voltage_plausible`, `has_battery`. Source of the format:
AOSP `BatteryService.dumpInternal`.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

_LINE = re.compile(r"^\s*([A-Za-z][\w ]*?)\s*:\s*(.*?)\s*$")
_STOPPED = re.compile(r"UPDATES STOPPED")
#: What a battery in a device can have; outside it is a driver's mistake.
PLAUSIBLE_C = (-20.0, 90.0)
PLAUSIBLE_MV = (2500, 20_000)
#: A sensor below this, in a room with people, with the voltage wrong as well, speaks whole degrees.
_SUSPICIOUS_C = 5.0


@dataclass(frozen=True, slots=True)
class Battery:
    """None: the text does not say. `current_now_mA` and the blocks of vendors are theirs, not Android's."""

    ac: bool | None = None
    usb: bool | None = None
    wireless: bool | None = None
    dock: bool | None = None
    level_pct: int | None = None
    temperature_C: float | None = None
    voltage_mV: int | None = None
    status_code: int | None = None
    health_code: int | None = None
    present: bool | None = None
    charge_counter_uAh: int | None = None
    current_now_mA: int | None = None
    max_charging_current_uA: int | None = None
    max_charging_voltage_uV: int | None = None
    technology: str | None = None
    temperature_plausible: bool | None = None
    voltage_plausible: bool | None = None
    updates_stopped: bool = False  # forced by a test: nothing here is the hardware's
    temperature_raw: int | None = None  # as printed, where it is no temperature that a battery can have
    voltage_raw: int | None = None

    @property
    def has_battery(self) -> bool | None:
        """False: there is none, or the driver invents it. None: unknown."""
        if self.present is False:
            return False
        if self.temperature_plausible is False and self.voltage_plausible is False:
            return False
        if self.present is None and self.level_pct is None:
            return None
        return not (self.level_pct == 0 and not self.voltage_mV)

    @property
    def believable_temperature_C(self) -> float | None:
        """Degrees Celsius of a battery that exists, from a driver that knows its unit, not forced by a test."""
        if self.updates_stopped or self.has_battery is not True or not self.temperature_plausible:
            return None
        return self.temperature_C


def parse(text: str) -> Battery:
    raw = _raw(text)
    level, scale = _int(raw.get("level")), _int(raw.get("scale")) or 100
    tenths, millivolts = _int(raw.get("temperature")), _int(raw.get("voltage"))
    temperature = None if tenths is None else round(tenths / 10, 1)
    voltage_fits = None if millivolts is None else PLAUSIBLE_MV[0] <= millivolts <= PLAUSIBLE_MV[1]
    return Battery(
        ac=_bool(raw.get("AC powered")),
        usb=_bool(raw.get("USB powered")),
        wireless=_bool(raw.get("Wireless powered")),
        dock=_bool(raw.get("Dock powered")),
        level_pct=_percent(level, scale),
        temperature_C=temperature if temperature is not None and _in(temperature, PLAUSIBLE_C) else None,
        voltage_mV=millivolts if voltage_fits else None,
        status_code=_int(raw.get("status")),
        health_code=_int(raw.get("health")),
        present=_bool(raw.get("present")),
        charge_counter_uAh=_int(raw.get("Charge counter")) or None,  # 0: not supported
        current_now_mA=_int(raw.get("current now")),
        max_charging_current_uA=_int(raw.get("Max charging current")),
        max_charging_voltage_uV=_int(raw.get("Max charging voltage")),
        technology=raw.get("technology") or None,
        temperature_plausible=_temperature_fits(temperature, voltage_fits),
        voltage_plausible=voltage_fits,
        updates_stopped=bool(_STOPPED.search(text)),
        temperature_raw=tenths if temperature is not None and not _in(temperature, PLAUSIBLE_C) else None,
        voltage_raw=millivolts if voltage_fits is False else None,
    )


def _raw(text: str) -> dict[str, str]:
    """The service's own keys, each from its first line: vendors' blocks behind repeat some with other meanings."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if match := _LINE.match(line):
            found.setdefault(match[1], match[2])
    return found


def _percent(level: int | None, scale: int) -> int | None:
    """None for a level outside its scale: some boards without a battery print −1 or 255."""
    return round(level * 100 / scale) if level is not None and 0 <= level <= scale else None


def _in(value: float, bounds: tuple[float, float]) -> bool:
    return bounds[0] <= value <= bounds[1]


def _temperature_fits(celsius: float | None, voltage_fits: bool | None) -> bool | None:
    if celsius is None:
        return None
    if not _in(celsius, PLAUSIBLE_C):
        return False
    return not (voltage_fits is False and celsius < _SUSPICIOUS_C)


def _int(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"-?\d{1,12}", text) else None


def _bool(text: str | None) -> bool | None:
    return {"true": True, "false": False}.get((text or "").lower())


def core(text: str) -> dict[str, object]:
    """The uniform keys of kind `dumpsys_battery`; unknown ones are null."""
    return dict(asdict(parse(text)))
