"""Keeps network devices connected to an adb server, and knows why one is not.

adb forgets a network device that was away for a while, calls one "already connected" whose transport is dead, and takes
ten seconds for one that takes a connection and says nothing. So each address is tried by itself, about once a second,
after a knock at its port; what adb still has of it is thrown away when it does not become a device in time.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from farm.adb.errors import AdbError
from farm.adb.server import AdbServer

log = logging.getLogger(__name__)

#: How often a kept address that is not listed is tried again.
_EVERY_S = 1.0
#: A transport that is offline for longer than a handshake takes is made anew; each time in vain it gets twice as long.
_OFFLINE_S = 3.0
_OFFLINE_MOST_S = 24.0
#: What adb calls a transport whose handshake is not over, or never will be.
_UNSETTLED = frozenset({"offline", "connecting", "authorizing"})
#: After so many tries in vain whatever adb still has of an address is thrown away first.
_ANEW_AFTER = 3
#: A port of a device that is there takes a connection within this time, however busy its host.
_KNOCK_S = 5.0
#: A list that flaps must not become a busy loop.
_PAUSE_S = 0.1


class Keeper:
    """A thread over a set of addresses. `states`: what adb lists now, serial → state."""

    def __init__(self, server: AdbServer, states: Callable[[], Mapping[str, str]]) -> None:
        self._server, self._states = server, states
        self._lock = threading.Lock()
        self._addresses: frozenset[str] = frozenset()
        self._offline_since: dict[str, float] = {}
        self._trying: set[str] = set()
        self._tries: dict[str, int] = {}  # in vain, since the address was last a device
        self._why: dict[str, str] = {}
        self._awake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        name = f"adb-keeper-{self._server.port}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a try under way ends by itself."""
        self._stopping.set()
        self.wake()
        if self._thread is not None:
            self._thread.join(timeout=20)

    def wake(self) -> None:
        """What adb lists has changed."""
        self._awake.set()

    def keep(self, addresses: Iterable[str]) -> None:
        """Keep these from now on; those that were kept and are not among them are disconnected."""
        with self._lock:
            dropped, self._addresses = self._addresses - frozenset(addresses), frozenset(addresses)
        for address in dropped:
            try:
                self._server.disconnect(address)
            except AdbError as error:
                log.warning("disconnecting %s: %s", address, error)
        self.wake()

    def why_not(self, address: str) -> str | None:
        """What the last try ended with; None for a device that is there, and one that was not tried yet."""
        with self._lock:
            return self._why.get(address)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._awake.clear()
            states = self._states()
            with self._lock:
                missing = self._missing(states, time.monotonic())
                due = [address for address in missing if address not in self._trying]
                self._trying.update(due)
                waits = bool(missing or self._offline_since)
            for address in due:  # each by itself: one that takes a connection and stays silent holds up no other
                threading.Thread(target=self._try, args=(address,), name=f"adb-connect-{address}", daemon=True).start()
            self._awake.wait(_EVERY_S if waits else None)
            if missing:
                self._stopping.wait(_PAUSE_S)

    def _missing(self, states: Mapping[str, str], now: float) -> list[str]:
        """Kept addresses that are not listed, or offline for so long that it is no handshake any more. Under lock."""
        for address in [a for a in self._tries if a not in self._addresses or _settled(states.get(a))]:
            self._tries.pop(address)
            self._why.pop(address, None)
        offline = {address for address in self._addresses if states.get(address) in _UNSETTLED}
        self._offline_since = {address: self._offline_since.get(address, now) for address in offline}
        return [
            address
            for address in self._addresses
            if address not in states or now - self._offline_since.get(address, now) > self._patience(address)
        ]

    def _patience(self, address: str) -> float:
        return min(_OFFLINE_S * 2.0 ** min(self._tries.get(address, 0), 10), _OFFLINE_MOST_S)

    def _try(self, address: str) -> None:
        with self._lock:
            self._tries[address] = tries = self._tries.get(address, 0) + 1
        try:
            why = self._connect(address, anew=tries > _ANEW_AFTER and tries % _ANEW_AFTER == 1)
        except Exception as error:
            log.exception("connecting %s failed", address)
            why = str(error)
        with self._lock:
            news = why is not None and self._why.get(address) != why and address in self._addresses
            if why is not None:
                self._why[address] = why
            self._trying.discard(address)
            self._offline_since.pop(address, None)  # what is there now is new
        if news:
            log.warning("%s is not connected: %s", address, why)

    def _connect(self, address: str, anew: bool) -> str | None:
        """Why it did not work; None: it did."""
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()
        except (OSError, ValueError) as error:
            return f"nothing takes connections there ({error})"
        try:
            if anew:
                self._server.disconnect(address)
            self._server.connect(address)
        except AdbError as error:
            return str(error)
        return None


def _settled(state: str | None) -> bool:
    return state is not None and state not in _UNSETTLED
