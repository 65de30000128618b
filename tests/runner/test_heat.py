"""The temperature during an attempt: what is read, and that the device is left as it was."""

from __future__ import annotations

import itertools
import math
import os
from pathlib import Path

import pytest

from runner.heat import hottest
from tests.runner.attempts import Attempts, write_pack
from tests.waiting import eventually
from virtual import fleet

TYPES = {"0": "cpu-big", "1": "battery", "2": "usb-port-fault", "3": "gpu0"}
SUITE = """
import time

def test_first(device):
    time.sleep(3)

def test_second(device):
    end = time.monotonic() + 60
    while time.monotonic() < end and "heat loop" not in device.shell("echo heat loop").stdout:
        pass
    time.sleep(3)
"""


@pytest.mark.parametrize(
    ("line", "celsius"),
    [
        ("at 0:41000 1:31500", 41.0),
        ("at 0:41000 1:31500 3:55250", 55.25),
        ("at 0:-274000 1:31500", 31.5),
        ("at 0: 1:31500", 31.5),
        ("at 0:0 1:0", None),
        ("at 2:99000 1:31500", 31.5),  # a type that means something goes before one that nobody knows
        ("at 2:45000", 45.0),
        ("at 9:99000", None),
        ("at", None),
        ("at 0:much 1:NaN x 7", None),
    ],
)
def test_the_hottest_zone_that_means_something_is_the_temperature(line: str, celsius: float | None) -> None:
    assert hottest(TYPES, line) == celsius


def test_an_attempt_has_a_temperature_about_every_second_and_the_loop_ends_with_it(
    attempts: Attempts, phone: fleet.Running, tmp_path: Path
) -> None:
    attempt = attempts.make(phone, write_pack(tmp_path / "pack", {"s/test_heat.py": SUITE}), "s")
    assert attempt.run().fields["outcome"] == "passed"
    chunks = attempt.records("series", name="temperature")
    assert {record.fields["unit"] for record in chunks} == {"°C"}
    assert {record.fields["device"] for record in chunks} == {phone.serial}
    points = [point for record in chunks for point in zip(record.fields["t"], record.fields["values"], strict=True)]
    assert len(points) >= 3, points
    assert all(later[0] > earlier[0] for earlier, later in itertools.pairwise(points))
    assert all(math.isfinite(value) and 1 < value < 150 for _, value in points)
    assert attempt.records()[-1].kind == "end"
    device = attempts.device(phone)
    eventually(lambda: "thermal_zone" not in device.shell("ps -A -o ARGS").stdout, what="the loop to be gone")


def test_a_device_without_thermal_zones_has_no_temperature_and_not_a_wrong_one(
    attempts: Attempts, phone: fleet.Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import runner.heat
    from runner.heat import Heat

    monkeypatch.setattr(runner.heat, "_LOOP", runner.heat._LOOP.replace("/sys/class/thermal", f"/none-{os.getpid()}"))
    said: list[object] = []
    heat = Heat(attempts.device(phone), phone.serial, lambda *a, **k: said.append((a, k)))
    heat.start()
    eventually(lambda: heat._process is not None and heat._process.pid is not None)
    heat.stop()
    assert said == []
