"""When a device that answers must not be given work: battery, heat, storage; and what is only worth a warning.

The figures are those that device labs have settled on. A battery below 20 % stops work, and work begins again at 80 %,
not at 21: a device that hovers at the limit would stop every run in the middle. A cell that stays between 40 and 80 %
lives longest. A battery at 45 °C or more for a quarter of an hour stops work and holds the device until it is 5 °C
below; a device without a battery goes by its chip, which runs warmer by nature: 85 °C, where the kernel's own
throttling has failed to hold it. What was not measured stops nothing.

Memory between two readings is two facts: since when the battery waits to be charged, since when it is hot.
"""

from __future__ import annotations

from datetime import datetime, timedelta

#: No work starts below this charge, percent. A board without a battery has none to be low.
MIN_BATTERY_PCT = 20
#: After that, work starts again from here.
RESUME_BATTERY_PCT = 80
#: Where a charger should keep a cell that is always plugged in, percent.
CHARGE_WINDOW_PCT = (40, 80)
#: Hot: of a battery, and of a chip where there is no battery.
HOT_C = 45.0
HOT_CHIP_C = 85.0
#: Hot for so long, work stops and the device is held; until it is so much cooler.
HOT_FOR = timedelta(minutes=15)
COOLED_BY_C = 5.0
#: Below this nothing can be deployed.
MIN_FREE_BYTES = 64 << 20
#: Logs of host and device cannot be laid side by side beyond this difference of their clocks.
MAX_CLOCK_SKEW_S = 5.0


def hot_from_c(has_battery: bool | None) -> float:
    """The temperature from which this device counts as hot."""
    return HOT_C if has_battery else HOT_CHIP_C


def hot_since(
    celsius: float | None, has_battery: bool | None, since: datetime | None, now: datetime
) -> datetime | None:
    """Since when the device is hot, after this reading. A held device stays hot until it has cooled by 5 °C."""
    if celsius is None:
        return since
    limit = hot_from_c(has_battery)
    if celsius >= limit:
        return since or now
    held = since is not None and now - since >= HOT_FOR
    return since if held and celsius > limit - COOLED_BY_C else None


def is_held_hot(since: datetime | None, now: datetime) -> bool:
    """Whether the heat has lasted so long that work stops."""
    return since is not None and now - since >= HOT_FOR


def low_since(pct: int | None, has_battery: bool | None, since: datetime | None, now: datetime) -> datetime | None:
    """Since when the device waits to be charged, after this reading; None: it does not."""
    if has_battery is False:
        return None
    if pct is None:
        return since
    if pct < MIN_BATTERY_PCT:
        return since or now
    return since if pct < RESUME_BATTERY_PCT else None


def heat_words(celsius: float | None, has_battery: bool | None) -> str:
    limit = hot_from_c(has_battery)
    figure = "not measured" if celsius is None else f"{celsius:.0f} °C"
    lasted = f"{limit:g} °C or more for {int(HOT_FOR.total_seconds() // 60)} min"
    return f"held for heat: {lasted}; goes on below {limit - COOLED_BY_C:g} °C (now {figure})"


def battery_words(pct: int | None) -> str:
    figure = "not measured" if pct is None else f"{pct} %"
    fell = "is" if pct is not None and pct < MIN_BATTERY_PCT else "was"
    return f"its battery {fell} below {MIN_BATTERY_PCT} %; goes on at {RESUME_BATTERY_PCT} % (now {figure})"


def storage_words(free_bytes: int) -> str:
    floor = f"{MIN_FREE_BYTES / 1e6:.0f} MB"
    return f"only {free_bytes / 1e6:.1f} MB are free in /data/local/tmp, below {floor}: free some"


def is_full(free_bytes: int | None) -> bool:
    return free_bytes is not None and free_bytes < MIN_FREE_BYTES


def host_words(free_bytes: int | None, folder: str, floor_bytes: int) -> str | None:
    """Why a host must not be given work: every attempt writes its journal and logs there. None: nothing is known.

    In steps of 10 MB: everybody who waits is told anew when the words change.
    """
    if free_bytes is None or free_bytes >= floor_bytes:
        return None
    tens = free_bytes // 10**7 * 10
    room = f"about {tens} MB" if tens else "less than 10 MB"
    return f"{room} are free in {folder}, below {floor_bytes / 1e6:.0f} MB: free some"


def warnings(clock_skew_s: float | None, battery_pct: int | None) -> list[str]:
    """What a person should know and no work waits for."""
    found = []
    if clock_skew_s is not None and abs(clock_skew_s) > MAX_CLOCK_SKEW_S:
        found.append(f"its clock is {clock_skew_s:+.1f} s off its host's (more than {MAX_CLOCK_SKEW_S:g} s): set it")
    low, high = CHARGE_WINDOW_PCT
    if battery_pct is not None and battery_pct > high:
        found.append(f"its battery is kept at {battery_pct} %: a cell lives longest between {low} and {high} %")
    return found
