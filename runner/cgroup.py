"""Control groups around a sandbox, where this user may make them: they bound the sum of its processes and memory.

Resource limits bound one process each, and root's number of processes not at all; a control group bounds the whole.
Where none can be made (no root, read-only hierarchy) the supervisor counts processes itself, which is slower to act.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

MAX_TASKS = 512
MAX_MEMORY = 3 << 30

_ROOT = Path("/sys/fs/cgroup")
#: controller -> (file of its limit in version 1, in version 2, limit)
_LIMITS = {
    "pids": ("pids.max", "pids.max", MAX_TASKS),
    "memory": ("memory.limit_in_bytes", "memory.max", MAX_MEMORY),
}


@dataclass(slots=True)
class Group:
    """The groups of one sandbox. `bounds`: the controllers that really hold it."""

    paths: list[Path] = field(default_factory=list)
    bounds: set[str] = field(default_factory=set)

    def add(self, pid: int) -> None:
        """Move a process, and whatever it starts from now on, into the groups."""
        for path in self.paths:
            (path / "cgroup.procs").write_text(str(pid))

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel ended a process here because all of them together had reached the limit of memory."""
        for file in (path / name for path in self.paths for name in ("memory.events", "memory.oom_control")):
            with contextlib.suppress(OSError, ValueError):
                for line in file.read_text().splitlines():
                    name, _, count = line.partition(" ")
                    if name == "oom_kill" and int(count) > 0:
                        return True
        return False

    def remove(self) -> None:
        """Remove the groups once their processes have ended; a moment later than the kill that ended them."""
        deadline = time.monotonic() + 5
        for path in self.paths:
            while path.exists() and time.monotonic() < deadline:
                with contextlib.suppress(OSError):
                    path.rmdir()
                    break
                time.sleep(0.02)
        self.paths.clear()


def make(name: str, root: Path = _ROOT, memory: int = MAX_MEMORY) -> Group:
    """A group per controller that this user may use, below the caller's own; never raises. `memory`: bytes."""
    group = Group()
    for controller, own in _own_groups().items():
        version2 = controller == ""
        base = _base(root, controller) / own.lstrip("/")
        _sweep(base)
        for limited in _LIMITS if version2 else [controller]:
            path = base / name
            v1, v2, limit = _LIMITS[limited]
            try:
                path.mkdir(exist_ok=True)
                (path / (v2 if version2 else v1)).write_text(str(memory if limited == "memory" else limit))
            except OSError:
                with contextlib.suppress(OSError):
                    path.rmdir()
                continue
            if path not in group.paths:
                group.paths.append(path)
            group.bounds.add(limited)
    return group


def _sweep(base: Path) -> None:
    """Remove what supervisors that were killed left here: groups named after a process that is gone."""
    for path in base.glob("farm-attempt-*"):
        pid = path.name.rsplit("-", 1)[-1]
        if pid.isdigit() and not Path("/proc", pid).exists():
            with contextlib.suppress(OSError):
                path.rmdir()


def _own_groups() -> dict[str, str]:
    """controller -> the caller's group in its hierarchy; the empty controller stands for version 2."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                if controller in _LIMITS or controller == "":
                    found[controller] = path
    if any(found.get(controller) for controller in _LIMITS):
        found.pop("", None)  # a hybrid machine has these controllers in version 1
    return found


def _base(root: Path, controller: str) -> Path:
    return root / controller if controller else root


def tasks_inside(child: int) -> int:
    """How many processes a sandbox has, counted in its own /proc; 0 when it is gone."""
    try:
        return sum(1 for name in os.listdir(f"/proc/{child}/root/proc") if name.isdigit())
    except OSError:
        return 0
