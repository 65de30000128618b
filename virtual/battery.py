"""A battery on a weak charger: pure arithmetic on charge."""

from __future__ import annotations

from dataclasses import dataclass

from virtual.profiles import Battery

CHARGER_W = 7.5
"""A USB port's: above this load the battery drains although it is plugged in."""
STATUS_CHARGING, STATUS_DISCHARGING, STATUS_FULL = 2, 3, 5
STATUS_NAMES = {STATUS_CHARGING: "Charging", STATUS_DISCHARGING: "Discharging", STATUS_FULL: "Full"}


@dataclass(slots=True)
class BatteryModel:
    """Charge of one battery."""

    battery: Battery
    charge_mah: float
    current_ma: float = 0.0

    @classmethod
    def of(cls, battery: Battery) -> BatteryModel:
        """At its profile's level."""
        return cls(battery, battery.capacity_mah * battery.level_pct / 100)

    def advance(self, load_w: float, dt_s: float) -> None:
        """Lets time pass under this load."""
        volts = self.battery.voltage_mv / 1000
        net_ma = (CHARGER_W - load_w) / volts * 1000
        if self.charge_mah >= self.battery.capacity_mah and net_ma > 0:
            net_ma = 0.0
        self.current_ma = net_ma
        self.charge_mah = min(max(self.charge_mah + net_ma * dt_s / 3600, 0.0), self.battery.capacity_mah)

    @property
    def level_pct(self) -> int:
        """0 to 100."""
        return round(100 * self.charge_mah / self.battery.capacity_mah)

    @property
    def status(self) -> int:
        """Android's BatteryManager status code."""
        if self.level_pct >= 100:
            return STATUS_FULL
        return STATUS_CHARGING if self.current_ma >= 0 else STATUS_DISCHARGING
