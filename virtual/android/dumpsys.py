"""`dumpsys SERVICE`: battery, heat, memory, CPU, power, windows and activities, in Android's shapes, values live."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from virtual.android.calls import Call, Handler, UsageError
from virtual.android.processes import Process, read_process


async def _battery(call: Call) -> str:
    battery = call.android.state()["battery"]
    present = bool(battery)
    rows: list[tuple[str, object]] = [
        ("AC powered", str(not present).lower()),
        ("USB powered", str(present).lower()),
        ("Wireless powered", "false"),
        ("Max charging current", 1500000 if present else 0),
        ("Max charging voltage", 5000000 if present else 0),
        ("Charge counter", battery.get("charge_counter", 0)),
        ("status", battery.get("status", 1)),
        ("health", 2 if present else 1),
        ("present", str(present).lower()),
        ("level", battery.get("level", 0)),
        ("scale", 100),
        ("voltage", battery.get("voltage", 0)),
        ("temperature", battery.get("temperature", 0)),
        ("technology", call.android.profile.battery.technology if call.android.profile.battery else ""),
    ]
    return "Current Battery Service state:\n" + "".join(f"  {name}: {value}\n" for name, value in rows)


async def _thermalservice(call: Call) -> str:
    state, thermal = call.android.state(), call.android.profile.thermal
    status = int(state["thermal_status"])
    temperatures = []
    for zone, (name, value) in zip(thermal.zones, state["zones"], strict=True):
        if zone.android_type is not None:
            severity = status if zone.node == thermal.status_node else 0
            shown = zone.android_name or name
            temperatures.append(
                f"\tTemperature{{mValue={value}, mType={zone.android_type}, mName={shown}, mStatus={severity}}}"
            )
    level = int(state["throttle_level"])
    cooling = [
        f"\tCoolingDevice{{mValue={level}, mType=2, mName=thermal-cpufreq-{index}}}"
        for index in range(len(call.android.profile.cpu.clusters))
    ]
    listeners = ["\tcallbacks: 2", "\tkilled: false", "\tbroadcasts count: -1"]
    lines = ["IsStatusOverride: false", "ThermalEventListeners:", *listeners, "ThermalStatusListeners:", *listeners]
    lines += [f"Thermal Status: {status}", "Cached temperatures:", *temperatures, "HAL Ready: true", "HAL connection:"]
    lines += ["\tThermalHAL AIDL 1  connected: yes", "Current temperatures from HAL:", *temperatures]
    lines += ["Current cooling devices from HAL:", *cooling, "Temperature static thresholds from HAL:"]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class _Usage:
    """kB of one process, from /proc/PID/smaps_rollup."""

    rss: int
    pss: int
    anonymous: int
    private_dirty: int
    private_clean: int
    swap_pss: int


def _memory_of(pid: int) -> _Usage:
    rows = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        key, _, value = line.partition(":")
        rows[key] = int(value.split()[0])
    return _Usage(
        rows["Rss"],
        rows["Pss"],
        rows["Anonymous"],
        rows["Private_Dirty"],
        rows["Private_Clean"],
        rows.get("SwapPss", 0),
    )


def _name_of(pid: int) -> str:
    command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode("utf-8", "replace")
    return command or read_process(pid).name


def _find(call: Call, wanted: str) -> int | None:
    if wanted.isdigit():
        return int(wanted) if Path("/proc", wanted).exists() else None
    for one in call.android.processes.all():
        with contextlib.suppress(OSError):
            if wanted in (one.name, _name_of(one.pid), os.path.basename(_name_of(one.pid))):
                return one.pid
    return None


_MEMINFO_HEAD = """\
                   Pss  Private  Private  SwapPss      Rss     Heap     Heap     Heap
                 Total    Dirty    Clean    Dirty    Total     Size    Alloc     Free
                ------   ------   ------   ------   ------   ------   ------   ------
"""


async def _meminfo(call: Call) -> str:
    wanted = [word for word in call.arguments[1:] if not word.startswith("-")]
    uptime = int((time.monotonic() - call.android.booted_at) * 1000)
    head = f"Applications Memory Usage (in Kilobytes):\nUptime: {uptime} Realtime: {uptime}\n\n"
    if not wanted:
        return head + _meminfo_of_all(call)
    pid = _find(call, wanted[0])
    if pid is None:
        return f"No process found for: {wanted[0]}\n"
    try:
        used, name = _memory_of(pid), _name_of(pid)
    except OSError:
        return f"No process found for: {wanted[0]}\n"
    files = max(0, used.pss - used.anonymous)
    clean = min(used.private_clean, files)
    rows = [
        ("Native Heap", used.anonymous, used.private_dirty, 0, used.swap_pss, used.anonymous),
        ("Other mmap", files, 0, clean, 0, max(0, used.rss - used.anonymous)),
        ("TOTAL", used.pss + used.swap_pss, used.private_dirty, clean, used.swap_pss, used.rss),
    ]
    table = "".join(
        f"{title:>13} {pss:>8} {dirty:>8} {clean_:>8} {swap:>8} {rss:>8}\n"
        for title, pss, dirty, clean_, swap, rss in rows
    )
    summary = (
        "\n App Summary\n"
        "                       Pss(KB)                        Rss(KB)\n"
        "                        ------                         ------\n"
        f"         Native Heap: {used.private_dirty:>8}                       {used.anonymous:>8}\n"
        f"                Code: {clean:>8}                       {max(0, used.rss - used.anonymous):>8}\n"
        f"            Graphics: {0:>8}                       {0:>8}\n\n"
        f"           TOTAL PSS: {used.pss + used.swap_pss:>8}            TOTAL RSS: {used.rss:>8}"
        f"       TOTAL SWAP PSS: {used.swap_pss:>8}\n"
    )
    return f"{head}** MEMINFO in pid {pid} [{name}] **\n{_MEMINFO_HEAD}{table}{summary}"


def _meminfo_of_all(call: Call) -> str:
    rows = []
    for one in call.android.processes.all():
        with contextlib.suppress(OSError):
            rows.append((_memory_of(one.pid).pss, one.pid, _name_of(one.pid)))
    facts = {line.split(":")[0]: int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines()}
    listing = "".join(f"    {pss:>9,}K: {name} (pid {pid})\n" for pss, pid, name in sorted(rows, reverse=True))
    total, free = facts["MemTotal"], facts["MemAvailable"]
    return (
        f"Total PSS by process:\n{listing}\nTotal RAM: {total:>9,}K (status normal)\n"
        f" Free RAM: {free:>9,}K\n Used RAM: {total - free:>9,}K\n Lost RAM: {0:>9,}K\n"
    )


async def _cpuinfo(call: Call) -> str:
    load = " / ".join(Path("/proc/loadavg").read_text().split()[:3])
    rows, total = [], 0.0
    for one in call.android.processes.all():
        with contextlib.suppress(OSError):
            share = 100 * one.cpu_s / max(0.01, _age_s(one))
            total += share
            rows.append((share, f"{one.pid}/{_name_of(one.pid)}: {share:.1f}% user + 0% kernel"))
    lines = "".join(f"  {share:.1f}% {text}\n" for share, text in sorted(rows, reverse=True))
    uptime = int((time.monotonic() - call.android.booted_at) * 1000)
    last = f"{total:.1f}% TOTAL: {total:.1f}% user + 0% kernel\n"
    return f"Load: {load}\nCPU usage from {uptime}ms to 0ms ago:\n{lines}{last}"


def _age_s(process: Process) -> float:
    ticks = os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - process.started / ticks


async def _power(call: Call) -> str:
    screen = call.android.screen_on
    return (
        "POWER MANAGER (dumpsys power)\n\nPower Manager State:\n"
        f"  mWakefulness={'Awake' if screen else 'Asleep'}\n  mIsPowered=true\n"
        f"  mPlugType={2 if call.android.profile.battery else 1}\n  mStayOn={str(call.android.stay_on).lower()}\n"
        f"  mBatteryLevel={call.android.state()['battery'].get('level', 0)}\n"
        f"  mLowPowerModeEnabled=false\n\nDisplay Power: state={'ON' if screen else 'OFF'}\n"
    )


async def _window(call: Call) -> str:
    if call.android.profile.screen is None:
        return "WINDOW MANAGER WINDOWS (dumpsys window windows)\n  (no display)\n"
    focus = "Window{5d1c9e4 u0 com.android.launcher/com.android.launcher.Launcher}"
    screen = call.android.profile.screen
    return (
        "WINDOW MANAGER WINDOWS (dumpsys window windows)\n"
        f"  mCurrentFocus={focus}\n  mFocusedApp=ActivityRecord{{8f1e210 u0 com.android.launcher/.Launcher t2}}\n"
        f"  mDisplayId=0 init={screen.width}x{screen.height} {screen.density}dpi\n"
        f"  mScreenOn={str(call.android.screen_on).lower()}\n"
    )


async def _activity(call: Call) -> str:
    rows = "".join(f"  Proc # 0: fg {one.pid}:{one.name}/u0a0\n" for one in call.android.processes.all())
    return (
        "ACTIVITY MANAGER ACTIVITIES (dumpsys activity activities)\n"
        "  (a virtual device has no activities)\n\n"
        "ACTIVITY MANAGER RUNNING PROCESSES (dumpsys activity processes)\n" + rows
    )


async def _package(call: Call) -> str:
    return "Packages:\n" + "".join(f"  Package [{name}] (0):\n" for name in call.android.profile.packages)


SERVICES: dict[str, Callable[[Call], Awaitable[str]]] = {
    "activity": _activity,
    "battery": _battery,
    "cpuinfo": _cpuinfo,
    "meminfo": _meminfo,
    "package": _package,
    "power": _power,
    "thermalservice": _thermalservice,
    "window": _window,
}


async def dumpsys(call: Call) -> int | None:
    """`dumpsys [-l | SERVICE [arguments]]`."""
    words = call.arguments
    if words[:1] == ["-t"]:
        words = words[2:]
    if not words or words[0] == "-l":
        await call.out("Currently running services:\n" + "".join(f"  {name}\n" for name in SERVICES))
        return None
    service = SERVICES.get(words[0])
    if service is None:
        raise UsageError(f"Can't find service: {words[0]}")
    call.arguments = words
    await call.out(await service(call))
    return None


COMMANDS: dict[str, Handler] = {"dumpsys": dumpsys}
