"""Whether a device is fit for work, from what it prints and from a virtual one."""

from __future__ import annotations

import pytest

from farm.adb.health import HealthReport, check, judge
from tests.adb.conftest import Phones

NONCE = "0123456789abcdef"
NOW = 1_795_989_794.0
FIT = {
    "boot_id": "cdb23232-b979-4443-b163-e591a2352860",
    "clock": "1795989794.209270536",
    "free": "1048576 4096",
    "zones": "battery 25820\nVIRTUAL-SKIN 26000\nBIG 61000",
    "boot_completed": "1",
    "getprop_exit": "0",
    "battery": "Current Battery Service state:\n  present: true\n  level: 82\n  scale: 100\n  voltage: 4100\n"
    "  temperature: 258\nexit 0",
    "end": "",
}


def _judge(**other: str | None) -> HealthReport:
    answers = {name: other.get(name, text) for name, text in FIT.items()}
    printed = "".join(f"{NONCE} {name}\n{text}\n" for name, text in answers.items() if text is not None)
    return judge(printed, NONCE, NOW)


def test_a_fit_phone_is_fit_with_its_figures() -> None:
    report = _judge()
    assert report.ok
    assert (report.temperature_c, report.temperature_source) == (25.8, "battery")
    assert (report.battery_pct, report.has_battery) == (82, True)
    assert report.free_bytes == 4 << 30
    assert report.clock_skew_s == pytest.approx(0.209, abs=0.001)


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("boot_completed", "", "booting"),
        ("battery", "exit 124", "system server"),
        ("battery", "Current Battery Service state:\n  present: true\n  level: 7\n  voltage: 3500\nexit 0", "7 %"),
        ("free", "10 4096", "40960 bytes"),
        ("boot_id", "", "boot id"),
        ("end", None, "shell"),
    ],
)
def test_what_makes_a_device_unfit_is_said_in_words(name: str, text: str | None, word: str) -> None:
    report = _judge(**{name: text})
    assert not report.ok
    assert any(word in problem for problem in report.problems)


def test_a_board_without_android_is_not_asked_for_a_system_server_or_a_battery() -> None:
    report = _judge(
        getprop_exit="127", boot_completed="", battery="exit 127", zones="soc-thermal 44000\ngpu-thermal 60000"
    )
    assert report.ok
    assert (report.system_server_ok, report.boot_completed, report.has_battery) == (None, None, None)
    assert (report.temperature_c, report.temperature_source) == (44.0, "soc-thermal")


def test_a_board_without_a_battery_has_the_temperature_of_its_chip() -> None:
    text = "Current Battery Service state:\n  present: false\n  level: 0\n  voltage: 0\n  temperature: 0\nexit 0"
    report = _judge(battery=text, zones="soc-thermal 44000")
    assert report.ok
    assert (report.has_battery, report.battery_pct, report.temperature_source) == (False, None, "soc-thermal")


def test_what_cannot_be_measured_is_unknown_and_never_zero() -> None:
    report = _judge(clock="date: bad", free="", zones="", battery="exit 127")
    assert (report.clock_skew_s, report.free_bytes, report.temperature_c, report.battery_pct) == (None,) * 4


def test_a_wrong_clock_and_a_forced_battery_are_notes() -> None:
    battery = FIT["battery"].replace("  present", "  (UPDATES STOPPED -- use 'reset' to restart)\n  present")
    report = _judge(clock="1795989000.0", battery=battery)
    assert report.ok
    assert len(report.notes) == 2
    assert report.temperature_source == "VIRTUAL-SKIN"


def test_a_virtual_phone_is_fit(phone: Phones) -> None:
    report = check(phone().device(), timeout_s=60)
    assert report.ok, report
    assert report.boot_completed
    assert report.system_server_ok
    assert report.has_battery
    assert report.temperature_c is not None


def test_a_virtual_board_has_no_battery(phone: Phones) -> None:
    report = check(phone("rk3568").device(), timeout_s=60)
    assert report.ok, report
    assert report.battery_pct is None
    assert report.temperature_source == "soc-thermal"


def test_a_device_that_is_gone_is_a_report_and_no_exception(phone: Phones) -> None:
    here = phone("rk3568", fresh=True)
    here.fault("unplug")
    report = check(here.device(), timeout_s=30)
    assert not report.ok
    assert report.problems
