"""The agent's own adb server: own port, own key, one pinned adb, never the desk's.

It is a process of its own session and outlives the farm, since live runners hold connections through it. Kill requests
of other clients are refused (an adb of another version would send one by itself), mDNS and the search for emulators are
off, so that it lists nothing that nobody asked for.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import adbutils

from farm.adb.connection import Client, device_query, query
from farm.adb.deadline import Deadline
from farm.adb.errors import (
    AdbError,
    AdbServerGone,
    DeviceGone,
    DeviceOffline,
    RemoteError,
    Unauthorized,
    last_words,
    seconds,
)

#: The adb that is used: the one that adbutils brings.
ADB = Path(adbutils.__file__).parent / "binaries" / "adb"
_HOST = "127.0.0.1"


class AdbServer:
    """An adb server on 127.0.0.1:`port` whose key and log are in `key_dir`; its pid lies beside it, in `state_file`.

    `usb` False leaves USB devices alone; None: used where this machine has a USB bus.
    """

    def __init__(self, port: int, key_dir: Path, *, usb: bool | None = None) -> None:
        self.host, self.port, self.key_dir = _HOST, port, key_dir
        self._usb = Path("/dev/bus/usb").is_dir() if usb is None else usb
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"AdbServer({self.host}:{self.port})"

    @property
    def client(self) -> Client:
        """adbutils' client of this server; it never starts a server by itself."""
        return Client(self.host, self.port)

    @property
    def state_file(self) -> Path:
        """`{"pid", "port"}` of the server started last. Not in `key_dir`: adb takes each new file there for a key."""
        return self.key_dir.with_name(f"{self.key_dir.name}-server.json")

    def start(self, timeout_s: float = 30.0) -> bool:
        """Make sure that our own server of the pinned version answers; True if this call started it.

        RemoteError when something else has the port: no adb server, one of another version, or somebody else's, which
        has other keys and other devices, and ends when its owner likes.
        """
        if self.alive():
            self._check_ours()
            self._check_version()
            return False
        self.key_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self.key_dir / "server.log").open("ab") as log:
            process = self._process = subprocess.Popen(
                [ADB, "-P", str(self.port), "server", "nodaemon"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(),
                cwd="/",
                start_new_session=True,
            )
        limit = Deadline(timeout_s)
        while not self.alive():
            if (code := process.poll()) is not None:
                if self._wait_alive(Deadline(2)):
                    self._check_ours()
                    return False  # another process of ours was faster
                raise AdbServerGone(
                    f"the adb server on port {self.port} ended at once ({code}): {self._last_words()}",
                    remedy=f"see {self.key_dir / 'server.log'}; is the port free?",
                )
            if limit.expired:
                raise AdbServerGone(f"the adb server on port {self.port} does not answer after {seconds(timeout_s)}")
            time.sleep(0.02)
        self.state_file.write_text(json.dumps({"pid": process.pid, "port": self.port}))
        self._check_version()
        return True

    def alive(self) -> bool:
        """Whether an adb server answers `host:version`; RemoteError when something else answers."""
        try:
            query(self.host, self.port, "host:version", timeout_s=5)
        except AdbServerGone:
            return False
        return True

    def stop(self, timeout_s: float = 10.0) -> None:
        """End the server, if it is the one of this `key_dir`, and wait until it no longer answers."""
        pid = self.pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        limit = Deadline(timeout_s)
        while pid is not None and not limit.expired and self.pid() is not None:
            time.sleep(0.02)
        if self._process is not None and self._process.poll() is not None:
            self._process = None

    def pid(self) -> int | None:
        """The process of the server that this `key_dir` started last; None when it has ended."""
        if self._process is not None and self._process.poll() is not None:
            self._process = None  # our child: take its exit status, a zombie looks alive
        try:
            pid = int(json.loads(self.state_file.read_text())["pid"])
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError, KeyError):
            return None
        return pid if command[1:3] == [b"-P", str(self.port).encode()] else None

    def connect(self, address: str, timeout_s: float = 15.0) -> None:
        """`adb connect host:port`; raises DeviceGone, Unauthorized, AdbServerGone.

        A transport whose device was away is "already connected" for adb, and offline for ever: it is made anew.
        """
        answer = query(self.host, self.port, f"host:connect:{address}", address, timeout_s)
        if answer.startswith("already connected to") and self._is_offline(address):
            self.disconnect(address)
            answer = query(self.host, self.port, f"host:connect:{address}", address, timeout_s)
        if answer.startswith(("connected to", "already connected to")):
            return
        if "authenticate" in answer or "unauthorized" in answer:
            raise Unauthorized(f"{address}: {answer}")
        raise DeviceGone(f"{address}: {answer}", remedy="is the device up, and does it listen on that port?")

    def disconnect(self, address: str) -> None:
        """`adb disconnect host:port`; not connected is fine."""
        with contextlib.suppress(RemoteError, DeviceGone, DeviceOffline):
            query(self.host, self.port, f"host:disconnect:{address}", address)

    def _is_offline(self, address: str) -> bool:
        try:
            return device_query(self.host, self.port, address, "get-state") == "offline"
        except DeviceOffline:
            return True
        except DeviceGone:
            return False

    def _wait_alive(self, limit: Deadline) -> bool:
        while not self.alive():
            if limit.expired:
                return False
            time.sleep(0.05)
        return True

    def _check_version(self) -> None:
        found = int(query(self.host, self.port, "host:version"), 16)
        wanted = _pinned_version()
        if wanted is not None and found != wanted:
            raise RemoteError(
                f"the adb server on port {self.port} speaks version {found}, the pinned adb {wanted}",
                remedy="end that server, or choose another port for the farm's",
            )

    def _check_ours(self) -> None:
        pid = listener(self.port)
        home = _variable(pid, "HOME") if pid is not None else None
        if home != str(self.key_dir):
            whose = f"process {pid}" if pid is not None else "a process of another user or container"
            raise RemoteError(
                f"the adb server on port {self.port} is {whose}, which was not started with the keys in {self.key_dir}",
                remedy=f"end it ({f'kill {pid}' if pid is not None else 'its owner can'}), or name another port for "
                "the farm's own in FARM_ADB_PORT",
            )
        if pid != self.pid():
            self.state_file.write_text(json.dumps({"pid": pid, "port": self.port}))

    def _environment(self) -> dict[str, str]:
        kept = {key: os.environ[key] for key in ("PATH", "LANG", "LC_ALL") if key in os.environ}
        return kept | {
            "HOME": str(self.key_dir),
            "TMPDIR": str(self.key_dir),
            "ANDROID_ADB_LOG_PATH": str(self.key_dir / "adb.log"),
            "ADB_VENDOR_KEYS": str(self.key_dir),
            "ADB_REJECT_KILL_SERVER": "1",
            "ADB_MDNS": "0",
            "ADB_MDNS_AUTO_CONNECT": "0",
            "ADB_EMU": "0",
            "ADB_USB": "1" if self._usb else "0",
            "ADB_TCP_KEEPALIVE_INTERVAL": "5",
        }

    def _last_words(self) -> str:
        try:
            return last_words((self.key_dir / "server.log").read_bytes())
        except OSError as error:
            return str(error)


def listener(port: int) -> int | None:
    """The process that listens on TCP `port` of this machine; None where there is none that we may look at."""
    wanted = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), Path("/proc/net", table).open() as lines:
            rows = [line.split() for line in lines]
            wanted |= {f"socket:[{row[9]}]" for row in rows if row[3] == "0A" and row[1].endswith(f":{port:04X}")}
    return next((int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and wanted & _open_files(p)), None)


def _open_files(process: Path) -> set[str]:
    """What a process has open; files come and go while we look, and others' processes do not let us."""
    found = set()
    with contextlib.suppress(OSError):
        for fd in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(os.readlink(fd))
    return found


def _variable(pid: int, name: str) -> str | None:
    """A variable of another process's environment."""
    try:
        pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    found = (value for key, _, value in (pair.partition(b"=") for pair in pairs) if key == name.encode())
    value = next(found, None)
    return None if value is None else os.fsdecode(value)


_version: list[int | None] = []


def _pinned_version() -> int | None:
    """The protocol version of the pinned adb (41: `Android Debug Bridge version 1.0.41`)."""
    if not _version:
        try:
            text = subprocess.run([ADB, "version"], capture_output=True, text=True, timeout=20, check=True).stdout
            _version.append(int(text.split("version 1.0.")[1].split()[0]))
        except (OSError, subprocess.SubprocessError, IndexError, ValueError) as error:
            raise AdbError(
                f"{ADB} does not run: {error}", remedy="install adbutils' wheel for this platform"
            ) from error
    return _version[0]
