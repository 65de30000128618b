"""One device, as everybody above this room sees it."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from farm.adb import sync
from farm.adb.errors import AdbError, NoSpace, RemoteError, last_words
from farm.adb.link import SERIAL_COMMAND, Link, clean_serial
from farm.adb.shell import MAX_OUTPUT, Process, ProcessLine, ShellResult, run
from farm.evidence import props

__all__ = ["MAX_OUTPUT", "Device", "Process", "ProcessLine", "ShellResult"]


class Device:
    """The device at `address` of the adb server at `server_host:server_port`.

    With `serial`, the device's own serial number (ro.serialno), every new transport is asked who it is before it is
    used, and IdentityMismatch is raised when it is another. Everything here raises DeviceUnavailable and its kinds when
    the device cannot be reached, and AdbServerGone when the adb server cannot.
    """

    def __init__(self, server_host: str, server_port: int, address: str, *, serial: str | None = None) -> None:
        self.address = address
        self._link = Link(server_host, server_port, address, serial)

    def __repr__(self) -> str:
        return f"Device({self.address!r})"

    def shell(
        self,
        command: str | Sequence[str],
        timeout_s: float = 30.0,
        stdin: bytes | None = None,
        max_output: int = MAX_OUTPUT,
    ) -> ShellResult:
        """Run a command to its end. A sequence is a program and its arguments, quoted; a string is a shell line.

        ShellTimeout after `timeout_s`: the command's process group on the device is killed first.
        """
        return run(self._link, command, timeout_s, stdin, max_output)

    def check_shell(self, command: str | Sequence[str], timeout_s: float = 30.0, stdin: bytes | None = None) -> str:
        """`shell` for a command that must succeed: its output; RemoteError with what it wrote when it does not."""
        result = self.shell(command, timeout_s, stdin)
        if result.exit_code != 0:
            said = last_words(result.stderr_bytes or result.stdout_bytes)
            line = command if isinstance(command, str) else shlex.join(command)
            raise RemoteError(f"{self.address}: {line[:80]!r} ended with {result.exit_code} and said: {said}")
        return result.stdout

    def spawn(self, command: str | Sequence[str]) -> Process:
        """Start a command and return at once."""
        return Process(self._link, command)

    def push(
        self,
        local: Path,
        remote: str,
        mode: int = 0o644,
        *,
        progress: Callable[[int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> int:
        """Send a file; `remote` appears, whole, or not at all. `progress` gets the bytes sent so far.

        Returns the bytes sent. Raises NoSpace with the numbers, Cancelled, RemoteError.
        """
        part = f"{remote}.part"
        try:
            sent = self.send(local, part, mode, progress=progress, cancelled=cancelled)
        except RemoteError:
            self._forget(part)
            raise
        self.check_shell(["mv", "-f", part, remote])
        return sent

    def send(
        self,
        local: Path,
        remote: str,
        mode: int = 0o644,
        *,
        progress: Callable[[int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> int:
        """`push` straight to `remote`: after an error a part of the file may be there."""
        try:
            return sync.send(self._link, local, remote, mode, progress, cancelled)
        except NoSpace as error:
            needed, free = local.stat().st_size, self.free_bytes(os.path.dirname(remote) or "/")
            raise NoSpace(
                f"{self.address}: no space for {remote}: it has {needed} bytes, {free} are free",
                needed=needed,
                free=free,
            ) from error

    def pull(self, remote: str, local: Path, limit: int = 64 << 20) -> int:
        """Fetch a file of at most `limit` bytes. `local` appears only when whole. Returns its size."""
        part = local.with_name(local.name + ".part")
        try:
            with part.open("wb") as target:
                size = sync.receive(self._link, remote, target, limit)
            part.replace(local)
        finally:
            part.unlink(missing_ok=True)
        return size

    def props(self) -> dict[str, str]:
        """Every system property; empty on a board without Android."""
        result = self.shell(["getprop"])
        return {} if result.exit_code in (126, 127) else props.parse(result.stdout)

    def boot_id(self) -> str:
        """The kernel's random name of this boot: another one means that the device was restarted."""
        return self.check_shell(["cat", "/proc/sys/kernel/random/boot_id"]).strip()

    def serial(self) -> str:
        """The device's own serial number: ro.serialno, or the device tree's on a board without Android."""
        return clean_serial(self._link.output(SERIAL_COMMAND))

    def state(self) -> str:
        """adb's word for it: device, offline, …; DeviceGone when adb does not list it."""
        return self._link.state()

    def free_bytes(self, path: str) -> int | None:
        """Free bytes of the file system of `path`; None when the device does not tell."""
        try:
            text = self.check_shell(["stat", "-f", "-c", "%a %S", path])
            blocks, size = (int(word) for word in text.split())
        except (RemoteError, ValueError):
            return None
        return blocks * size

    def reboot(self) -> None:
        """Restart it. Returns once the device has taken the order; it is gone for a while afterwards."""
        with self._link.service("reboot:") as connection:
            try:
                connection.sock.settimeout(10)
                connection.sock.recv(1)
            except OSError:
                pass  # some devices keep the connection until they go, some break it

    def open_tcp(self, port: int, timeout_s: float = 10.0) -> socket.socket:
        """A byte stream to a port of the device's own loopback, without any forward on the host.

        RemoteError when nothing listens there.
        """
        connection = self._link.service(f"tcp:{port}", timeout_s)
        connection.sock.settimeout(None)
        return connection.sock

    def forwards(self) -> dict[str, str]:
        """What leads to the device and back: `forward tcp:1` → `tcp:2` at the adb server, `reverse tcp:3` → `tcp:4`."""
        found = {f"forward {local}": remote for local, remote in self._link.forwards().items()}
        try:
            with self._link.service("reverse:list-forward") as connection:
                back = [line.split() for line in connection.block().splitlines()]
        except RemoteError:
            return found  # the device knows no reverse forwards
        return found | {f"reverse {line[-2]}": line[-1] for line in back if len(line) >= 2}

    def set_forward(self, name: str, target: str | None) -> None:
        """Make a forward of `forwards` lead to `target`, or end it (None). Raises RemoteError."""
        kind, _, local = name.partition(" ")
        order = f"forward:{local};{target}" if target is not None else f"killforward:{local}"
        if kind == "forward":
            self._link.question(order)
        else:
            self._link.service(f"reverse:{order}").close()

    def _forget(self, part: str) -> None:
        try:
            self.shell(["rm", "-f", part], timeout_s=10)
        except AdbError:
            pass  # the error that brought us here says more
