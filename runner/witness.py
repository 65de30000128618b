"""The supervisor's side of the seccomp listener: looks at each trapped call, notes what is refused, lets it go on.

What is noted: opening or changing a file that lies outside of what the attempt was given, changing one that is
read-only, and connecting to anything but the attempt's own lens, its own sockets and the ports that it listens on
itself. A note is evidence, not the protection: the argument may change after the look, the namespaces do not.
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
import platform
import select
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from farm.evidence.refused import FARMS_OWN, NO_NAMES
from runner.sandbox import ADB_PORT, EAR, LENS, PACK, SPEC, WORK, Layout
from runner.seccomp import TABLES, Call

_RECV, _SEND = 0xC0502100, 0xC0182101
_NOTIF = struct.Struct("=QII iIQ 6Q")
_RESPONSE = struct.Struct("=QqiI")
_CONTINUE = 1
_AT_FDCWD = -100
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_MAX_PATH = 4096
DNS_PORT = 53

#: Places in which every program looks and finds nothing, to no harm.
_HARMLESS = (
    "/etc",
    "/dev",
    "/proc",
    "/sys",
    "/run/nscd",
    "/var/run/nscd",
    "/var/cache",
    "/run/systemd",
    "/nonexistent",
)
_SECRETS = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh", "/etc/ssl/private")


@dataclass(frozen=True, slots=True)
class View:
    """What the sandbox shows: folders that it may read, those that it may also change."""

    readable: tuple[str, ...]
    writable: tuple[str, ...] = (WORK, "/tmp", "/dev", "/proc/self")
    guarded: tuple[str, ...] = ()  # the farm's own folders: asking for them is telling, even below a /tmp that is empty

    @classmethod
    def of(cls, where: Layout, guarded: tuple[str, ...] = ()) -> View:
        shown = [path for path, _ in where.system] + [str(path) for path in where.python]
        return cls((*shown, PACK, SPEC, LENS, EAR, WORK, "/tmp", "/dev", "/proc"), guarded=guarded)


def judge_path(
    view: View, call: str, path: str, writes: bool, hidden: Callable[[str], bool] = lambda path: False
) -> str | None:
    """Why the sandbox refuses this file, in words; None when it does not, or when nobody needs to know.

    Pure but for `hidden`: whether the host has this file and the sandbox does not.
    """
    if _under(path, view.guarded) and not _under(path, [root for root in view.readable if root != "/tmp"]):
        return f"{call} {path}: {FARMS_OWN}"
    if writes:
        if _under(path, view.writable):
            return None
        if _under(path, ("/proc",)) and not _under(path, ("/proc/sys", "/proc/sysrq-trigger")):
            return None
        where = "read-only here" if _under(path, view.readable) else "outside of this attempt"
        return f"{call} {path}: {where}"
    if _under(path, _SECRETS):
        return f"{call} {path}: not shown to an attempt"
    if _under(path, ("/tmp",)) and not _under(path, [root for root in view.readable if root != "/tmp"]):
        return f"{call} {path}: outside of this attempt" if hidden(path) else None
    if _under(path, view.readable) or _under(path, _HARMLESS):
        return None
    if any(root.startswith(path.rstrip("/") + "/") for root in view.readable):
        return None  # a parent of something shown: an almost empty folder
    if _under(path, ("/farm",)):
        return None
    return f"{call} {path}: outside of this attempt"


def judge_address(view: View, raw: bytes, listening: Callable[[int], bool]) -> str | None:
    """Why this address cannot be reached, in words; None when it can, or is none (pure but for `listening`)."""
    family = struct.unpack_from("=H", raw)[0] if len(raw) >= 2 else 0
    if family == 1:
        path = raw[2:].split(b"\0")[0].decode(errors="replace")
        if not path or _under(path, view.readable) or _under(path, _HARMLESS):
            return None
        return f"connect {path}: outside of this attempt"
    if family == 2 and len(raw) >= 8:
        port, address = struct.unpack_from("!H4s", raw, 2)
        host: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.IPv4Address(address)
    elif family == 10 and len(raw) >= 24:
        port = struct.unpack_from("!H", raw, 2)[0]
        host = ipaddress.IPv6Address(raw[8:24])
        host = host.ipv4_mapped or host
    else:
        return None
    if not (host.is_loopback or host.is_unspecified):
        return f"connect {host} port {port}: there is no network here"
    if port in (0, ADB_PORT) or listening(port):
        return None
    if port == DNS_PORT:  # where the C library asks when nobody told it of a name server
        return f"connect {host} port {port}: {NO_NAMES}"
    return f"connect {host} port {port}: nothing listens there; ports of the host cannot be reached"


def _under(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(root + "/") for root in roots)


class Witness:
    """A thread that serves one listener until the last process under it has ended."""

    def __init__(self, fd: int, view: View, on_refused: Callable[[str, str], None]) -> None:
        self._fd, self._view, self._on_refused = fd, view, on_refused
        self._calls = TABLES[platform.machine()][2]
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        try:
            while not any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poll.poll()):
                self._one()
        finally:
            os.close(self._fd)

    def _one(self) -> None:
        buffer = bytearray(_NOTIF.size)
        try:
            fcntl.ioctl(self._fd, _RECV, buffer)
        except OSError:
            return  # the caller died meanwhile
        ident, pid, _, number, _, _, *arguments = _NOTIF.unpack(buffer)
        try:
            self._look(pid, self._calls.get(number), arguments)
        except OSError:
            pass  # the caller died, or gave an address that is not there
        finally:
            try:
                fcntl.ioctl(self._fd, _SEND, _RESPONSE.pack(ident, 0, 0, _CONTINUE))
            except OSError:
                pass

    def _look(self, pid: int, call: Call | None, arguments: list[int]) -> None:
        if call is None:
            return
        if call.address is not None:
            raw = _memory(pid, arguments[call.address], min(arguments[call.address + 1], 128))
            why = judge_address(self._view, raw, lambda port: _listens(pid, port))
        elif call.path is not None:
            path = _path(pid, call, arguments)
            flags = arguments[call.flags] if call.flags is not None else 0
            writes = call.writes or bool(flags & _WRITE_FLAGS)
            why = judge_path(self._view, call.name, path, writes, lambda path: _hidden(pid, path)) if path else None
        else:
            return
        if why is not None:
            self._on_refused(why, f"{_name(pid)}: {call.name}")


def _memory(pid: int, address: int, count: int) -> bytes:
    fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, count, address)
    except OverflowError:
        return b""
    finally:
        os.close(fd)


def _path(pid: int, call: Call, arguments: list[int]) -> str | None:
    """The file that a call names, as the sandbox sees it, made absolute and plain. None: it names none."""
    assert call.path is not None
    address = arguments[call.path]
    first = min(_MAX_PATH, 4096 - address % 4096)  # to the page's end: the next one may not be there
    raw = _memory(pid, address, first)
    if b"\0" not in raw and first < _MAX_PATH:
        raw += _memory(pid, address + first, _MAX_PATH - first)
    name = raw.split(b"\0")[0].decode(errors="replace")
    if not name:
        return None
    if not name.startswith("/"):
        dirfd = (
            _AT_FDCWD
            if call.dirfd is None
            else struct.unpack("=i", struct.pack("=I", arguments[call.dirfd] & 0xFFFFFFFF))[0]
        )
        base = os.readlink(f"/proc/{pid}/cwd" if dirfd == _AT_FDCWD else f"/proc/{pid}/fd/{dirfd}")
        name = f"{base}/{name}"
    return os.path.normpath(name).replace("//", "/", 1)


def _hidden(pid: int, path: str) -> bool:
    """Whether the host has `path` and the caller's own root does not."""
    return os.path.lexists(path) and not os.path.lexists(f"/proc/{pid}/root{path}")


def _listens(pid: int, port: int) -> bool:
    """Whether something in the caller's own network listens on TCP or is bound on UDP `port`."""
    suffix = f":{port:04X}"
    for table in ("tcp", "tcp6", "udp", "udp6"):
        with open(f"/proc/{pid}/net/{table}") as lines:
            for line in lines:
                fields = line.split()
                if len(fields) > 3 and fields[1].endswith(suffix) and fields[3] in ("0A", "07"):
                    return True
    return False


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm") as comm:
            return comm.read().strip()
    except OSError:
        return "a process"
