"""Sampling during an attempt: what is read, by tool and by shell alike, and that the device is left as it was."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
from pathlib import Path

import pytest

import runner.sample_loop
from farm.evidence.collect.samples import PATIENCE, SampleStream
from runner.sample_loop import command
from runner.sampler import Sampler
from tests.runner.attempts import Attempts, write_pack
from tests.waiting import eventually
from virtual import fleet, sandbox

SUITE = """
import time

def test_first(engine):
    engine.run(prompt_tokens=8, n_predict=64, repeat=60)

def test_second(device):
    end = time.monotonic() + 60
    while time.monotonic() < end and "heat loop" not in device.shell("echo heat loop").stdout:
        pass
    time.sleep(6)
"""
FILES = {
    "sys/class/thermal/thermal_zone0/type": "cpu-thermal",
    "sys/class/thermal/thermal_zone0/temp": "41500",
    "sys/class/thermal/thermal_zone10/type": "gpu thermal",
    "sys/class/thermal/thermal_zone10/temp": "43100",
    "sys/class/thermal/cooling_device0/type": "cpufreq-0",
    "sys/class/thermal/cooling_device0/cur_state": "2",
    "sys/class/thermal/cooling_device0/max_state": "7",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq": "1200000",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq": "1800000",
    "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq": "2000000",
    "sys/class/power_supply/battery/current_now": "-512000",
    "sys/class/power_supply/battery/voltage_now": "4012000",
    "sys/class/power_supply/battery/capacity": "81",
    "sys/class/power_supply/usb/current_now": "500000",
    "sys/class/devfreq/fde60000.gpu/load": "37@800000000Hz",
    "sys/class/devfreq/fde60000.gpu/cur_freq": "800000000",
    "sys/class/devfreq/fdab0000.npu/load": "4@900000000Hz",
    "proc/loadavg": "0.52 0.58 0.59 1/467 12345",
    "proc/uptime": "1234.56 2000.00",
    "proc/stat": "cpu  100 5 50 800 10 1 2 3 0 0\ncpu0 1 1 1 1",
    "proc/meminfo": "MemTotal: 3900000 kB\nMemAvailable:   1900000 kB\nSwapTotal:  1000000 kB\nSwapFree:   750000 kB",
    "proc/vmstat": "nr_free_pages 5\noom_kill 3\nlast 1",
    "proc/77/statm": "5000 2500 100 1 0 400 0",
    "proc/77/smaps_rollup": "00-7f r--p [rollup]\nRss: 10000 kB\nPss:  9000 kB\nPss_Anon: 7000 kB\nSwap: 12 kB",
}
EXPECTED = {
    ("battery_current/battery", -0.512),
    ("battery_level/battery", 81.0),
    ("battery_power/battery", 2.0541),
    ("battery_voltage/battery", 4.012),
    ("cooling/cpufreq-0", 2.0),
    ("cpu_cap/policy0", 1800.0),
    ("cpu_clock/policy0", 1200.0),
    ("engine_pss", 9.216),
    ("engine_pss_anon", 7.168),
    ("engine_rss", 10.24),
    ("engine_swap", 0.012),
    ("gpu_busy", 37.0),
    ("gpu_clock/fde60000.gpu", 800.0),
    ("load", 0.52),
    ("memory_available", 1945.6),
    ("npu_busy", 4.0),
    ("oom_kills", 0.0),
    ("swap_used", 256.0),
    ("temperature", 43.1),
    ("temperature/cpu-thermal", 41.5),
    ("temperature/gpu_thermal", 43.1),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A device's /sys and /proc, small."""
    for name, text in FILES.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return tmp_path / "root"


def argv(kind: str, root: Path, devtool: Path) -> list[str]:
    if kind == "tool":
        return [str(devtool), "sample", "--hz", "10", "--root", str(root)]
    return [sandbox.tool("mksh"), "-c", command(10, 100, str(root))]


@pytest.mark.parametrize("kind", ["tool", "shell"])
def test_tool_and_shell_see_the_same_and_end_with_their_input(kind: str, root: Path, devtool_bin: Path) -> None:
    # The pipe is what ends it; `watch` with nonsense must not matter.
    process = subprocess.Popen(argv(kind, root, devtool_bin), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("watch x;y\nwatch 77\nwatch\n")
    process.stdin.flush()
    stream, found, samples = SampleStream(), [], 0
    for line in process.stdout:
        found += stream.feed(line)
        samples += line.startswith("at ")
        if samples > PATIENCE + 1:
            break
    process.stdin.close()
    process.stdout.read()
    assert process.wait(20) == 0
    found += stream.finish()
    assert {(point.name, point.value) for point in found} == EXPECTED
    assert stream.via == kind
    assert stream.facts["freq_max", "policy0"] == "2000000"
    assert stream.absent == {
        "cpu_busy": "its file shows no value that can be",
        "npu_clock": "no such file on this device",
    }


@pytest.mark.parametrize("kind", ["tool", "shell"])
def test_a_file_that_cannot_be_read_is_absent_with_its_reason(kind: str, root: Path, devtool_bin: Path) -> None:
    (root / "sys/class/power_supply/battery/current_now").unlink()
    (root / "sys/class/power_supply/battery/current_now").mkdir()  # opens for nobody, root included
    process = subprocess.Popen(argv(kind, root, devtool_bin), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    stream, samples = SampleStream(), 0
    for line in process.stdout:
        stream.feed(line)
        samples += line.startswith("at ")
        if samples > PATIENCE:
            break
    process.stdin.close()
    process.stdout.read()
    process.wait(20)
    assert "battery_current" in stream.absent


def test_an_attempt_has_its_device_s_series_and_the_sampler_ends_with_it(
    attempts: Attempts, phone: fleet.Running, tmp_path: Path
) -> None:
    attempt = attempts.make(phone, write_pack(tmp_path / "pack", {"s/test_heat.py": SUITE}), "s")
    assert attempt.run().fields["outcome"] == "passed"
    records = attempt.records("series")
    assert {record.fields["device"] for record in records} == {phone.serial}
    series: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for record in records:
        points = zip(record.fields["t"], record.fields["values"], strict=True)
        series.setdefault((record.fields["name"], record.fields["unit"]), []).extend(points)
    for points_of_one in series.values():
        assert all(later[0] > earlier[0] for earlier, later in itertools.pairwise(points_of_one))
        assert all(math.isfinite(value) for _, value in points_of_one)
    heat = series["temperature", "°C"]
    assert len(heat) >= 3
    assert all(1 < value < 150 for _, value in heat)
    names = {name.partition("/")[0] for name, _ in series}
    wanted = {"cpu_clock", "cpu_cap", "cpu_busy", "load", "memory_available", "battery_power", "oom_kills", "gpu_busy"}
    assert wanted <= names
    assert max(value for _, value in series["engine_rss", "MB"]) > 1
    assert max(value for _, value in series["engine_pss", "MB"]) > 1
    [told] = attempt.records("sampler")
    assert (told.fields["via"], told.fields["device"]) == ("tool", phone.serial)
    assert told.fields["absent"]["npu_busy"] == "no such file on this device"
    assert attempt.records()[-1].kind == "end"
    device = attempts.device(phone)
    eventually(lambda: "devtool sample" not in device.shell("ps -A -o ARGS").stdout, what="the sampler to be gone")


def test_a_tool_that_does_not_run_is_replaced_by_the_shell_s_loop_which_says_why(
    attempts: Attempts, phone: fleet.Running
) -> None:
    said: list[tuple[str, dict[str, object]]] = []
    device = attempts.device(phone)
    sampler = Sampler(device, phone.serial, lambda kind, **f: said.append((kind, f)), "/data/local/tmp/none", hz=5)
    sampler.start()
    eventually(lambda: any(kind == "sampler" for kind, _ in said), what="the shell's loop")
    sampler.stop()
    [told] = [fields for kind, fields in said if kind == "sampler"]
    assert told["via"] == "shell"
    assert "does not run here" in str(told["why"])
    names = {str(fields["name"]) for kind, fields in said if kind == "series"}
    assert {"temperature", "memory_available", "cpu_cap/policy0"} <= names
    count = len(said)
    eventually(lambda: "thermal_zone" not in device.shell("ps -A -o ARGS").stdout, what="the loop to be gone")
    assert len(said) == count


def test_a_device_without_thermal_zones_has_no_temperature_and_not_a_wrong_one(
    attempts: Attempts, phone: fleet.Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = runner.sample_loop._LOOP.replace("class/thermal", f"none-{os.getpid()}")
    monkeypatch.setattr(runner.sample_loop, "_LOOP", loop)
    said: list[tuple[str, dict[str, object]]] = []
    sampler = Sampler(attempts.device(phone), phone.serial, lambda kind, **f: said.append((kind, f)), None, hz=5)
    sampler.start()
    eventually(lambda: any(kind == "sampler" for kind, _ in said), what="the sampler's word")
    sampler.stop()
    assert not any("temperature" in str(fields.get("name")) for _, fields in said)
    [told] = [fields for kind, fields in said if kind == "sampler"]
    assert told["absent"]["temperature"] == "no such file on this device"  # type: ignore[index]
