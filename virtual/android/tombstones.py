"""What a device leaves behind of a process that died by a fault: /data/tombstones and the crash log.

What is not known (registers of a thread that was not traced, an abort message) is left out, never made up.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from virtual.channel import Message

if TYPE_CHECKING:
    from virtual.android.system import Android

FOLDER = Path("/data/tombstones")
KEPT = 32
STARS = "*** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***"
_COLUMNS = (
    ("rax", "rbx", "rcx", "rdx"),
    ("r8", "r9", "r10", "r11"),
    ("r12", "r13", "r14", "r15"),
    ("rdi", "rsi"),
    ("rbp", "rsp", "rip"),
)
_CODES = {
    signal.SIGSEGV: {1: "SEGV_MAPERR", 2: "SEGV_ACCERR"},
    signal.SIGBUS: {1: "BUS_ADRALN", 2: "BUS_ADRERR", 3: "BUS_OBJERR"},
    signal.SIGFPE: {1: "FPE_INTDIV", 2: "FPE_INTOVF", 3: "FPE_FLTDIV"},
    signal.SIGILL: {1: "ILL_ILLOPC", 2: "ILL_ILLOPN", 3: "ILL_ILLADR"},
    signal.SIGTRAP: {1: "TRAP_BRKPT", 2: "TRAP_TRACE"},
    signal.SIGSYS: {1: "SYS_SECCOMP"},
}
_SENT = {0: "SI_USER", -1: "SI_QUEUE", -6: "SI_TKILL", 0x80: "SI_KERNEL"}
_WITH_ADDRESS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP}


def describe_signal(crash: Message) -> str:
    """`signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x…`, as far as it is known."""
    number = signal.Signals(crash["signal"])
    text = f"{int(number)} ({number.name})"
    code = crash["code"]
    if code is None:
        return text
    name = _CODES.get(number, {}).get(code) or _SENT.get(code, "?")
    has_address = number in _WITH_ADDRESS and code > 0 and code != 0x80
    address = f"0x{crash['address']:016x}" if has_address else "--------"
    return f"{text}, code {code} ({name}), fault addr {address}"


def _register_lines(values: dict[str, str]) -> list[str]:
    columns = _COLUMNS if "rax" in values else tuple(zip(*[iter(values)] * 4, strict=False))
    return ["    " + "  ".join(f"{name:<3} {values[name]}" for name in row if name in values) for row in columns]


def render(crash: Message, fingerprint: str, revision: str, now: float) -> list[str]:
    """The tombstone's lines."""
    pid, name = crash["pid"], crash["name"]
    fraction = f"{now % 1:.9f}"[1:]
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now)) + fraction + "+0000"
    lines = [STARS, f"Build fingerprint: '{fingerprint}'", f"Revision: '{revision}'", f"ABI: '{os.uname().machine}'"]
    lines.append(f"Timestamp: {stamp}")
    if crash["uptime_s"] is not None:
        lines.append(f"Process uptime: {int(crash['uptime_s'])}s")
    program = crash["command"].split(" ")[0] or name
    lines += [f"Cmdline: {crash['command']}"]
    tid = f", tid: {pid}" if crash["registers"] else ""
    lines += [f"pid: {pid}{tid}, name: {name}  >>> {program} <<<", "uid: 2000", f"signal {describe_signal(crash)}"]
    if crash["signal"] == signal.SIGSEGV and crash["code"] == 1 and (crash["address"] or 0) < 4096:
        lines.append("Cause: null pointer dereference")
    lines += _register_lines(crash["registers"])
    if crash["frames"]:
        lines += ["", "backtrace:"] + [f"      #{index:02d} {frame}" for index, frame in enumerate(crash["frames"])]
    elif not crash["registers"]:
        lines.append("(a thread other than the main one crashed; it was not traced: its registers are not known)")
    return lines


def record(android: Android, crash: Message) -> None:
    """Writes the tombstone and the lines of the crash log."""
    get = android.properties.get
    lines = render(crash, get("ro.build.fingerprint"), get("ro.revision"), time.time())
    pid, name = crash["pid"], crash["name"]
    tid = f" in tid {pid} ({name})" if crash["registers"] else ""
    text = f"Fatal signal {describe_signal(crash)}{tid}, pid {pid} ({name})"
    android.logd.write("F", "libc", text, buffer="crash", pid=pid, uid=2000)
    path = _next_path()
    for line in lines:
        android.logd.write("F", "DEBUG", line, buffer="crash", pid=os.getpid())
    with contextlib.suppress(OSError):  # a full disk keeps no tombstone, as on a phone
        path.write_text("\n".join(lines) + "\n")
        android.logd.write("E", "tombstoned", f"Tombstone written to: {path.name}", pid=os.getpid())


def _next_path() -> Path:
    """The first free of the numbered files, or the oldest."""
    paths = [FOLDER / f"tombstone_{number:02d}" for number in range(KEPT)]
    free = next((path for path in paths if not path.exists()), None)
    return free or min(paths, key=lambda path: path.stat().st_mtime)
