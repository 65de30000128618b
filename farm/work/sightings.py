"""What adb lists becomes device rows: who is there, by its own serial number, and at which address.

An address says nothing about who answers there, so every new transport is asked. A serial number that answers at two
addresses at once is taken at the first and named at the second.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from farm.adb.device import Device
from farm.adb.errors import AdbError
from farm.adb.tracker import AdbEntry
from farm.domain.devices import Connection
from farm.evidence import props as evidence
from farm.store import devices, leases, tables
from farm.store.bus import touch
from farm.work.context import Work
from farm.work.inventory import InventoryKeeper, ensure_host, new_device

log = logging.getLogger(__name__)

_MEMORY = re.compile(r"^MemTotal:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Seen:
    """A transport whose device is known."""

    transport_id: int | None
    serial: str
    device_id: int


class Sightings:
    """Keeps the rows of this host's devices true; `update` is quick, `identify` talks to the device."""

    def __init__(self, work: Work, inventory: InventoryKeeper) -> None:
        self._work, self._inventory = work, inventory
        self._lock = threading.Lock()
        self._seen: dict[str, Seen] = {}

    def begin(self) -> None:
        """At a start nothing is known: what the last life of the farm saw at an address may be elsewhere by now.

        A device that somebody holds stays as it is: its holder proves at each connection whom it talks to.
        """
        with self._work.db.session() as session:
            now = self._work.db.now(session)
            host = self._work.settings.host
            held = {lease.device_id for lease in leases.open_leases(session, host)}
            for row in session.scalars(select(tables.Device).where(tables.Device.host == host)).all():
                if row.id not in held:
                    devices.set_connection(session, row, Connection.GONE, None, now)

    def update(self, entries: Sequence[AdbEntry], *, forget: bool = True) -> list[AdbEntry]:
        """Write down every state that is known; returns the entries that must be identified first.

        `forget` False: what is not listed is not called gone yet (the adb server was only just asked).
        """
        listed = {entry.address: entry for entry in entries}
        with self._lock:
            for address in [a for a in self._seen if a not in listed]:
                del self._seen[address]
            seen = dict(self._seen)
        strangers = [e for e in entries if e.state == "device" and not _known(seen.get(e.address), e)]
        with self._work.db.session() as session:
            now = self._work.db.now(session)
            rows = session.scalars(select(tables.Device).where(tables.Device.host == self._work.settings.host)).all()
            for row in rows:
                entry = listed.get(row.address or "")
                if entry is None:
                    if forget:
                        devices.set_connection(session, row, Connection.GONE, None, now)
                elif entry.state != "device":
                    devices.set_connection(session, row, connection_of(entry.state), None, now)
                elif entry not in strangers and seen[entry.address].device_id == row.id:
                    devices.set_connection(session, row, Connection.ONLINE, None, now)
            self._unidentified(session, [e for e in entries if e.state != "device" and e.address not in seen])
        return strangers

    def _unidentified(self, session: Session, entries: Sequence[AdbEntry]) -> None:
        """Devices that adb lists and that cannot say who they are (unauthorized, offline): shown with their host."""
        asked = select(tables.Device.address).where(tables.Device.host == self._work.settings.host)
        known = set(session.scalars(asked))
        found = [{"address": e.address, "state": e.state} for e in entries if e.address not in known]
        host = ensure_host(session, self._work.settings.host)
        if host.info.get("unidentified", []) != found:
            host.info = {**host.info, "unidentified": found}
            touch(session, "host", host.name, at=self._work.db.now(session))

    def identify(self, entry: AdbEntry) -> int | None:
        """Ask who answers at the address and write that down; None when it does not say."""
        device = self._work.device(entry.address)
        try:
            serial = device.serial()
            properties = device.props()
            boot_id = device.boot_id()
            memory = ram_gb(device.shell(["cat", "/proc/meminfo"], timeout_s=10).stdout)
        except AdbError as error:
            log.info("%s does not say who it is: %s", entry.address, error)
            return None
        if not serial:
            log.warning("%s tells no serial number: it is not used", entry.address)
            return None
        labels = {**evidence.labels(properties), **({"ram_gb": memory} if memory else {})}
        with self._lock:
            other = next((a for a, s in self._seen.items() if s.serial == serial and a != entry.address), None)
            if other is not None:
                log.error("%s answers at %s and at %s: the second is not used", serial, other, entry.address)
                return None
        self._inventory.learn(serial, properties, labels)
        device_id = self._write(serial, entry.address, labels, boot_id)
        with self._lock:
            self._seen[entry.address] = Seen(entry.transport_id, serial, device_id)
        return device_id

    def _write(self, serial: str, address: str, labels: Mapping[str, str], boot_id: str) -> int:
        host = self._work.settings.host
        with self._work.db.session() as session:
            now = self._work.db.now(session)
            row = session.scalar(select(tables.Device).where(tables.Device.serial == serial))
            if row is None:
                row = new_device(session, serial, host)
                session.flush()
                devices.event(session, row.id, now, "first-seen", {"address": address})
            session.execute(  # whoever was at this address before is not there any more
                update(tables.Device)
                .where(tables.Device.address == address, tables.Device.host == host, tables.Device.id != row.id)
                .values(address=None, connection=Connection.GONE.value, connection_at=now)
            )
            row.host, row.seen_at = host, now
            row.virtual = labels.get("virtual") == "true"
            if row.boot_id is not None and row.boot_id != boot_id:
                devices.event(session, row.id, now, "rebooted", {"boot_id": boot_id})
            row.boot_id = boot_id
            self._inventory.dress(session, row)
            if not devices.set_connection(session, row, Connection.ONLINE, address, now):
                touch(session, "device", row.id, at=now, device_id=row.id)
            return row.id


def _known(seen: Seen | None, entry: AdbEntry) -> bool:
    return seen is not None and seen.transport_id == entry.transport_id


def connection_of(state: str) -> Connection:
    """adb's word as ours; what it says on the way up (connecting, authorizing) is offline."""
    try:
        return Connection(state)
    except ValueError:
        return Connection.UNAUTHORIZED if "permission" in state else Connection.OFFLINE


def ram_gb(meminfo: str) -> str | None:
    """Whole gigabytes, as on the box: the kernel's own share is rounded up again."""
    match = _MEMORY.search(meminfo)
    return None if match is None else str(max(1, round(int(match[1]) / (1 << 20) + 0.3)))


def device_at(work: Work, row: tables.Device) -> Device:
    """The device of a row; every connection makes sure that it is this very one."""
    return Device(work.adb_host, work.adb_port, row.address or row.serial, serial=row.serial)
