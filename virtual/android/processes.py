"""The workload's processes: what they use, and the low-memory killer."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from virtual.channel import Message

if TYPE_CHECKING:
    from virtual.android.system import Android

PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """One process of the workload at one moment."""

    pid: int
    name: str
    rss_kb: int
    cpu_s: float
    started: int
    state: str


class Processes:
    """Looks through /proc, whose pids are the device's own."""

    def __init__(self, android: Android) -> None:
        self._android = android
        self._cpu: dict[tuple[int, int], float] = {}
        self._cpu_of_ended = 0.0
        self.stopped_s = 0.0
        """How long the duty cycle has let everything stand still."""

    def all(self) -> list[Process]:
        """The workload: everything but init (pid 1), the zygote and ourselves."""
        found: list[Process] = []
        ours = (1, os.getpid(), self._android.spawner.pid)
        for entry in os.scandir("/proc"):
            if entry.name.isdigit() and int(entry.name) not in ours:
                with contextlib.suppress(OSError, ValueError, IndexError):
                    found.append(read_process(int(entry.name)))
        return [one for one in found if one.state != "Z"]

    def survey(self) -> Message:
        """Memory and CPU time of the workload, for the hardware; kills when memory is short."""
        workload = self.all()
        cpu = {(one.pid, one.started): one.cpu_s for one in workload}
        self._cpu_of_ended += sum(used for key, used in self._cpu.items() if key not in cpu)
        self._cpu = cpu
        rss = sum(one.rss_kb for one in workload)
        self._kill_when_short(workload, rss)
        return {
            "op": "usage",
            "rss_kb": rss,
            "cpu_s": self._cpu_of_ended + sum(cpu.values()),
            "processes": len(workload),
            "stopped_s": round(self.stopped_s, 3),
        }

    def _kill_when_short(self, workload: list[Process], rss_kb: int) -> None:
        memory = self._android.profile.memory
        if rss_kb <= (memory.total_mb - memory.system_mb) * 1024 or not workload:
            return
        victim = max(workload, key=lambda one: one.rss_kb)
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim.pid, signal.SIGKILL)
            text = (
                f"Kill '{victim.name}' ({victim.pid}), uid 2000, oom_score_adj 0 to free {victim.rss_kb}kB rss, "
                "0kB swap; reason: low watermark is breached"
            )
            self._android.logd.write("I", "lowmemorykiller", text, buffer="system", pid=1)

    def kill_named(self, name: str) -> list[int]:
        """SIGKILL to every process of this name (its comm, or the last part of its program's path); their pids."""
        pids = []
        for one in self.all():
            if name in (one.name, _program(one.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one.pid, signal.SIGKILL)
                    pids.append(one.pid)
        return pids


def read_process(pid: int) -> Process:
    """From /proc/PID/stat; raises OSError when it is gone."""
    text = Path(f"/proc/{pid}/stat").read_text()
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    cpu_s = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return Process(pid, head.partition("(")[2], int(fields[21]) * PAGE_KB, cpu_s, int(fields[19]), fields[0])


def _program(pid: int) -> str:
    with contextlib.suppress(OSError):
        return os.path.basename(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode("utf-8", "replace"))
    return ""
