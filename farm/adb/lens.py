"""An adb server's face that shows, and reaches, only the devices of one lease.

It speaks the host protocol on a unix socket: what a suite's sandbox has in place of an adb server. Each request is
judged by `lens_rules`; what passes goes to the real server, names of devices translated. A connection is bound to a
device only after the device at that address has told the leased serial number: an address that was taken over by
another device leads nowhere. When the real server dies every connection ends, as it would without the lens.
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from farm.adb.connection import Canary, HostSocket, query
from farm.adb.errors import AdbError, AdbServerGone, IdentityMismatch
from farm.adb.lens_rules import Allowed, Kind, Refused, Rules
from farm.adb.link import Link
from farm.evidence.adb_output import parse_devices

log = logging.getLogger(__name__)

#: Connections at one time; adb and adbutils need one per running command.
MAX_CONNECTIONS = 128
#: How long a client may take over its request.
_REQUEST_S = 60.0
_CHUNK = 256 << 10


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that the lens did not let through. `request` is cut to a sane length."""

    request: str
    reason: str


class _Hangup(Exception):
    """The client ended the connection, or what it sends is no request."""


class LensServer:
    """Serves the adb host protocol on the unix socket `unix_path`, for the devices in `allowed` alone.

    `allowed`: address at the real server (`upstream`) → the device's own serial number (ro.serialno), the name that is
    shown; both work as `-s NAME`. `on_refused` is called from the connections' threads, for what a suite may not do, as
    often as it tries: who writes that down bounds it.
    """

    def __init__(
        self,
        unix_path: Path,
        upstream: tuple[str, int],
        allowed: Mapping[str, str],
        on_refused: Callable[[Refusal], None] | None = None,
    ) -> None:
        self._path = unix_path
        self._host, self._port = upstream
        self._rules = Rules(allowed)
        self._links = {address: Link(*upstream, address, serial) for address, serial in allowed.items()}
        self._on_refused = on_refused or (lambda refusal: None)
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Listen. OSError when the path cannot be bound (it may have 107 bytes)."""
        listener = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        listener.bind(str(self._path))
        listener.listen(64)
        self._listener = listener
        for target in (self._accept, self._watch_upstream):
            thread = threading.Thread(target=target, name="lens", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End every connection and remove the socket."""
        self._stopping.set()
        if self._listener is not None:
            _shut(self._listener)
            self._listener.close()
        self._hang_up_all()
        for thread in self._threads:
            thread.join(timeout=10)
        with contextlib.suppress(OSError):
            self._path.unlink()

    def __enter__(self) -> LensServer:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    # ---- connections ----

    def _accept(self) -> None:
        assert self._listener is not None
        while not self._stopping.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self._slots.acquire(blocking=False):
                with contextlib.suppress(OSError):
                    client.sendall(_fail(f"more than {MAX_CONNECTIONS} connections through one lens"))
                client.close()
                continue
            threading.Thread(target=self._serve, args=(client,), name="lens-client", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with self._lock:
            self._open.add(client)
        try:
            client.settimeout(_REQUEST_S)
            self._converse(client)
        except (_Hangup, OSError):
            pass
        except AdbError as error:
            with contextlib.suppress(OSError):
                client.sendall(_fail(str(error)))
        except Exception:
            log.exception("a connection through the lens failed")
        finally:
            with self._lock:
                self._open.discard(client)
            _shut(client)
            client.close()
            self._slots.release()

    def _converse(self, client: socket.socket) -> None:
        request = _read_request(client)
        verdict = self._rules.judge(request, self._transports(request))
        if isinstance(verdict, Refused):
            self._refuse(client, request, verdict)
        elif verdict.kind is Kind.SERVER:
            self._pass_on(client, request)
        elif verdict.kind is Kind.DEVICES:
            text = query(self._host, self._port, "host:devices-l")
            client.sendall(b"OKAY" + _block(self._shown(text, verdict.long)))
        elif verdict.kind is Kind.TRACK:
            self._track(client, verdict.long)
        elif verdict.kind is Kind.QUESTION:
            self._answer(client, verdict)
        else:
            self._bind(client, verdict)

    def _refuse(self, client: socket.socket, request: str, refused: Refused) -> None:
        if refused.report is not None:
            try:
                self._on_refused(Refusal(request[:200], refused.report))
            except Exception:
                log.exception("the lens could not report a refusal")
        client.sendall(_fail(refused.answer))

    def _transports(self, request: str) -> dict[int, str]:
        """Transport ids of the allowed devices, when the request names one by its id."""
        if "transport-id" not in request:
            return {}
        lines = parse_devices(query(self._host, self._port, "host:devices-l"))
        return {
            line.transport_id: line.serial
            for line in lines
            if line.transport_id is not None and line.serial in self._rules.allowed
        }

    def _shown(self, text: str, long: bool) -> str:
        return "".join(shown for line in parse_devices(text) if (shown := self._rules.show(line, long)))

    def _pass_on(self, client: socket.socket, request: str) -> None:
        with HostSocket(self._host, self._port) as upstream:
            upstream.send_service(request)
            self._splice(client, upstream.sock)

    def _answer(self, client: socket.socket, verdict: Allowed) -> None:
        """A question about one device. Serial numbers in the answer are ours."""
        assert verdict.target is not None
        if verdict.question == "get-serialno":
            client.sendall(b"OKAY" + _block(self._rules.allowed[verdict.target]))
            return
        with HostSocket(self._host, self._port) as upstream:
            upstream.send_service(f"host-serial:{verdict.target}:{verdict.question}")
            self._splice(client, upstream.sock)

    def _track(self, client: socket.socket, long: bool) -> None:
        with HostSocket(self._host, self._port) as upstream:
            upstream.request("host:track-devices-l")
            client.sendall(b"OKAY")
            last: str | None = None
            while True:
                ready, _, _ = select.select([client, upstream.sock], [], [])
                if client in ready and not client.recv(1):
                    return
                if upstream.sock in ready:
                    try:
                        shown = self._shown(upstream.block(), long)
                    except AdbServerGone:
                        raise _Hangup from None  # no FAIL in the middle of a stream
                    if shown != last:
                        client.sendall(_block(shown))
                        last = shown

    def _bind(self, client: socket.socket, verdict: Allowed) -> None:
        """A connection to one device: the service that is asked for next is judged too."""
        assert verdict.target is not None
        try:
            upstream, transport = self._links[verdict.target].transport()
        except IdentityMismatch as error:
            self._refuse(client, f"transport to {verdict.target}", Refused(str(error), str(error)))
            return
        with upstream:
            client.sendall(b"OKAY" + (transport.to_bytes(8, "little") if verdict.tport else b""))
            service = _read_request(client)
            if refused := self._rules.device_service(service):
                self._refuse(client, service, refused)
                return
            upstream.send_service(service)
            self._splice(client, upstream.sock)

    def _splice(self, client: socket.socket, upstream: socket.socket) -> None:
        """Bytes both ways until both have ended, each direction in a thread of its own, so that neither waits."""
        with self._lock:
            if self._stopping.is_set():
                return
            self._open.add(upstream)
        try:
            client.settimeout(None)
            upstream.settimeout(None)
            back = threading.Thread(target=_copy, args=(upstream, client), name="lens-back", daemon=True)
            back.start()
            _copy(client, upstream)
            back.join()
        finally:
            with self._lock:
                self._open.discard(upstream)

    # ---- the real server's death ----

    def _watch_upstream(self) -> None:
        while not self._stopping.is_set():
            try:
                canary = Canary(self._host, self._port)
            except AdbServerGone:
                self._stopping.wait(0.2)
                continue
            while not self._stopping.is_set() and not canary.dead(grace_s=0.5):
                pass
            canary.close()
            self._hang_up_all()

    def _hang_up_all(self) -> None:
        with self._lock:
            sockets = list(self._open)
        for sock in sockets:
            _shut(sock)


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Everything from `source` to `target`; the end of the one becomes the end of the other."""
    buffer = memoryview(bytearray(_CHUNK))
    try:
        while size := source.recv_into(buffer):
            target.sendall(buffer[:size])
    except OSError:
        _shut(source)
        _shut(target)
        return
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _read_request(client: socket.socket) -> str:
    head = _exactly(client, 4)
    try:
        size = int(head, 16)
    except ValueError:
        client.sendall(_fail("a request begins with four hex digits of length"))
        raise _Hangup from None
    return _exactly(client, size).decode("utf-8", "surrogateescape")


def _exactly(client: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = client.recv(size - len(data))
        if not piece:
            raise _Hangup
        data += piece
    return bytes(data)


def _block(text: str) -> bytes:
    data = text.encode()[:0xFFFF]
    return b"%04x" % len(data) + data


def _fail(text: str) -> bytes:
    return b"FAIL" + _block(text[:1000])


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
