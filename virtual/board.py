"""First process inside the outer sandbox: boots the operating system when the hardware says so, and sizes /data.

Messages from the hardware: boot, reset, data-size. To it: up, off, data-size-set. Standard library only.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from pathlib import Path

from virtual.channel import Channel, Message
from virtual.sandbox import inner_command, python_command

MS_REMOUNT, MS_NOSUID, MS_NODEV = 32, 2, 4
MNT_DETACH = 2
DATA_FOLDERS = ("local", "local/tmp", "tombstones", "anr", "property", "misc", "system", "app", "data", "media")
_libc = ctypes.CDLL(None, use_errno=True)


class Board:
    """Runs at most one operating system at a time."""

    def __init__(self, channel: Channel, os_arguments: list[str], os_fds: list[int]) -> None:
        self._channel = channel
        self._os_arguments = os_arguments
        self._os_fds = os_fds
        self._system: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        """Serves the hardware until it is gone."""
        while True:
            try:
                message, _ = await self._channel.receive()
            except EOFError:
                return
            if message["op"] == "boot" and self._system is None:
                asyncio.get_running_loop().create_task(self._boot())
            elif message["op"] == "reset" and self._system is not None:
                self._system.kill()
            elif message["op"] == "data-size":
                self._channel.send({"op": "data-size-set", "error": self._resize(message)})

    async def _boot(self) -> None:
        command = inner_command(python_command("virtual.android.system", *self._os_arguments, program="adbd"))
        self._system = await asyncio.create_subprocess_exec(*command, pass_fds=self._os_fds)
        self._channel.send({"op": "up"})
        code = await self._system.wait()
        self._system = None
        self._channel.send({"op": "off", "code": code})

    def _resize(self, message: Message) -> str | None:
        """Sets the size of /data in bytes, or to what is used when `bytes` is null; the error text if it cannot."""
        status = os.statvfs("/data")
        if status.f_blocks == status.f_bfree:  # tmpfs takes size 0 for "no limit": have one page in use
            Path("/data/misc/.page").write_bytes(bytes(status.f_frsize))
            status = os.statvfs("/data")
        used = (status.f_blocks - status.f_bfree) * status.f_frsize
        size = used if message["bytes"] is None else int(message["bytes"])
        flags = MS_REMOUNT | MS_NOSUID | MS_NODEV
        if _libc.mount(b"tmpfs", b"/data", b"tmpfs", flags, f"size={size}".encode()) == 0:
            return None
        return os.strerror(ctypes.get_errno())


def _reveal_proc() -> None:
    """Takes bubblewrap's read-only covers away: the kernel would refuse the inner sandbox a fresh /proc with them."""
    for name in ("sys", "sysrq-trigger", "irq", "bus"):
        _libc.umount2(f"/proc/{name}".encode(), MNT_DETACH)


def main() -> None:
    """Arguments: our channel's fd, then the fds and arguments of the operating system."""
    board_fd, *rest = sys.argv[1:]
    _reveal_proc()
    for name in DATA_FOLDERS:
        Path("/data", name).mkdir(parents=True, exist_ok=True)
    for name in ("Download", "Android", "DCIM", "Pictures"):
        Path("/data/media/0", name).mkdir(parents=True, exist_ok=True)
    os.chmod("/data/local/tmp", 0o777)
    os_fds = [int(value) for value in rest if int(value) >= 0]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(Board(Channel.from_fd(int(board_fd)), rest, os_fds).run())
