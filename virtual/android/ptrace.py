"""The few ptrace requests that a crash dump needs, through ctypes. See ptrace(2)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import time
from dataclasses import dataclass

CONT, DETACH = 7, 17
GETEVENTMSG, GETSIGINFO, GETREGSET, SEIZE, INTERRUPT, LISTEN = 0x4201, 0x4202, 0x4204, 0x4206, 0x4207, 0x4208
OPTION_FORK, OPTION_VFORK, OPTION_EXIT, OPTION_EXITKILL = 0x2, 0x4, 0x40, 0x100000
EVENT_EXIT, EVENT_STOP = 6, 128
WALL = 0x40000000
NT_PRSTATUS = 1
STOP_S = 0.5
"""How long a thread may take to stop: one in an uninterruptible call does not."""

_X86_64 = (
    *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi"),
    *("orig_rax", "rip", "cs", "eflags", "rsp", "ss"),
)
_AARCH64 = (*(f"x{number}" for number in range(31)), "sp", "pc", "pst")
_LAYOUT = {"x86_64": _X86_64, "aarch64": _AARCH64}.get(platform.machine(), ())
_ROLES = {"x86_64": ("rip", "rbp", "rsp"), "aarch64": ("pc", "x29", "sp")}.get(platform.machine(), ("", "", ""))

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


class _Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def request(code: int, pid: int, address: int = 0, data: int = 0) -> None:
    """One ptrace call; raises OSError (ESRCH: the tracee is gone or does not stand)."""
    if _libc.ptrace(code, pid, address, data) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def event_message(pid: int) -> int:
    """What the last event carries: for the exit event the wait status."""
    value = ctypes.c_ulong()
    request(GETEVENTMSG, pid, 0, ctypes.addressof(value))
    return value.value


def registers(tid: int) -> dict[str, int]:
    """General registers of a stopped thread, by name; empty on a machine that we do not know."""
    room = ctypes.create_string_buffer(8 * 64)
    vector = _Vector(ctypes.cast(room, ctypes.c_void_p), len(room))
    request(GETREGSET, tid, NT_PRSTATUS, ctypes.addressof(vector))
    if not _LAYOUT:
        return {}
    return dict(zip(_LAYOUT, struct.unpack_from(f"<{len(_LAYOUT)}Q", room.raw), strict=True))


@dataclass(frozen=True, slots=True)
class SignalInfo:
    """Of a signal that is about to be delivered."""

    number: int
    code: int
    address: int


def signal_info(tid: int) -> SignalInfo:
    """siginfo of the signal that a thread stands at."""
    room = ctypes.create_string_buffer(128)
    request(GETSIGINFO, tid, 0, ctypes.addressof(room))
    number, _, code, _, address = struct.unpack_from("<iiiiQ", room.raw)
    return SignalInfo(number, code, address)


def read_memory(pid: int, address: int, count: int) -> bytes:
    """Bytes of another process; fewer or none where nothing is mapped."""
    room = ctypes.create_string_buffer(count)
    local = _Vector(ctypes.cast(room, ctypes.c_void_p), count)
    remote = _Vector(ctypes.c_void_p(address), count)
    got = _libc.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
    return room.raw[: max(got, 0)]


def stack_walk(pid: int, values: dict[str, int], limit: int = 64) -> list[int]:
    """Program counters, innermost first, along the chain of frame pointers.

    Right for code that keeps them (-fno-omit-frame-pointer); elsewhere the chain ends early, and so does the list.
    """
    if not values:
        return []
    pc, frame, stack = (values[name] for name in _ROLES)
    counters = [pc]
    while len(counters) < limit and frame >= stack and frame % 8 == 0:
        pair = read_memory(pid, frame, 16)
        if len(pair) < 16:
            break
        following, back = struct.unpack("<QQ", pair)
        if back < 4096:
            break
        counters.append(back)
        if following <= frame:
            break
        frame = following
    return counters


def stop_thread(tid: int, seized: bool) -> bool:
    """Stops one thread, tracing it first when it is not; False when it does not stop in time."""
    try:
        if not seized:
            request(SEIZE, tid)
        request(INTERRUPT, tid)
    except OSError:
        return False
    deadline = time.monotonic() + STOP_S
    while time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(tid, os.WNOHANG | WALL)[0] == tid:
                return True
        time.sleep(0.002)
    return False


def release_thread(tid: int, seized: bool) -> None:
    """Lets a thread run on, and forgets it when it was only traced for us."""
    with contextlib.suppress(OSError):
        request(CONT if seized else DETACH, tid)
