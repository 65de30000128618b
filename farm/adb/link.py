"""The way to one device: opens its services, proves that it is the right one, explains a loss."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable

from farm.adb.connection import Canary, HostSocket, device_prefix, device_query, open_transport, query, why_lost
from farm.adb.deadline import Patience
from farm.adb.errors import (
    AdbError,
    AdbServerGone,
    DeviceGone,
    DeviceUnavailable,
    IdentityMismatch,
    RemoteError,
    ShellTimeout,
)

#: How long a device may take to accept a service. A phone under full load still starts a shell within seconds.
SERVICE_TIMEOUT_S = 30.0
#: After this much silence of a running command the device is asked whether it lives …
QUIET_S = 5.0
#: … and this is how long it may take to answer before it counts as gone.
PROBE_S = 20.0
#: Android's own serial number; a board without Android has the device tree's.
SERIAL_COMMAND = "getprop ro.serialno 2>/dev/null || cat /proc/device-tree/serial-number 2>/dev/null"


class Link:
    """`address` at the adb server on `host`:`port`; with `serial`, each new transport must prove to be that device."""

    def __init__(self, host: str, port: int, address: str, serial: str | None = None) -> None:
        self.host, self.port, self.address, self.serial = host, port, address, serial
        self._lock = threading.Lock()
        self._proven: int | None = None  # the transport that told the right serial number
        self._canary: Canary | None = None

    def service(self, service: str, timeout_s: float = SERVICE_TIMEOUT_S) -> HostSocket:
        """A connection to a service of the device (`shell,v2,raw:…`, `sync:`, `tcp:8080`), accepted by the device."""
        connection = self.start_service(service, timeout_s)
        doing = f"opening {service[:60]!r}"
        try:
            connection.expect_okay(self.address)
        except AdbServerGone as error:
            connection.close()
            raise self.lost(doing) from error
        except RemoteError as error:
            connection.close()
            raise self._refused(service, error) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def start_service(self, service: str, timeout_s: float = SERVICE_TIMEOUT_S) -> HostSocket:
        """`service` without waiting for the device to accept it."""
        connection, _ = self.transport()
        try:
            connection.sock.settimeout(timeout_s)
            connection.send_service(service)
        except BaseException:
            connection.close()
            raise
        return connection

    def lost(self, doing: str) -> AdbError:
        """The error for a connection of this link that ended while it was `doing` something."""
        return why_lost(self.host, self.port, self.address, self._canary, doing)

    def output(self, command: str, timeout_s: float = 10.0, limit: int = 64 << 10) -> bytes:
        """What a short command prints, without the shell protocol; for this room's own small questions."""
        with self.service(f"exec:{command}", timeout_s) as connection:
            try:
                return _read_all(connection, timeout_s, limit)
            except TimeoutError as error:
                raise ShellTimeout(f"{self.address}: {command[:60]!r}: {error}") from error

    def state(self) -> str:
        return device_query(self.host, self.port, self.address, "get-state")

    def question(self, what: str) -> None:
        """Ask the server to do something about the device that it answers with a mere OKAY."""
        with HostSocket(self.host, self.port) as connection:
            connection.request(device_prefix(self.address) + f":{what}", self.address)

    def forwards(self) -> dict[str, str]:
        """The server's forwards to this device: local → remote end."""
        name = device_query(self.host, self.port, self.address, "get-serialno")
        lines = [line.split() for line in query(self.host, self.port, "host:list-forward").splitlines()]
        return {line[1]: line[2] for line in lines if len(line) == 3 and line[0] == name}

    def transport(self) -> tuple[HostSocket, int]:
        """A connection bound to the device, which has proven who it is, and the id of its transport."""
        self._watch_server()
        connection, transport = open_transport(self.host, self.port, self.address)
        if self.serial is not None and transport != self._proven:
            try:
                self._prove(transport)
            except BaseException:
                connection.close()
                raise
        return connection, transport

    def _watch_server(self) -> None:
        """A server that was restarted counts transports from 1 again: nothing is proven any more."""
        with self._lock:
            if self._canary is not None and not self._canary.dead(grace_s=0):
                return
            if self._canary is not None:
                self._canary.close()
            self._proven = None
            self._canary = Canary(self.host, self.port)
            weakref.finalize(self, self._canary.close)

    def _prove(self, transport: int) -> None:
        connection, _ = open_transport(self.host, self.port, f"transport:{transport}")
        with connection:
            connection.sock.settimeout(SERVICE_TIMEOUT_S)
            try:
                connection.request(f"exec:{SERIAL_COMMAND}", self.address)
                found = clean_serial(_read_all(connection, SERVICE_TIMEOUT_S, 4096))
            except (AdbServerGone, TimeoutError) as error:
                raise self.lost("asking for its serial number") from error
            except RemoteError as error:  # "closed": it went while it was asked
                raise self._refused(f"exec:{SERIAL_COMMAND}", error) from error
        if not found and (state := self.state()) != "device":
            raise DeviceGone(f"{self.address} went {state} while it was asked for its serial number")
        if found != self.serial:
            raise IdentityMismatch(
                f"{self.address} answers as {found or 'a device without a serial'}, not {self.serial}"
            )
        with self._lock:
            self._proven = transport

    def _refused(self, service: str, error: RemoteError) -> AdbError:
        try:
            state = self.state()
        except DeviceUnavailable as gone:
            return gone
        if state != "device":
            return DeviceGone(f"{self.address} went {state} while opening {service[:60]!r}")
        return RemoteError(
            f"{self.address} refused {service[:60]!r}: {error}", remedy="is the service there? (see its log)"
        )


def clean_serial(text: bytes) -> str:
    return text.replace(b"\0", b"").decode("utf-8", "replace").strip()


def _read_all(connection: HostSocket, timeout_s: float, limit: int) -> bytes:
    """Everything until the other side ends; what is beyond `limit` is dropped. TimeoutError after `timeout_s`."""
    until = Patience(timeout_s)
    data = bytearray()
    while True:
        left = until.remaining()
        if not left:
            raise TimeoutError(f"no end after {until.words}")
        connection.sock.settimeout(left)
        try:
            chunk = connection.sock.recv(1 << 16)
        except TimeoutError:
            continue  # over, unless the host was too busy to listen
        except OSError:
            return bytes(data)
        if not chunk:
            return bytes(data)
        data += chunk[: max(0, limit - len(data))]


class Pulse:
    """Whether a silent device lives: after QUIET_S without a byte it is asked to start an empty shell.

    A pulled plug on a network device closes nothing: without this, only TCP's own time-outs would tell, minutes later.
    """

    def __init__(self, link: Link, clock: Callable[[], float] = time.monotonic) -> None:
        self._link = link
        self._clock = clock
        self._heard_at = clock()
        self._probe: HostSocket | None = None
        self._probe_limit = Patience(None)

    @property
    def probe(self) -> HostSocket | None:
        """The question under way; readable once it is answered."""
        return self._probe

    def heard(self) -> None:
        """The device said something."""
        self._heard_at = self._clock()
        self.close()

    def due_in(self) -> float:
        """Seconds until `check` has something to do."""
        if self._probe is not None:
            return self._probe_limit.remaining() or 0.0
        return max(0.0, self._heard_at + QUIET_S - self._clock())

    def check(self, answered: bool) -> None:
        """Ask, take the answer, or give up: raises DeviceUnavailable or AdbServerGone when the device is not there."""
        if self._probe is None:
            if self.due_in() == 0:
                self._probe = self._link.start_service("shell,v2,raw:")
                self._probe_limit = Patience(PROBE_S)
        elif answered:
            try:
                alive = bool(self._probe.sock.recv(4))
            except OSError:
                alive = False
            if not alive:
                raise self._link.lost("being asked for a sign of life")
            self.heard()
        elif self.due_in() == 0:
            silence = f"{QUIET_S:g} s, and for {self._probe_limit.words} after it was asked"
            raise DeviceGone(f"{self._link.address} gives no sign of life for {silence}")

    def close(self) -> None:
        if self._probe is not None:
            self._probe.close()
            self._probe = None
