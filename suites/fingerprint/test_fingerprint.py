"""What this device is and can do. Facts that stay (they name the device's fingerprint) and figures that vary.

A probe that a device does not allow is skipped with the reason: "not available" is an answer, a guess is none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from runner.suite import Device, Engine, Measure, cpu, memory, thermal

#: Properties that belong to what a device *is*: another value is another series of measurements.
PROPERTIES = (
    "ro.product.model",
    "ro.product.device",
    "ro.product.manufacturer",
    "ro.product.cpu.abilist",
    "ro.soc.manufacturer",
    "ro.soc.model",
    "ro.board.platform",
    "ro.build.fingerprint",
    "ro.build.version.release",
    "ro.build.version.sdk",
    "ro.build.version.security_patch",
    "ro.hardware.egl",
    "ro.hardware.vulkan",
    "ro.farm.virtual",
    "ro.farm.profile",
    "ro.farm.limiter",
)
#: Zones of the thermal subsystem, one `type: temperature` per line.
ZONES = 'for zone in /sys/class/thermal/thermal_zone*; do echo "$(cat $zone/type): $(cat $zone/temp)"; done 2>/dev/null'


def read(device: Device, command: str, what: str) -> str:
    """The output of a command; skips the test, with the reason, where the device does not allow it."""
    result = device.shell(command)
    if result.exit_code != 0 or not result.stdout.strip():
        pytest.skip(f"not available: {what}: {result.stderr.strip() or 'the device prints nothing'}")
    return result.stdout


def probe_tool(engine: Engine, what: str) -> str:
    """The farm's device-side tool, which bundles carry beside their engine."""
    tool = engine.bundle.files.get("farm-devtool")
    if tool is None:
        pytest.skip(f"not available: {what}: the bundle carries no farm-devtool")
    return str(tool)


def test_properties(device: Device, fingerprint: Callable[[Mapping[str, Any]], None]) -> None:
    """Model, chip, build: as the system itself names them."""
    found = device.props()
    if not found:
        pytest.skip("not available: this device has no Android properties")
    kept = {name: found[name] for name in PROPERTIES if found.get(name)}
    assert kept.get("ro.product.model"), f"no model among {len(found)} properties"
    fingerprint({"properties": kept, "kernel": read(device, "uname -r", "kernel version").strip()})


def test_cpu(device: Device, fingerprint: Callable[[Mapping[str, Any]], None]) -> None:
    """Cores, their clusters by highest frequency, and the instructions that engines choose kernels by."""
    found = cpu.parse(read(device, "cat /proc/cpuinfo", "/proc/cpuinfo"))
    frequencies = device.shell("cat /sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq 2>/dev/null").stdout.split()
    clusters: dict[str, int] = {}
    for khz in frequencies:
        clusters[f"{int(khz) // 1000} MHz"] = clusters.get(f"{int(khz) // 1000} MHz", 0) + 1
    assert found.cores, "/proc/cpuinfo lists no processor"
    told = {"cores": len(found.cores), "clusters": clusters, "features": sorted(found.features)}
    fingerprint({"cpu": {key: value for key, value in told.items() if value}})


def test_instructions_that_programs_see(
    device: Device, engine: Engine, fingerprint: Callable[[Mapping[str, Any]], None]
) -> None:
    """What the processor itself tells a native program: on a virtual device that is the host's."""
    tool = probe_tool(engine, "native CPU probe")
    told = json.loads(read(device, f"{tool} probe cpu", "native CPU probe"))
    assert told["page_size"] in (4096, 16384, 65536)
    fingerprint({"native": {key: told[key] for key in ("abi", "machine", "model", "features") if told.get(key)}})


@pytest.mark.measure(slot=False)
def test_page_size(device: Device, measure: Measure, fingerprint: Callable[[Mapping[str, Any]], None]) -> None:
    """4, 16 or 64 KB: engines that map weights must agree with it."""
    size = int(read(device, "getconf PAGE_SIZE 2>/dev/null || getconf PAGESIZE", "page size"))
    assert size in (4096, 16384, 65536)
    fingerprint({"page_size": size})
    measure.record("page_size", size, unit="B")


@pytest.mark.measure(slot=False)
def test_memory(device: Device, measure: Measure, fingerprint: Callable[[Mapping[str, Any]], None]) -> None:
    """How much there is (a fact) and how much an engine can have now (a figure)."""
    found = memory.parse(read(device, "cat /proc/meminfo", "/proc/meminfo"))
    total, available = found.get("MemTotal"), found.get("MemAvailable")
    assert isinstance(total, int)
    assert total > 0
    fingerprint({"memory_total_kb": total})
    measure.record("memory_total", total * 1024 / 1e6, unit="MB")
    if isinstance(available, int) and available > 0:
        measure.record("memory_available", available * 1024 / 1e6, unit="MB", better="higher")


@pytest.mark.measure(slot=False)
def test_storage(device: Device, measure: Measure, fingerprint: Callable[[Mapping[str, Any]], None]) -> None:
    """Where bundles go: size (a fact) and free space (a figure)."""
    lines = read(device, "df -k /data", "file system of /data").splitlines()
    total, _, free = (int(field) for field in lines[-1].split()[1:4])
    fingerprint({"storage_total_kb": total})
    measure.record("storage_total", total * 1024 / 1e6, unit="MB")
    measure.record("storage_free", free * 1024 / 1e6, unit="MB", better="higher")


@pytest.mark.measure(slot=False)
def test_thermal_zones(device: Device, measure: Measure, fingerprint: Callable[[Mapping[str, Any]], None]) -> None:
    """Which sensors there are (a fact) and what they say now (figures)."""
    found = thermal.zones(read(device, ZONES, "thermal zones"))
    if not found:
        pytest.skip("not available: no thermal zone gives a plausible temperature")
    fingerprint({"thermal_zones": sorted(found)})
    for zone, celsius in sorted(found.items()):
        measure.record("zone_temperature", celsius, unit="°C", zone=zone)


def test_memory_bandwidth(device: Device, engine: Engine, measure: Measure) -> None:
    """Copy and triad over arrays far larger than the caches: the ceiling of every decoder."""
    tool = probe_tool(engine, "memory bandwidth")
    told = json.loads(read(device, f"{tool} probe membw --seconds 0.6 --threads 1 --mb 32", "memory bandwidth"))
    for kernel in ("copy", "triad"):
        measure.record("memory_bandwidth", told[kernel], unit="GB/s", better="higher", kernel=kernel, threads=1)
