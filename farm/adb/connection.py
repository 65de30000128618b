"""Connections to an adb server: adbutils' framing, our errors, and who died when one breaks.

The server's protocol is a smart socket: four hex digits of length, a service string, then OKAY or FAIL with a reason.
`host:tport:serial:ADDRESS` binds the connection to a device and tells the transport's id; what is asked next goes to
the device. Source of the format: AOSP `packages/modules/adb/SERVICES.TXT`.
"""

from __future__ import annotations

import re
import select
import socket
import struct
from types import TracebackType

from adbutils import AdbClient, AdbConnection
from adbutils.errors import AdbError as AdbutilsError
from adbutils.errors import AdbTimeout

from farm.adb.deadline import Patience
from farm.adb.errors import (
    AdbError,
    AdbServerGone,
    DeviceGone,
    DeviceOffline,
    DeviceUnavailable,
    RemoteError,
    from_server,
    last_words,
    seconds,
)

#: Answers of the adb server itself, which runs on this host.
SERVER_TIMEOUT_S = 10.0
#: The one question that no device has a part in; a lens answers it too.
VERSION_S = 5.0
#: A service string's length is four hex digits.
MAX_SERVICE = 0xFFFF
#: An address that names one transport and nothing else, for devices that share serial and path.
_TRANSPORT = re.compile(r"transport:(\d{1,10})\Z")


class _Connection(AdbConnection):  # type: ignore[misc]  # adbutils ships no types
    """adbutils' connection without its habit of starting an adb server on whatever port the environment names."""

    def _safe_connect(self) -> socket.socket:
        connected: socket.socket = self._create_socket()
        return connected


class Client(AdbClient):  # type: ignore[misc]
    """adbutils' client of one server; it never starts one by itself."""

    def make_connection(self, timeout: float | None = None) -> AdbConnection:
        connection = _Connection(self.host, self.port)
        connection.conn.settimeout(timeout or SERVER_TIMEOUT_S)
        return connection


class NoAnswer(AdbServerGone):
    """The connection stands and nothing comes. Where a device was asked for, it may be the one that is silent."""


class HostSocket:
    """One connection to the adb server at `host:port`. Use as a context manager, or `detach` the socket."""

    def __init__(self, host: str, port: int, timeout_s: float = SERVER_TIMEOUT_S) -> None:
        self.where = f"{host}:{port}"
        try:
            self._connection = _Connection(host, port)
        except (AdbutilsError, OSError) as error:
            raise AdbServerGone(f"no adb server at {self.where}: {error}") from error
        self.sock.settimeout(timeout_s)

    @property
    def sock(self) -> socket.socket:
        sock: socket.socket = self._connection.conn
        return sock

    def send_service(self, service: str) -> None:
        data = service.encode("utf-8", "surrogateescape")
        if len(data) > MAX_SERVICE:
            raise RemoteError(
                f"a request of {len(data)} bytes is longer than adb's {MAX_SERVICE}",
                remedy="send long scripts on standard input",
            )
        try:
            self.sock.sendall(b"%04x" % len(data) + data)
        except OSError as error:
            raise AdbServerGone(f"adb server at {self.where}: {error}") from error

    def expect_okay(self, address: str = "adb server") -> None:
        """Read the answer to a request; FAIL becomes the error that its text means."""
        status = self.read(4)
        if status == b"OKAY":
            return
        if status == b"FAIL":
            raise from_server(self.block(), address)
        raise RemoteError(
            f"what answers at {self.where} is no adb server: {status!r}",
            remedy="choose another port for the adb server",
        )

    def request(self, service: str, address: str = "adb server") -> None:
        self.send_service(service)
        self.expect_okay(address)

    def read(self, size: int) -> bytes:
        """`size` bytes. NoAnswer when none comes within the socket's limit (see `Patience`)."""
        if (limit_s := self.sock.gettimeout()) is not None and not self._readable(limit_s):
            raise NoAnswer(f"adb server at {self.where} does not answer within {seconds(limit_s)}")
        try:
            data: bytes = self._connection.read_exact(size)
        except (AdbTimeout, TimeoutError) as error:
            raise NoAnswer(f"adb server at {self.where} does not answer: {error}") from error
        except (AdbutilsError, EOFError, OSError) as error:
            raise AdbServerGone(f"adb server at {self.where} ended the connection: {error}") from error
        return data

    def _readable(self, limit_s: float) -> bool:
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        if poll.poll(0):
            return True
        limit = Patience(limit_s)
        while not (ready := poll.poll((limit.remaining() or 0.0) * 1000 + 1)) and not limit.expired:
            pass
        return bool(ready)

    def block(self) -> str:
        """A length-prefixed text of the server (at most 64 KiB: four hex digits)."""
        head = self.read(4)
        try:
            size = int(head, 16)
        except ValueError as error:
            raise RemoteError(f"what answers at {self.where} is no adb server: it said {last_words(head)}") from error
        return self.read(size).decode("utf-8", "replace")

    def close(self) -> None:
        if not self._connection.closed:
            self.sock.close()

    def __enter__(self) -> HostSocket:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def query(host: str, port: int, service: str, address: str = "adb server", timeout_s: float = SERVER_TIMEOUT_S) -> str:
    """Ask the server one thing that it answers with a text."""
    with HostSocket(host, port, timeout_s) as connection:
        connection.request(service, address)
        return connection.block()


def open_transport(host: str, port: int, address: str, timeout_s: float = SERVER_TIMEOUT_S) -> tuple[HostSocket, int]:
    """A connection whose next request goes to the device at `address`, and the id of its transport."""
    connection = HostSocket(host, port, timeout_s)
    try:
        if numbered := _TRANSPORT.match(address):
            connection.request(f"host:transport-id:{numbered[1]}", address)
            return connection, int(numbered[1])
        connection.request(f"host:tport:serial:{address}", address)
        return connection, int(struct.unpack("<Q", connection.read(8))[0])
    except NoAnswer as error:
        connection.close()
        _ask_version(host, port)
        raise DeviceOffline(f"{address} does not answer: adb waited {seconds(timeout_s)} for it in vain") from error
    except BaseException:
        connection.close()
        raise


def _ask_version(host: str, port: int) -> None:
    """Whether the server is there at all. Raises AdbServerGone."""
    query(host, port, "host:version", timeout_s=VERSION_S)


def device_query(host: str, port: int, address: str, what: str) -> str:
    """A `host-serial:` question: get-state, features, get-devpath …"""
    return query(host, port, f"{device_prefix(address)}:{what}", address)


def device_prefix(address: str) -> str:
    """How a request to the server names the device."""
    numbered = _TRANSPORT.match(address)
    return f"host-transport-id:{numbered[1]}" if numbered else f"host-serial:{address}"


class Canary:
    """An idle connection that breaks when the adb server dies, and only then.

    A command's connection ends in the same way whether the device or the server went; a server that was restarted at
    once looks alive. This tells them apart.
    """

    def __init__(self, host: str, port: int) -> None:
        self._connection = HostSocket(host, port)

    def dead(self, grace_s: float = 0.3) -> bool:
        """Whether the server that was there at the beginning is gone. `grace_s`: a dying process closes one by one."""
        sock = self._connection.sock
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(grace_s * 1000))  # it never says anything: readable means ended

    def close(self) -> None:
        self._connection.close()


def why_lost(host: str, port: int, address: str, canary: Canary | None, doing: str) -> AdbError:
    """The error for a connection to `address` that ended while it was `doing` something."""
    if canary is not None and canary.dead():
        return AdbServerGone(f"the adb server at {host}:{port} died while {doing} on {address}")
    try:
        state = device_query(host, port, address, "get-state")
    except DeviceUnavailable as error:
        return DeviceGone(f"{address} was lost while {doing}: {error}")
    except AdbError as error:
        return AdbServerGone(f"the adb server at {host}:{port} was lost while {doing} on {address}: {error}")
    return DeviceGone(f"{address} was lost while {doing}; adb lists it again as {state!r}")
