"""Which devices adb lists, now and at every change.

`adb devices -l` prints one line per transport. Serial numbers there are addresses (host:port for a network device), and
on boards they are often the same for all: then the USB path, or the transport's number, tells them apart.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields

from farm.adb.connection import HostSocket
from farm.adb.deadline import Deadline
from farm.adb.errors import AdbError, DeviceGone, seconds
from farm.adb.keeper import Keeper
from farm.adb.server import AdbServer
from farm.evidence.adb_output import DeviceLine, parse_devices

log = logging.getLogger(__name__)

#: For so long after a new adb server began, or since the last one died, what it does not list may still come.
GRACE_S = (10.0, 30.0)
#: After an adb server died: first wait, and the longest.
_BACKOFF_S = (0.1, 10.0)


@dataclass(frozen=True, slots=True)
class AdbEntry:
    """One line of `adb devices -l`. `address` is what to give to `Device`: unique, even where serials are not."""

    address: str
    state: str  # device, offline, unauthorized, …: adb's own word
    serial: str  # as adb prints it: host:port for a network device; not its identity
    product: str | None = None
    model: str | None = None
    device: str | None = None
    usb: str | None = None
    transport_id: int | None = None


def entries_of(text: str) -> list[AdbEntry]:
    """What `host:devices-l` answered, each with an address of its own."""
    lines = parse_devices(text)
    serials = Counter(line.serial for line in lines)
    paths = Counter(line.usb for line in lines if line.usb)
    return [
        AdbEntry(address=_address(line, serials, paths), **{f.name: getattr(line, f.name) for f in fields(line)})
        for line in lines
    ]


def _address(line: DeviceLine, serials: Counter[str], paths: Counter[str]) -> str:
    """The serial where it is enough, then the USB path, then the transport's number."""
    if serials[line.serial] == 1:
        return line.serial
    if line.usb and paths[line.usb] == 1:
        return f"usb:{line.usb}"
    return f"transport:{line.transport_id}" if line.transport_id is not None else line.serial


class Tracker:
    """A thread that follows `host:track-devices-l` and restarts a dead adb server; with `Keeper` beside it.

    `on_change` gets every new list, `on_server` a sentence whenever the server died or came back; both are called from
    the tracker's thread.
    """

    def __init__(
        self,
        server: AdbServer,
        on_change: Callable[[Sequence[AdbEntry]], None] | None = None,
        on_server: Callable[[str], None] | None = None,
    ) -> None:
        self._server = server
        self._on_change = on_change or (lambda entries: None)
        self._on_server = on_server or (lambda text: None)
        self._changed = threading.Condition()
        self._entries: list[AdbEntry] = []
        self._stopping = threading.Event()
        self._socket: HostSocket | None = None
        self._lost_at: float | None = None  # the server is away since then
        self._back_at = float("-inf")
        self._trouble: str | None = None
        self._thread: threading.Thread | None = None
        self._keeper = Keeper(server, lambda: {entry.serial: entry.state for entry in self.entries()})

    def start(self) -> None:
        """Start the adb server if none answers, and follow it. Raises what `AdbServer.start` raises."""
        self._server.start()
        name = f"adb-tracker-{self._server.port}"
        self._thread = threading.Thread(target=self._follow_for_ever, name=name, daemon=True)
        self._thread.start()
        self._keeper.start()

    def stop(self) -> None:
        """End the threads; the adb server goes on."""
        self._stopping.set()
        self._keeper.stop()
        with self._changed:
            if self._socket is not None:
                _shut(self._socket.sock)
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=20)

    def entries(self) -> list[AdbEntry]:
        """What adb listed last; empty while the adb server is away."""
        with self._changed:
            return list(self._entries)

    @property
    def steady(self) -> bool:
        """Whether a device that is not listed is gone. Not so while the adb server is being replaced: its devices come
        back with the new one, and what holds them keeps them meanwhile."""
        now = time.monotonic()
        with self._changed:
            lost_at, back_at = self._lost_at, self._back_at
        return now - back_at > GRACE_S[0] if lost_at is None else now - lost_at > GRACE_S[1]

    @property
    def trouble(self) -> str | None:
        """Why no adb server of ours can be had, and what to do; None: there is one, or it is just being started."""
        with self._changed:
            return self._trouble

    def why_not(self, address: str) -> str | None:
        """What the last try to connect a kept address ended with; None when it is online, or not tried yet."""
        return self._keeper.why_not(address)

    def keep(self, addresses: Iterable[str]) -> None:
        """The network addresses to keep connected from now on (replaces the earlier set)."""
        self._keeper.keep(addresses)

    def wait_for(self, address: str, state: str = "device", timeout_s: float = 30.0) -> AdbEntry:
        """The entry of `address` once it is in `state`; raises DeviceGone after `timeout_s`."""
        limit = Deadline(timeout_s)
        with self._changed:
            while True:
                found = next((entry for entry in self._entries if entry.address == address), None)
                if found is not None and found.state == state:
                    return found
                if limit.expired or self._stopping.is_set():
                    seen = f"it is {found.state}" if found else "adb does not list it"
                    raise DeviceGone(f"{address} is not {state!r} after {seconds(timeout_s)}: {seen}")
                self._changed.wait(limit.remaining(5.0))

    # ---- the thread ----

    def _follow_for_ever(self) -> None:
        backoff = _BACKOFF_S[0]
        while not self._stopping.is_set():
            try:
                self._make_sure()
                backoff = _BACKOFF_S[0]
                self._follow()
            except Exception as error:
                if self._stopping.is_set():
                    return
                if not isinstance(error, AdbError):
                    log.exception("following the adb server failed")
                with self._changed:
                    news, self._lost_at = self._lost_at is None, self._lost_at or time.monotonic()
                self._publish([])
                if news:
                    self._say(f"the adb server on port {self._server.port} is away ({error}); restarting it")
                self._stopping.wait(backoff)
                backoff = min(backoff * 2, _BACKOFF_S[1])

    def _make_sure(self) -> None:
        """There is a server. One that this call had to start, or that was lost before, lists its devices only soon."""
        try:
            started = self._server.start()
        except AdbError as error:
            words = f"the adb server on port {self._server.port} does not start: {error} ({error.remedy})"
            with self._changed:
                news, self._trouble = self._trouble != words, words
            if news:
                self._say(words)
            raise
        with self._changed:
            if not started and self._lost_at is None:
                return
            self._lost_at, self._back_at, self._trouble = None, time.monotonic(), None
        self._say(f"the adb server on port {self._server.port} {'was started again' if started else 'answers again'}")
        self._keeper.wake()

    def _follow(self) -> None:
        """Publish every list until the server ends the connection (AdbServerGone)."""
        with HostSocket(self._server.host, self._server.port) as connection:
            connection.request("host:track-devices-l")
            connection.sock.settimeout(None)
            with self._changed:
                self._socket = connection
            try:
                while not self._stopping.is_set():
                    self._publish(entries_of(connection.block()))
            finally:
                with self._changed:
                    self._socket = None

    def _publish(self, entries: list[AdbEntry]) -> None:
        with self._changed:
            if entries == self._entries:
                return
            self._entries = entries
            self._changed.notify_all()
        self._keeper.wake()
        _guarded(self._on_change, list(entries))

    def _say(self, text: str) -> None:
        log.warning("%s", text)
        _guarded(self._on_server, text)


def _guarded(callback: Callable[..., None], argument: object) -> None:
    try:
        callback(argument)
    except Exception:
        log.exception("a callback of the tracker failed")


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
