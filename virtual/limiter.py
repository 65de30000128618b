"""Makes the workload as slow as the device is: a CPU bandwidth limit on the processes that its shell starts.

Three kinds, best first: `cgroup-v1` and `cgroup-v2` (CFS quota, exact CPU accounting by the kernel), and `duty-cycle`
(stop and continue, CPU time added up from /proc) where no cgroup is writable. The device says which in
`ro.farm.limiter`.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Protocol

PERIOD_US = 10_000
"""Short, so that a token of a few ms sees an even slow CPU and not full speed and a pause."""
MIN_QUOTA_US = 1_000
GROUP = "farm-virtual"
REMOVE_S = 2.0
"""How long a group may take to become empty after its processes were killed."""


class Limiter(Protocol):
    """Holds the workload of one device to a share of the host's CPU."""

    name: str

    def entry_fds(self) -> list[int]:
        """Open cgroup files; a process joins by writing "0" to each."""

    def cpu_seconds(self) -> float | None:
        """CPU time that the workload has used so far; None where only the device itself can tell."""

    def throttled_seconds(self) -> float | None:
        """How long the workload was held back so far; None where only the device itself can tell."""

    def set_cores(self, cores: float) -> None:
        """How many host cores the workload may use from now on."""

    def close(self) -> None:
        """Takes the limit away."""


class CgroupV1:
    """Limits through the `cpu` controller, counts through `cpuacct`."""

    name = "cgroup-v1"

    def __init__(self, cpu: Path, account: Path) -> None:
        self._cpu = cpu
        self._account = account
        (cpu / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        self._fds = [os.open(folder / "cgroup.procs", os.O_WRONLY) for folder in dict.fromkeys((cpu, account))]

    def entry_fds(self) -> list[int]:
        return self._fds

    def cpu_seconds(self) -> float | None:
        return int((self._account / "cpuacct.usage").read_text()) / 1e9

    def throttled_seconds(self) -> float | None:
        return _stat(self._cpu, "throttled_time") / 1e9

    def set_cores(self, cores: float) -> None:
        quota = max(MIN_QUOTA_US, round(cores * PERIOD_US))
        (self._cpu / "cpu.cfs_quota_us").write_text(str(quota))

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)
        _remove(self._cpu, self._account)


class CgroupV2:
    """Limits and counts through one unified group."""

    name = "cgroup-v2"

    def __init__(self, group: Path) -> None:
        self._group = group
        self.set_cores(1.0)
        self._fds = [os.open(group / "cgroup.procs", os.O_WRONLY)]

    def entry_fds(self) -> list[int]:
        return self._fds

    def cpu_seconds(self) -> float | None:
        return _stat(self._group, "usage_usec") / 1e6

    def throttled_seconds(self) -> float | None:
        return _stat(self._group, "throttled_usec") / 1e6

    def set_cores(self, cores: float) -> None:
        quota = max(MIN_QUOTA_US, round(cores * PERIOD_US))
        (self._group / "cpu.max").write_text(f"{quota} {PERIOD_US}")

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)
        _remove(self._group)


class DutyCycle:
    """Declared fallback: the device's own process tree is stopped and continued by the operating system's side."""

    name = "duty-cycle"

    def __init__(self) -> None:
        self.cores = 1.0

    def entry_fds(self) -> list[int]:
        return []

    def cpu_seconds(self) -> float | None:
        return None

    def throttled_seconds(self) -> float | None:
        return None

    def set_cores(self, cores: float) -> None:
        self.cores = cores

    def close(self) -> None:
        return


def choose(serial: str, kind: str | None = None) -> Limiter:
    """The best limiter that works here, or the one named by `kind`."""
    makers = {"cgroup-v1": _try_v1, "cgroup-v2": _try_v2, "duty-cycle": _duty_cycle}
    for name, make in makers.items():
        if kind in (None, name):
            with contextlib.suppress(OSError):
                limiter = make(f"{serial}.{os.getpid()}")
                if limiter is not None:
                    return limiter
    raise OSError(f"limiter {kind} does not work here; there are {', '.join(makers)}")


def _duty_cycle(name: str) -> Limiter | None:
    return DutyCycle()


def _mounts(filesystem: str) -> list[tuple[Path, set[str]]]:
    found = []
    for line in Path("/proc/mounts").read_text().splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind == filesystem:
            found.append((Path(folder), set(options.split(","))))
    return found


def _try_v1(name: str) -> Limiter | None:
    folders = {}
    for folder, options in _mounts("cgroup"):
        for controller in ("cpu", "cpuacct"):
            if controller in options:
                folders[controller] = folder / GROUP / name
    if len(folders) < 2:
        return None
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
        _clear_dead(folder.parent)
    return CgroupV1(folders["cpu"], folders["cpuacct"])


def _try_v2(name: str) -> Limiter | None:
    for folder, _ in _mounts("cgroup2"):
        if "cpu" not in (folder / "cgroup.controllers").read_text().split():
            continue
        (folder / "cgroup.subtree_control").write_text("+cpu")
        parent = folder / GROUP
        parent.mkdir(exist_ok=True)
        (parent / "cgroup.subtree_control").write_text("+cpu")
        _clear_dead(parent)
        (parent / name).mkdir(exist_ok=True)
        return CgroupV2(parent / name)
    return None


def _stat(group: Path, key: str) -> int:
    rows = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return int(rows.get(key, 0))


def _clear_dead(parent: Path) -> None:
    """Removes the groups of devices that were killed: a group's name ends with its device's pid."""
    for group in parent.iterdir():
        pid = group.name.rpartition(".")[2]
        if group.is_dir() and pid.isdigit() and not Path("/proc", pid).exists():
            with contextlib.suppress(OSError):
                group.rmdir()


def _remove(*groups: Path) -> None:
    deadline = time.monotonic() + REMOVE_S
    for group in dict.fromkeys(groups):
        while True:
            try:
                group.rmdir()
            except OSError:  # a last process is still dying; what stays, the next start of any device removes
                if time.monotonic() < deadline:
                    time.sleep(0.02)
                    continue
            break
