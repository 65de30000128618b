"""The agent's own adb server: own port, own key, one pinned adb, never the desk's."""

from __future__ import annotations

from pathlib import Path

from adbutils import AdbClient


class AdbServer:
    """An adb server on 127.0.0.1:`port` whose key and log are in `key_dir`. It outlives the process that started it."""

    def __init__(self, port: int, key_dir: Path) -> None:
        raise NotImplementedError

    @property
    def client(self) -> AdbClient:
        """adbutils' client of this server; it never starts a server by itself."""
        raise NotImplementedError

    def start(self, timeout_s: float = 30.0) -> bool:
        """Make sure that a server of the pinned version answers; True if this call started it."""
        raise NotImplementedError

    def alive(self) -> bool:
        """Whether an adb server answers `host:version`."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ask the server to end and wait until it no longer answers."""
        raise NotImplementedError

    def connect(self, address: str, timeout_s: float = 15.0) -> None:
        """`adb connect host:port`; raises DeviceGone, DeviceOffline, Unauthorized, AdbServerGone."""
        raise NotImplementedError

    def disconnect(self, address: str) -> None:
        """`adb disconnect host:port`; not connected is fine."""
        raise NotImplementedError
