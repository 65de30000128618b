"""Who waits for whom: from the main thread over locks and binder calls to the thread that holds everybody up.

A link is followed where the text says so: a monitor with its owner ("held by thread 14", or a thread that "locked" it),
a binder call with the thread that has it (transactions, or the other side's `onTransact` of the same interface). Where
Android prints no owner (a condition, a native lock, a future) and exactly one other thread is in a forward pass or in
the same library, that one is taken and the link is marked `inferred`. The chain ends at who waits for nobody, at a
thread that is not in the text, or where it closes (a deadlock).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from farm.evidence.anr import causes
from farm.evidence.anr.stacks import Stacks, Thread
from farm.evidence.anr.world import Mark, World
from farm.evidence.lines import Facts

MAX_LINKS = 16
_PROXY = re.compile(r"([\w.$]+)\$Stub\$Proxy\.(\w+)")
_SERVES = re.compile(r"([\w.$]+)\$Stub\.onTransact")
_PROVIDER = re.compile(r"ContentProviderProxy\.\w+")
_SERVES_PROVIDER = re.compile(r"ContentProviderNative\.onTransact|ContentProvider\$Transport\.\w+")
_OWN_LIBRARY = re.compile(r"([\w.+\-]+\.so)")


@dataclass(frozen=True, slots=True)
class Link:
    """One thread of the chain. `kind`: how it waits for the next (lock, binder), None at the end; `why`: the line that
    says so; `inferred`: nothing says so, it was concluded. `mark`: the forward pass that it was in."""

    pid: int | None
    process: str | None
    thread: Thread
    kind: str | None = None
    waits_for: str | None = None
    why: str | None = None
    inferred: bool = False
    mark: Mark | None = None

    def facts(self) -> Facts:
        thread = self.thread
        found = {
            "pid": self.pid,
            "process": self.process,
            "thread": thread.name,
            "tid": thread.tid,
            "sys_tid": thread.sys_tid,
            "state": thread.state,
            "waits": self.kind,
            "waits_for": self.waits_for,
            "why": self.why,
            "inferred": True if self.inferred else None,
            "forward": self.mark.name if self.mark else None,
            "at": thread.frames[0].words() if thread.frames else None,
        }
        return {key: value for key, value in found.items() if value is not None or key in ("waits_for", "state", "at")}


@dataclass(frozen=True, slots=True)
class Chain:
    """`end`: why it goes no further: runs, waits, not-in-text, deadlock, no-binder-thread."""

    links: tuple[Link, ...]
    end: str

    def root(self) -> tuple[str, str]:
        """(cause, what says so) of the last thread, in the words of the closed list; away from the main thread without
        "on main", since it is not. A deadlock is a lock."""
        last = self.links[-1]
        if self.end == "deadlock":
            return "lock", "each holds what the next one waits for"
        if self.end == "no-binder-thread":
            return "binder", last.why or "no thread of the other process is free to take the call"
        if last.mark is not None:
            cause, basis = "inference_on_main", last.mark.line
        else:
            cause, basis = causes.of_thread(last.thread)
        if len(self.links) > 1:
            cause = {"idle_main": "idle"}.get(cause, cause.removesuffix("_on_main"))
        return cause, basis


def follow(stacks: Stacks, main: Thread, pid: int | None, process: str | None, world: World, at: str | None) -> Chain:
    """The chain from `main`, a thread of `stacks` (the process that did not respond); `at`: when, by the log."""
    return _Walk(stacks, pid, process, world, at).run(main)


#: A process: number, name, threads.
_Place = tuple[int | None, str | None, Stacks]


@dataclass(frozen=True, slots=True)
class _Next:
    """A link, and where it leads: `thread` of `place`; None: nowhere, `end` says why."""

    link: Link
    place: _Place | None = None
    thread: Thread | None = None
    end: str = "not-in-text"


class _Walk:
    def __init__(self, stacks: Stacks, pid: int | None, process: str | None, world: World, at: str | None) -> None:
        self.world, self.at = world, at
        self.own: _Place = (pid, process, stacks)

    def run(self, main: Thread) -> Chain:
        links: list[Link] = []
        here, thread = self.own, main
        while len(links) < MAX_LINKS:
            step = self._step(here, thread)
            links.append(step.link)
            if step.thread is None or step.place is None:
                return Chain(tuple(links), step.end)
            again = next((link for link in links if link.thread is step.thread), None)
            if again is not None:
                return Chain((*links, again), "deadlock")
            here, thread = step.place, step.thread
        return Chain(tuple(links), "waits")

    def _step(self, here: _Place, thread: Thread) -> _Next:
        pid, process, stacks = here
        tid = self._tid(here, thread)
        mark = self.world.forward(tid, self.at)
        if thread.waits_how == "waiting to lock":
            holder = stacks.holder(thread)
            link = Link(pid, process, thread, "lock", thread.waits_for, thread.waits_line, mark=mark)
            return _Next(link, here if holder else None, holder)
        if mark is not None:
            return _Next(Link(pid, process, thread, mark=mark), end="runs")
        cause, _ = causes.of_thread(thread)
        if cause == "binder":
            return self._call(here, thread)
        if cause == "lock" and (holder := self._suspect(stacks, thread)) is not None:
            why = f"nothing says who holds it; {holder.name!r} alone is at work there"
            link = Link(pid, process, thread, "lock", thread.waits_for, why, inferred=True)
            return _Next(link, here, holder)
        return _Next(Link(pid, process, thread), end="waits" if cause in ("lock", "idle_main") else "runs")

    def _tid(self, here: _Place, thread: Thread) -> int | None:
        """The kernel's number of a thread; a main thread has its process's."""
        return thread.sys_tid if thread.sys_tid is not None or thread is not here[2].main(here[0]) else here[0]

    def _call(self, here: _Place, thread: Thread) -> _Next:
        """A binder call: to the thread that the transaction names, else to the one that serves the interface."""
        pid, process, _ = here
        tid, method = self._tid(here, thread), _method(thread)
        sent = self.world.waiting(tid) if tid is not None else None
        if sent is not None:
            link = Link(
                pid, process, thread, "binder", method or f"code {sent.code} of process {sent.to_pid}", sent.line
            )
            if sent.to_tid == 0:
                return _Next(link, end="no-binder-thread")
            there = self._place(sent.to_pid)
            taken = next((one for one in there[2].threads if one.sys_tid == sent.to_tid), None) if there else None
            return _Next(link, there, taken)
        found = list(self._servers(thread))
        if len(found) != 1:
            return _Next(Link(pid, process, thread, "binder", method))
        there, taken = found[0]
        why = f"{taken.name!r} serves the same interface"
        return _Next(Link(pid, process, thread, "binder", method, why, inferred=True), there, taken)

    def _place(self, pid: int) -> _Place | None:
        if pid == self.own[0]:
            return self.own
        peer = self.world.peers.get(pid)
        return None if peer is None else (pid, self.world.names.get(pid), peer)

    def _servers(self, thread: Thread) -> Iterator[tuple[_Place, Thread]]:
        """Threads of other processes whose stack serves the interface that this one calls."""
        called = next((match for frame in thread.java() if (match := _PROXY.search(frame.symbol))), None)
        provider = any(_PROVIDER.search(frame.symbol) for frame in thread.java())
        for pid, stacks in self.world.peers.items():
            for other in stacks.threads:
                for frame in other.java():
                    serves = _SERVES.search(frame.symbol)
                    if (called and serves and serves[1] == called[1]) or (
                        provider and _SERVES_PROVIDER.search(frame.symbol)
                    ):
                        yield (pid, self.world.names.get(pid), stacks), other
                        break

    def _suspect(self, stacks: Stacks, waiting: Thread) -> Thread | None:
        """The only thread in a forward pass, else the only one at work in the library that the other waits in."""
        others = [thread for thread in stacks.threads if thread is not waiting]
        marked = [one for one in others if one.sys_tid is not None and self.world.forward(one.sys_tid, self.at)]
        busy = [one for one in others if _works_in_inference(one)]
        library = _library(waiting)
        shared = [one for one in others if library and _library(one) == library and not _waits(one)]
        return next((found[0] for found in (marked, busy, shared) if len(found) == 1), None)


def _works_in_inference(thread: Thread) -> bool:
    return causes.of_thread(thread)[0] == "inference_on_main" if thread.frames else False


def _waits(thread: Thread) -> bool:
    return causes.of_thread(thread)[0] in ("lock", "idle_main", "binder") if thread.frames else True


def _library(thread: Thread) -> str | None:
    """The innermost library of the application itself."""
    for frame in thread.native():
        if causes.is_own(frame.where) and (match := _OWN_LIBRARY.search(frame.where)):
            return match[1]
    return None


def _method(thread: Thread) -> str | None:
    """The method that is called, by the proxy's frame: `android.net.wifi.IWifiManager.getConfiguredNetworks`."""
    for frame in thread.java():
        if match := _PROXY.search(frame.symbol):
            return f"{match[1]}.{match[2]}"
        if _PROVIDER.search(frame.symbol):
            return frame.symbol
    return None
