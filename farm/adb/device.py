"""One device, as everybody above this room sees it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Output of one command that is kept by default, stdout and stderr each. What comes after is read and dropped.
MAX_OUTPUT = 4 << 20


@dataclass(frozen=True, slots=True)
class ShellResult:
    """How a command ended. `exit_code` is the shell's: 128 + n after signal n."""

    exit_code: int
    stdout_bytes: bytes
    stderr_bytes: bytes
    truncated: bool

    @property
    def stdout(self) -> str:
        """Standard output as text; bytes that are no UTF-8 become U+FFFD."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class ProcessLine:
    stream: str  # "stdout" or "stderr"
    text: str


class Process:
    """A running command. Closing or killing it ends its whole process group on the device."""

    pid: int | None  # on the device; the command itself when it was given as a sequence
    exit_code: int | None

    def lines(self, timeout_s: float | None = None) -> Iterator[ProcessLine]:
        """Lines as they come, until the command ends. `timeout_s` limits the silence before each line (ShellTimeout)."""
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        """Send to its standard input."""
        raise NotImplementedError

    def close_stdin(self) -> None:
        raise NotImplementedError

    def kill(self) -> None:
        """End the command's process group on the device, and the connection."""
        raise NotImplementedError


class Device:
    """The device at `address` of the adb server at `server_host:server_port`.

    With `serial`, the device's own serial number (ro.serialno), every new transport is asked who it is before it is
    used, and IdentityMismatch is raised when it is another.
    """

    def __init__(self, server_host: str, server_port: int, address: str, *, serial: str | None = None) -> None:
        raise NotImplementedError

    def shell(
        self,
        command: str | Sequence[str],
        timeout_s: float = 30.0,
        stdin: bytes | None = None,
        max_output: int = MAX_OUTPUT,
    ) -> ShellResult:
        """Run a command to its end. A sequence is quoted; a string is a shell line."""
        raise NotImplementedError

    def spawn(self, command: str | Sequence[str]) -> Process:
        """Start a command and return at once."""
        raise NotImplementedError

    def push(
        self,
        local: Path,
        remote: str,
        mode: int = 0o644,
        *,
        progress: Callable[[int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> int:
        """Send a file; `progress` gets the bytes sent so far. Returns the bytes sent."""
        raise NotImplementedError

    def pull(self, remote: str, local: Path, limit: int = 64 << 20) -> int:
        """Fetch a file of at most `limit` bytes. `local` appears only when whole. Returns its size."""
        raise NotImplementedError

    def props(self) -> dict[str, str]:
        raise NotImplementedError

    def boot_id(self) -> str:
        raise NotImplementedError

    def serial(self) -> str:
        """The device's own serial number: ro.serialno."""
        raise NotImplementedError

    def state(self) -> str:
        """adb's word for it: device, offline, …; raises DeviceGone when adb does not list it."""
        raise NotImplementedError

    def reboot(self) -> None:
        raise NotImplementedError

    def open_tcp(self, port: int, timeout_s: float = 10.0) -> socket.socket:
        """A byte stream to a port of the device's own loopback, without any forward on the host."""
        raise NotImplementedError
