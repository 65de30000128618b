"""Letting the supervisor see what the sandbox refuses: a seccomp listener on the calls that name a file or an address.

The kernel's namespaces refuse; this only tells. Each trapped call waits until the supervisor has looked at its argument
and said "go on", then runs as it would have. Installed inside, before a line of the suite runs, inherited by every
process that the suite starts; the listener's descriptor goes to the supervisor, so nobody inside can answer for it.
Source of the layouts: the kernel's include/uapi/linux/{seccomp,filter,audit}.h.
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import platform
import socket
import struct
from dataclasses import dataclass

from runner.reporter import SocketReporter


@dataclass(frozen=True, slots=True)
class Call:
    """A trapped system call. `path`: index of the argument that names a file; `flags`: of its open flags."""

    name: str
    path: int | None = None
    dirfd: int | None = None
    flags: int | None = None
    address: int | None = None  # index of a socket address, followed by its length
    writes: bool = False


_OPENAT = Call("openat", path=1, dirfd=0, flags=2)
_OPENAT2 = Call("openat2", path=1, dirfd=0)
_UNLINKAT = Call("unlinkat", path=1, dirfd=0, writes=True)
_RENAMEAT = Call("rename", path=3, dirfd=2, writes=True)
_MKDIRAT = Call("mkdirat", path=1, dirfd=0, writes=True)
_CONNECT = Call("connect", address=1)
_SENDTO = Call("sendto", address=4)

#: machine -> (audit architecture, number of seccomp(2), trapped calls by number)
TABLES: dict[str, tuple[int, int, dict[int, Call]]] = {
    "x86_64": (
        0xC000003E,
        317,
        {
            2: Call("open", path=0, flags=1),
            42: _CONNECT,
            44: _SENDTO,
            76: Call("truncate", path=0, writes=True),
            82: Call("rename", path=1, writes=True),
            83: Call("mkdir", path=0, writes=True),
            85: Call("creat", path=0, writes=True),
            87: Call("unlink", path=0, writes=True),
            257: _OPENAT,
            258: _MKDIRAT,
            263: _UNLINKAT,
            264: _RENAMEAT,
            316: _RENAMEAT,
            437: _OPENAT2,
        },
    ),
    "aarch64": (
        0xC00000B7,
        277,
        {
            34: _MKDIRAT,
            35: _UNLINKAT,
            38: _RENAMEAT,
            45: Call("truncate", path=0, writes=True),
            56: _OPENAT,
            203: _CONNECT,
            206: _SENDTO,
            276: _RENAMEAT,
            437: _OPENAT2,
        },
    ),
}

_SET_MODE_FILTER, _NEW_LISTENER = 1, 1 << 3
_RET_ALLOW, _RET_USER_NOTIF = 0x7FFF0000, 0x7FC00000
_LD_W_ABS, _JEQ, _RET = 0x20, 0x15, 0x06
_PR_SET_NO_NEW_PRIVS = 38


def program(arch: int, calls: dict[int, Call]) -> bytes:
    """The BPF filter: the trapped numbers notify, all else is allowed; sendto only where it names an address."""
    code: list[tuple[int, int, int, int]] = [
        (_LD_W_ABS, 0, 0, 4),
        (_JEQ, 1, 0, arch),
        (_RET, 0, 0, _RET_ALLOW),
        (_LD_W_ABS, 0, 0, 0),
    ]
    for number, call in calls.items():
        if call is _SENDTO:  # both halves of argument 4 are zero on a connected socket
            code += [(_JEQ, 0, 6, number), (_LD_W_ABS, 0, 0, 48), (_JEQ, 0, 3, 0), (_LD_W_ABS, 0, 0, 52)]
            code += [(_JEQ, 0, 1, 0), (_RET, 0, 0, _RET_ALLOW), (_RET, 0, 0, _RET_USER_NOTIF)]
        else:
            code += [(_JEQ, 0, 1, number), (_RET, 0, 0, _RET_USER_NOTIF)]
    code.append((_RET, 0, 0, _RET_ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in code)


class _SockFprog(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install() -> int:
    """Install the filter on this process; returns the listener's descriptor. Raises OSError where it cannot be had."""
    table = TABLES.get(platform.machine())
    if table is None:
        raise OSError(f"no system call table for {platform.machine()}")
    arch, number, calls = table
    code = program(arch, calls)
    libc = ctypes.CDLL(None, use_errno=True)
    fprog = _SockFprog(len(code) // 8, code)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(NO_NEW_PRIVS)")
    fd = int(libc.syscall(number, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(fprog)))
    if fd < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"seccomp: {os.strerror(error)}")
    return fd


def send_listener(reporter: SocketReporter) -> str:
    """Install, and hand the descriptor to the supervisor; returns why not, or nothing."""
    try:
        fd = install()
    except OSError as error:
        return str(error)
    with socket.socket(fileno=os.dup(reporter.fileno())) as ear:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))
        ear.sendmsg([json.dumps({"op": "witness"}).encode() + b"\n"], [rights])
    os.close(fd)
    return ""
