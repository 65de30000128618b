"""What adb lists becomes device rows: who is there, by its own serial number, and at which address.

An address says nothing about who answers there, so every new transport is asked. One serial number at two addresses is
either one device that is reached in two ways (the boot id is the same): then the first is used. Or it is two devices:
then neither is used until they are told apart, and the host says which addresses they are at. So it is between hosts:
a device belongs to the host that saw it first for as long as that host lives and sees it (`farm.store.rivals`).
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from farm.adb.device import Device
from farm.adb.errors import AdbError
from farm.adb.tracker import AdbEntry
from farm.domain.devices import SILENT, Connection
from farm.evidence import props as evidence
from farm.store import devices, leases, rivals, tables
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
    boot_id: str = ""
    rival: bool = False  # another host has another device of this serial number


class Sightings:
    """Keeps the rows of this host's devices true; `update` is quick, `identify` talks to the device."""

    def __init__(self, work: Work, inventory: InventoryKeeper) -> None:
        self._work, self._inventory = work, inventory
        self._lock = threading.Lock()
        self._seen: dict[str, Seen] = {}
        self._aside: dict[str, Seen] = {}  # a second way to a device, or one of two with the same serial number
        self._twins: dict[str, set[str]] = {}  # serial number of several devices → their addresses
        self._afar: dict[str, Seen] = {}  # put aside since another host has a device of that serial number
        self._asking: dict[str, threading.Lock] = {}
        self._silent: set[str] = set()  # addresses that adb lists and that did not say who they are
        self._adb_trouble: str | None = None

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
        claimed = self._look_afar({e.address for e in entries if e.state == "device"})
        with self._lock:
            for address in [a for a in self._seen if a not in listed]:
                del self._seen[address]
            self._reconsider({e.address for e in entries if e.state == "device"})
            self._silent &= listed.keys()
            silent = set(self._silent)
            seen, aside = dict(self._seen), dict(self._aside)
            twins = {serial: sorted(addresses) for serial, addresses in self._twins.items()}
        known = {**aside, **seen}
        strangers = [e for e in entries if e.state == "device" and not _known(known.get(e.address), e)]
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
                elif row.serial in twins or row.serial in claimed:
                    devices.set_connection(session, row, Connection.DUPLICATE, None, now)
                elif entry not in strangers and entry.address in seen and seen[entry.address].device_id == row.id:
                    devices.set_connection(session, row, Connection.ONLINE, None, now)
            unknown = [(e.address, e.state) for e in entries if e.state != "device" and e.address not in seen]
            unknown += [(e.address, SILENT) for e in strangers if e.address in silent]
            self._unidentified(session, unknown, twins)
        return strangers

    def _reconsider(self, online: set[str]) -> None:
        """Addresses that were put aside are asked anew once what they were beside is away. The lock is held."""
        for serial, addresses in list(self._twins.items()):
            addresses &= online
            if len(addresses) < 2:
                del self._twins[serial]
        for address, seen in list(self._aside.items()):
            beside = seen.serial in self._twins or any(
                other.serial == seen.serial and a in online for a, other in self._seen.items()
            )
            if address not in online or not (beside or address in self._afar):
                del self._aside[address]

    def _look_afar(self, online: set[str]) -> set[str]:
        """Serial numbers of our devices that another host has a device of, too; those of ours that were put aside for
        another host's device are asked anew once that is over."""
        me = self._work.settings.host
        with self._lock:
            afar = dict(self._afar)
        with self._work.db.read() as session:
            now = self._work.db.now(session)
            over = [a for a, s in afar.items() if a not in online or self._is_over(session, s, now)]
            found = rivals.of_host(session, me, now)
        with self._lock:
            for address in over:
                self._afar.pop(address, None)
        return found

    def _is_over(self, session: Session, seen: Seen, now: datetime) -> bool:
        """Whether nobody else has the device any more, or it is known by now to be the very same one."""
        owner = rivals.owner(session, seen.serial, self._work.settings.host, now)
        return owner is None or (seen.rival and owner.boot_id == seen.boot_id)

    def note_adb(self, trouble: str | None) -> None:
        """Why this host has no adb server now, for those who look at the farm from elsewhere."""
        if trouble == self._adb_trouble:
            return
        self._adb_trouble = trouble
        with self._work.db.session() as session:
            host = ensure_host(session, self._work.settings.host)
            host.info = {**host.info, "adb_trouble": trouble}
            touch(session, "host", host.name, at=self._work.db.now(session))

    def _unidentified(
        self, session: Session, unknown: Sequence[tuple[str, str]], twins: Mapping[str, Sequence[str]]
    ) -> None:
        """Devices that adb lists and that cannot say who they are, (address, state): shown with their host."""
        asked = select(tables.Device.address).where(tables.Device.host == self._work.settings.host)
        known = set(session.scalars(asked))
        found = [{"address": a, "state": state} for a, state in unknown if a not in known or state == SILENT]
        found += [{"address": a, "state": Connection.DUPLICATE.value} for both in twins.values() for a in both]
        with self._lock:
            strangers = sorted((a, s.serial) for a, s in self._afar.items() if s.rival)
        found += [{"address": address, "state": Connection.DUPLICATE.value} for address, _ in strangers]
        told = {
            "unidentified": found,
            "duplicates": [{"serial": serial, "addresses": list(both)} for serial, both in sorted(twins.items())],
            rivals.KEY: [{"serial": serial, "address": address} for address, serial in strangers],
        }
        host = ensure_host(session, self._work.settings.host)
        if any(host.info.get(key, []) != value for key, value in told.items()):
            host.info = {**host.info, **told}
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
            with self._lock:
                news = entry.address not in self._silent
                self._silent.add(entry.address)
            log.log(logging.WARNING if news else logging.INFO, "%s does not say who it is: %s", entry.address, error)
            return None
        with self._lock:
            self._silent.discard(entry.address)
        if not serial:
            log.warning("%s tells no serial number: it is not used", entry.address)
            return None
        labels = {**evidence.labels(properties), **({"ram_gb": memory} if memory else {})}
        with self._lock:
            one_at_a_time = self._asking.setdefault(serial, threading.Lock())
        with one_at_a_time:  # two addresses of one serial number that appear together must see each other
            if self._is_beside_another(entry, serial, boot_id):
                return None
            if self._is_afar(entry, serial, boot_id):
                return None
            self._inventory.learn(serial, properties, labels)
            device_id = self._write(serial, entry.address, labels, boot_id)
            if device_id is None:
                return None
            with self._lock:
                self._seen[entry.address] = Seen(entry.transport_id, serial, device_id, boot_id)
        return device_id

    def _is_beside_another(self, entry: AdbEntry, serial: str, boot_id: str) -> bool:
        """Whether the serial number answers at another address too: then this one is put aside, and the other as well
        where it is another device. An address that was seen once and does not answer now is nobody."""
        with self._lock:
            others = [a for a, s in self._seen.items() if s.serial == serial and a != entry.address]
            twins = set(self._twins.get(serial, ()))
        answers = {address: boot for address in others if (boot := self._boot_of(address, serial)) is not None}
        strangers = {address for address, boot in answers.items() if boot != boot_id}
        if not answers and not twins - {entry.address}:
            return False
        with self._lock:
            self._aside[entry.address] = Seen(entry.transport_id, serial, 0, boot_id)
            if strangers or twins:
                self._twins[serial] = twins | strangers | {entry.address}
                for address in strangers:
                    self._aside[address] = self._seen.pop(address)
        words = "two devices: neither is used" if strangers or twins else "one device: the first way to it is used"
        log.error("%s answers at %s and at %s: %s", serial, ", ".join(others or twins), entry.address, words)
        return True

    def _is_afar(self, entry: AdbEntry, serial: str, boot_id: str) -> bool:
        """Whether the device is another host's, which sees it now: then this one is put aside."""
        me = self._work.settings.host
        with self._work.db.read() as session:
            owner = rivals.owner(session, serial, me, self._work.db.now(session))
        if owner is None:
            return False
        rival = owner.boot_id is None or owner.boot_id != boot_id
        seen = Seen(entry.transport_id, serial, 0, boot_id, rival)
        with self._lock:
            self._aside[entry.address] = self._afar[entry.address] = seen
        words = "two devices: neither is used" if rival else "one device: the host that saw it first has it"
        log.error("%s/%s is at %s, too: %s", owner.host, serial, f"{me}/{entry.address}", words)
        return True

    def _boot_of(self, address: str, serial: str) -> str | None:
        """The boot of the device at an address, if it still has that serial number; None: nobody answers there."""
        device = self._work.device(address)
        try:
            return device.boot_id() if device.serial() == serial else None
        except AdbError:
            return None

    def _write(self, serial: str, address: str, labels: Mapping[str, str], boot_id: str) -> int | None:
        """The device's row; None: another host has taken it in this moment, and the device is asked again."""
        host = self._work.settings.host
        with self._work.db.session() as session:
            now = self._work.db.now(session)
            row = session.scalar(select(tables.Device).where(tables.Device.serial == serial))
            if row is None:
                row = new_device(session, serial, host)
                session.flush()
                devices.event(session, row.id, now, "first-seen", {"address": address})
            elif rivals.owner(session, serial, host, now) is not None:
                return None
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
