"""The files through which the kernel would show the hardware: /sys and the overlays of /proc, kept live.

They are written in place with one pwrite each, as the sandbox has bound their inodes.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

from virtual.profiles import Profile


class LiveFile:
    """A small text file that is rewritten in place when its content changes."""

    def __init__(self, path: Path, mode: int = 0o444) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        self._length = 0
        self._text = ""

    def set(self, text: str) -> None:
        """The new content."""
        if text == self._text:
            return
        data = text.encode()
        os.pwrite(self._fd, data, 0)
        if len(data) < self._length:
            os.ftruncate(self._fd, len(data))
        self._text, self._length = text, len(data)


def fixed(path: Path, text: str) -> None:
    """A file that never changes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def cpuinfo(profile: Profile) -> str:
    """/proc/cpuinfo of the imitated chip, and one line that says what really runs."""
    blocks = []
    for cluster in profile.cpu.clusters:
        for core in cluster.cores:
            blocks.append(
                f"processor\t: {core}\nBogoMIPS\t: 49.15\nFeatures\t: {cluster.features}\n"
                f"CPU implementer\t: {cluster.implementer}\nCPU architecture: 8\nCPU variant\t: 0x1\n"
                f"CPU part\t: {cluster.part}\nCPU revision\t: 0\n\n"
            )
    return "".join(blocks) + f"Hardware\t: virtual {profile.title} on {os.uname().machine}\n"


def meminfo(profile: Profile, used_by_workload_kb: int) -> str:
    """/proc/meminfo: fixed-width lines, so that the size never changes."""
    total = profile.memory.total_mb * 1024
    left = max(0, total - profile.memory.system_mb * 1024 - used_by_workload_kb)
    swap = profile.memory.swap_mb * 1024
    rows = {
        "MemTotal": total,
        "MemFree": left * 4 // 10,
        "MemAvailable": left,
        "Buffers": 1184,
        "Cached": left * 55 // 100,
        "SwapCached": 0,
        "AnonPages": used_by_workload_kb,
        "SwapTotal": swap,
        "SwapFree": swap,
    }
    return "".join(f"{name + ':':<16}{value:>8} kB\n" for name, value in rows.items())


#: Minutes over which the kernel's three load averages look back.
LOAD_MINUTES = (1, 5, 15)
#: Clock ticks of /proc/stat, per second.
TICKS_PER_S = 100


class Load:
    """/proc/stat and /proc/loadavg of the imitated cores, from the share of them that the workload keeps busy."""

    def __init__(self, cores: int, now: float) -> None:
        self._cores, self._at = cores, now
        self._busy_s = self._idle_s = 0.0
        self._averages = [0.0] * len(LOAD_MINUTES)

    def advance(self, busy_share: float, now: float) -> None:
        """Lets time pass in which this share (0 to 1) of all cores was busy."""
        elapsed, self._at = max(0.0, now - self._at), now
        busy = min(1.0, max(0.0, busy_share)) * self._cores
        self._busy_s += busy * elapsed
        self._idle_s += (self._cores - busy) * elapsed
        for index, minutes in enumerate(LOAD_MINUTES):
            keep = math.exp(-elapsed / (60 * minutes))
            self._averages[index] = self._averages[index] * keep + busy * (1 - keep)

    def stat(self) -> str:
        busy, idle = round(self._busy_s * TICKS_PER_S), round(self._idle_s * TICKS_PER_S)
        each = "".join(
            f"cpu{core} {busy // self._cores} 0 0 {idle // self._cores} 0 0 0 0 0 0\n" for core in range(self._cores)
        )
        return f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\n{each}"

    def loadavg(self) -> str:
        return " ".join(f"{average:.2f}" for average in self._averages) + " 1/1 1\n"


class Sysfs:
    """All live files of one device below `folder` (sys/ and hardware/proc/)."""

    def __init__(self, folder: Path, profile: Profile) -> None:
        self._profile = profile
        sys = folder / "sys"
        self._zones: list[LiveFile] = []
        for index, zone in enumerate(profile.thermal.zones):
            base = sys / "class" / "thermal" / f"thermal_zone{index}"
            fixed(base / "type", zone.type + "\n")
            self._zones.append(LiveFile(base / "temp"))
        self._cooling: list[LiveFile] = []
        self._frequencies: list[tuple[list[int], LiveFile, LiveFile]] = []
        for index, cluster in enumerate(profile.cpu.clusters):
            base = sys / "class" / "thermal" / f"cooling_device{index}"
            fixed(base / "type", f"thermal-cpufreq-{index}\n")
            fixed(base / "max_state", f"{len(cluster.frequencies_khz) - 1}\n")
            self._cooling.append(LiveFile(base / "cur_state"))
            self._add_policy(sys, cluster.cores, cluster.frequencies_khz)
        self._add_topology(sys)
        self._battery = self._add_battery(sys)
        if profile.gpu is not None:
            fixed(sys / profile.gpu.node, profile.gpu.idle + "\n")
        proc = folder / "hardware" / "proc"
        self.boot_id = LiveFile(proc / "boot_id")
        self._meminfo = LiveFile(proc / "meminfo")
        self._uptime = LiveFile(proc / "uptime")
        self._stat, self._loadavg = LiveFile(proc / "stat"), LiveFile(proc / "loadavg")
        self._load = Load(sum(len(cluster.cores) for cluster in profile.cpu.clusters), time.monotonic())
        fixed(proc / "cpuinfo", cpuinfo(profile))
        fixed(proc / "vmstat", "oom_kill 0\n")  # the killer here is lmkd's kind, which the kernel does not count
        self.booted_at = time.monotonic()

    def _add_policy(self, sys: Path, cores: list[int], frequencies: list[int]) -> None:
        cpu = sys / "devices" / "system" / "cpu"
        policy = cpu / "cpufreq" / f"policy{cores[0]}"
        constant = {
            "scaling_available_frequencies": " ".join(map(str, frequencies)),
            "cpuinfo_min_freq": str(frequencies[0]),
            "cpuinfo_max_freq": str(frequencies[-1]),
            "scaling_min_freq": str(frequencies[0]),
            "scaling_governor": "schedutil",
            "scaling_driver": "virtual",
            "related_cpus": " ".join(map(str, cores)),
            "affected_cpus": " ".join(map(str, cores)),
        }
        for name, text in constant.items():
            fixed(policy / name, text + "\n")
        self._frequencies.append(
            (frequencies, LiveFile(policy / "scaling_max_freq"), LiveFile(policy / "scaling_cur_freq"))
        )
        for core in cores:
            (cpu / f"cpu{core}" / "topology").mkdir(parents=True, exist_ok=True)
            fixed(cpu / f"cpu{core}" / "online", "1\n")
            link = cpu / f"cpu{core}" / "cpufreq"
            if not link.is_symlink():
                link.symlink_to(f"../cpufreq/{policy.name}")

    def _add_topology(self, sys: Path) -> None:
        cores = sorted(core for cluster in self._profile.cpu.clusters for core in cluster.cores)
        for name in ("online", "possible", "present"):
            fixed(sys / "devices" / "system" / "cpu" / name, f"{cores[0]}-{cores[-1]}\n")
        for cluster_index, cluster in enumerate(self._profile.cpu.clusters):
            for core in cluster.cores:
                topology = sys / "devices" / "system" / "cpu" / f"cpu{core}" / "topology"
                fixed(topology / "physical_package_id", "0\n")
                fixed(topology / "cluster_id", f"{cluster_index}\n")

    def _add_battery(self, sys: Path) -> dict[str, LiveFile]:
        (sys / "class" / "power_supply").mkdir(parents=True, exist_ok=True)
        if self._profile.battery is None:
            return {}
        base = sys / "class" / "power_supply" / "battery"
        fixed(base / "type", "Battery\n")
        fixed(base / "technology", self._profile.battery.technology + "\n")
        names = ("capacity", "temp", "status", "voltage_now", "current_now", "charge_counter")
        return {name: LiveFile(base / name) for name in names}

    def update(
        self,
        zones: list[tuple[str, float]],
        capacity_factor: float,
        busy_share: float,
        used_kb: int,
        battery: dict[str, int | str],
    ) -> None:
        """Shows this moment. `busy_share`: of the capacity that is left, 0 to 1."""
        for file, (_, temperature) in zip(self._zones, zones, strict=True):
            file.set(f"{round(temperature * 1000)}\n")
        for file, (steps, top, current) in zip(self._cooling, self._frequencies, strict=True):
            limit = max((khz for khz in steps if khz <= steps[-1] * capacity_factor), default=steps[0])
            wanted = steps[0] + (limit - steps[0]) * min(1.0, busy_share)
            file.set(f"{len(steps) - 1 - steps.index(limit)}\n")
            top.set(f"{limit}\n")
            current.set(f"{min((khz for khz in steps if khz >= wanted), default=limit)}\n")
        for name, live in self._battery.items():
            live.set(f"{battery[name]}\n")
        self._meminfo.set(meminfo(self._profile, used_kb))
        self._load.advance(busy_share, time.monotonic())
        self._stat.set(self._load.stat())
        self._loadavg.set(self._load.loadavg())
        uptime = time.monotonic() - self.booted_at
        self._uptime.set(f"{uptime:.2f} {uptime:.2f}\n")
