"""One application that did not respond, put together from whatever speaks of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from farm.evidence.anr import causes, chain, reasons
from farm.evidence.anr.stacks import Stacks, Thread
from farm.evidence.anr.world import World
from farm.evidence.cpu_usage import Table
from farm.evidence.lines import Facts

MAX_REASON = 2_000
_CPU_ROWS_SHOWN = 20


@dataclass(slots=True)
class Anr:
    """One application that did not respond. None: nothing says so."""

    process: str | None = None
    pid: int | None = None
    reason: str | None = None
    activity: str | None = None
    load: list[float] | None = None
    extras: dict[str, object] = field(default_factory=dict)
    pressure: dict[str, float] = field(default_factory=dict)
    cpu: Table = field(default_factory=Table)
    stacks: Stacks = field(default_factory=Stacks)
    sources: set[str] = field(default_factory=set)
    traced: bool = False
    at: str | None = None  # when the log says so: the clock of its line

    @property
    def empty(self) -> bool:
        return self.pid is None and self.reason is None and self.load is None and not self.cpu.rows

    def put(self, name: str, value: str) -> None:
        """One field of a report, by the word before its colon."""
        if name in ("PID", "Pid") and value.split(" ")[0].isdigit():
            self.pid = int(value.split(" ")[0][:10])
        elif name in ("Reason", "Subject"):
            self.reason = value[:MAX_REASON]
        elif name == "Load":
            parts = [part.strip() for part in value.split("/")]
            if len(parts) == 3 and all(re.fullmatch(r"\d{1,6}(?:\.\d{1,6})?", part) for part in parts):
                self.load = [float(part) for part in parts]
        elif name == "Activity":
            self.activity = value[:300]
        elif name == "ErrorId":
            self.extras["error_id"] = value[:80]
        elif name == "Frozen":
            self.extras["frozen"] = value == "true"

    def facts(self, world: World) -> Facts:
        """`world`: what the same text says of other processes, binder calls and forward passes."""
        cause, basis = causes.of(self.stacks, self.pid, self.process, self.cpu, self.pressure)
        main = self.stacks.main(self.pid)
        waits = chain.follow(self.stacks, main, self.pid, self.process, world, self.at) if main else None
        if waits and waits.links[0].mark and cause in ("unknown", "native_compute_on_main", "java_cpu_on_main"):
            cause, basis = "inference_on_main", waits.links[0].mark.line
        found: Facts = {
            "process": self.process,
            "pid": self.pid,
            "waited_ms": reasons.waited_ms(self.reason),
            "activity": self.activity,
            "trigger": reasons.trigger(self.reason),
            "reason": self.reason,
            "cause": cause,
            "cause_basis": basis or None,
            "load": self.load,
            **reasons.details(self.reason),
            **self.extras,
            **self.pressure,
        }
        cpu = self.cpu.facts(_CPU_ROWS_SHOWN)
        if cpu:
            found["cpu"] = cpu
        if main and waits:
            found |= thread_facts(main, waits)
        return found


def thread_facts(main: Thread, waits: chain.Chain) -> Facts:
    """The main thread, what it waits for to the end, and what that end is about."""
    root, basis = waits.root()
    return {
        "main_thread": {"state": main.state, "frames": [frame.words() for frame in main.frames[:12]]},
        "wait_chain": [link.facts() for link in waits.links],
        "wait_end": waits.end,
        "root_cause": root,
        "root_basis": basis or None,
    }
