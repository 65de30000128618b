"""Threads with their stacks, as ART and Dalvik print them on SIGQUIT, and as a native dump has them.

    "main" prio=5 tid=1 Blocked
      | sysTid=4251 nice=-10 cgrp=default sched=0/0 handle=0xadd05518
      | state=S schedstat=( 32134610 8406351 75 ) utm=1 stm=2 core=1 HZ=100
      native: #00 pc 00053f2c  /system/lib/libc.so (__ioctl+8)
      at com.example.Cache.get(Cache.java:12)
      - waiting to lock <0x01a419a8> (a java.lang.Object) held by thread 14

Consoles drop the indentation and the attribute lines, put a blank before the bracket, or number every frame #00: none
of it is relied upon. Sources of the format: AOSP `art/runtime/thread.cc`, `monitor.cc`, `libbacktrace`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

MAX_THREADS = 512
MAX_FRAMES = 96
MAX_FRAME_CHARS = 500

_HEAD = re.compile(
    r'^\s*"(.{0,200}?)" (?:daemon )?(?:prio=(-?\d{1,3}) )?(?:tid=(\d{1,8}) )?'
    r"(?:sysTid=(\d{1,10})|([A-Za-z]\w{2,40}))?(?:\s.*)?$"
)
#: The same as crash reporting services write it.
_SERVICE_HEAD = re.compile(r"^(\S.{0,100}?) \((\w{2,40})\):tid=(\d{1,8}) systid=(\d{1,10})\s*$")
_SYSTID = re.compile(r"\bsysTid=(\d{1,10})")
_STATE = re.compile(r"\bstate=([A-Z])\b")
_NATIVE = re.compile(
    r"(?:native: )?#(\d{1,3})\s+pc (?:0x)?([0-9a-fA-F]{1,16})\s+(\S+(?: \(deleted\))?)?(?: \(offset 0x[0-9a-f"
    r"]+\))?(?:\s+\((.{1,300}?)\)?)?"
    r"(?: \(BuildId: .*)?\s*$"
)
_KERNEL = re.compile(r"kernel: (?:\(couldn't|([\w.$]+)\+)")
_JAVA = re.compile(r"^\s*at ([\w.$<>\-/]+) ?\((.{0,200})\)?")
_LOCK = re.compile(
    r"- (waiting to lock|locked|waiting on|sleeping on"
    r"|parking to wait for)\s+<(?:0x)?(\w+)>(?: \((?:a )?(.{0,200}?)\))?(.*)"
)
_HELD = re.compile(r"held by (?:thread(?:id)?[ =]|tid=)(\d{1,8})")


@dataclass(frozen=True, slots=True)
class Frame:
    """`kind`: kernel, native or java. `symbol`: function or method; `where`: library, or file and line."""

    kind: str
    symbol: str
    where: str = ""

    def words(self) -> str:
        return f"{self.symbol or '?'} ({self.where})" if self.where else self.symbol


@dataclass(slots=True)
class Thread:
    """One thread. `tid`: ART's own number, `sys_tid`: the kernel's. `waits_for`: the lock, `held_by`: ART's tid."""

    name: str
    tid: int | None = None
    sys_tid: int | None = None
    state: str | None = None
    kernel_state: str | None = None
    frames: list[Frame] = field(default_factory=list)
    waits_for: str | None = None
    waits_how: str | None = None
    waits_line: str | None = None
    held_by: int | None = None
    holds: list[str] = field(default_factory=list)

    def first(self, wanted: Callable[[Frame], bool]) -> Frame | None:
        return next((frame for frame in self.frames if wanted(frame)), None)

    def java(self) -> list[Frame]:
        return [frame for frame in self.frames if frame.kind == "java"]

    def native(self) -> list[Frame]:
        return [frame for frame in self.frames if frame.kind == "native"]


class Stacks:
    """The threads of one process; lines before any head belong to a thread that lost it."""

    def __init__(self) -> None:
        self.threads: list[Thread] = []
        self.wchan: dict[int, tuple[str | None, str]] = {}
        self._current: Thread | None = None

    def feed(self, text: str) -> bool:
        """Whether the line is part of a thread's dump."""
        stripped = text.strip().removesuffix("\\").rstrip()
        if not stripped:
            return False
        if stripped[0] == '"' and (head := _HEAD.match(stripped)):
            self._begin(head)
            return True
        if "systid=" in stripped and (service := _SERVICE_HEAD.match(stripped)):
            self._add(Thread(service[1], int(service[3]), int(service[4]), service[2]))
            return True
        if stripped[0] == "|":
            self._attributes(stripped)
            return True
        if stripped.startswith("sysTid="):
            return self._waiting_channel(stripped)
        return self._frame(stripped)

    def _begin(self, head: re.Match[str]) -> None:
        name, _, tid, sys_tid, state = head.groups()
        self._add(Thread(name, int(tid) if tid else None, int(sys_tid) if sys_tid else None, state))

    def _add(self, thread: Thread) -> None:
        self._current = thread
        if len(self.threads) < MAX_THREADS:
            self.threads.append(thread)

    def _attributes(self, text: str) -> None:
        if self._current is None:
            return
        if match := _SYSTID.search(text):
            self._current.sys_tid = int(match[1])
        if match := _STATE.search(text):
            self._current.kernel_state = match[1]

    def _waiting_channel(self, text: str) -> bool:
        words = text.split()
        number = words[0][len("sysTid=") :]
        if not number.isdigit() or len(self.wchan) >= 4 * MAX_THREADS:
            return False
        state = next((word[6:] for word in words[1:] if word.startswith("state=")), None)
        self.wchan.setdefault(int(number[:10]), (state, words[-1] if len(words) > 1 else ""))
        return True

    def _frame(self, text: str) -> bool:
        frame = _parse_frame(text)
        if frame is not None:
            thread = self._thread()
            if len(thread.frames) < MAX_FRAMES:
                thread.frames.append(frame)
            return True
        if match := _LOCK.search(text):
            self._lock(match, text)
            return True
        return False

    def _thread(self) -> Thread:
        if self._current is None:
            self._current = Thread("")
            self.threads.append(self._current)
        return self._current

    def _lock(self, match: re.Match[str], text: str) -> None:
        thread, how, lock = self._thread(), match[1], match[2]
        if how == "locked":
            if len(thread.holds) < 64:
                thread.holds.append(lock)
        elif thread.waits_for is None:
            thread.waits_for, thread.waits_how, thread.waits_line = lock, how, text[:MAX_FRAME_CHARS]
            held = _HELD.search(match[4] or "")
            thread.held_by = int(held[1]) if held else None

    def main(self, pid: int | None) -> Thread | None:
        """The main thread: by name, else by its number; a dump of one thread without a head counts as it."""
        named = next((thread for thread in self.threads if thread.name == "main" and thread.tid in (1, None)), None)
        if named is None and pid is not None:
            named = next((thread for thread in self.threads if thread.sys_tid == pid), None)
        if named is None:
            named = next((thread for thread in self.threads if thread.tid == 1 and thread.name == "main"), None)
        if named is None and len(self.threads) == 1 and not self.threads[0].name:
            named = self.threads[0]
        return named

    def holder(self, thread: Thread) -> Thread | None:
        """The owner of the monitor that the thread waits to enter; None: the text does not have it."""
        if thread.waits_for is None or thread.waits_how != "waiting to lock":
            return None
        if thread.held_by is not None:
            return next((other for other in self.threads if other.tid == thread.held_by), None)
        return next((o for o in self.threads if o is not thread and thread.waits_for in o.holds), None)


def _parse_frame(text: str) -> Frame | None:
    if text.startswith("at ") and (java := _JAVA.match(text)):
        return Frame("java", java[1][:MAX_FRAME_CHARS], java[2].rstrip(")"))
    if "kernel: " in text and (kernel := _KERNEL.search(text)):
        return Frame("kernel", kernel[1] or "")
    if " pc " in text and (native := _NATIVE.search(text)):
        symbol = (native[4] or "").split(" (BuildId")[0].replace(" + ", "+")
        return Frame("native", symbol[:MAX_FRAME_CHARS], (native[3] or "")[:MAX_FRAME_CHARS])
    return None
