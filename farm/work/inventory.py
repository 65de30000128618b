"""The inventory file while the farm runs: read again when it changes; a wrong one changes nothing and says why."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.domain.inventory import Inventory, InventoryError, parse
from farm.store import devices, hosts, inventories, tables
from farm.store.bus import touch
from farm.store.db import Database

log = logging.getLogger(__name__)


class InventoryKeeper:
    """The inventory in force, and what devices told of themselves, so that a changed file can be laid over it."""

    def __init__(self, db: Database, path: Path, host: str) -> None:
        self._db, self._path, self._host = db, path, host
        self._stamp: tuple[int, int, int] | None = None
        self._wrong = False
        self._lock = threading.Lock()
        self.current = Inventory()
        self._auto: dict[str, tuple[Mapping[str, str], Mapping[str, str]]] = {}  # serial → properties, labels

    def poll(self) -> bool:
        """Look at the file; True when a new inventory came into force.

        A farm may begin without a file: its inventory is empty. A file that was there and has gone is a wrong one.
        """
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError as error:
            stamp = (0, 0, -(error.errno or 1))
        if stamp == self._stamp:
            return False
        first, self._stamp = self._stamp is None, stamp
        found = self._read(first)
        if isinstance(found, list):
            self._report(found)
            return first and self._apply(Inventory())
        self._report([])
        return self._apply(found)

    def learn(self, serial: str, props: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """What a device told of itself."""
        with self._lock:
            self._auto[serial] = (props, labels)

    def dress(self, session: Session, row: tables.Device) -> None:
        """Name, type, pool, ring and labels of a device as the inventory has them, over what it told of itself."""
        entry = self.current.device(row.serial)
        with self._lock:
            props, labels = self._auto.get(row.serial, ({}, None))
        kind = self.current.type_of(row.serial, props)
        row.listed = entry is not None
        row.name = entry.name if entry is not None else row.serial
        row.pool, row.ring = (entry.pool, entry.ring) if entry is not None else (None, None)
        if labels is not None or kind is not None or row.type is None:
            row.type = None if kind is None else kind.key
        base = dict(labels if labels is not None else row.labels or {})
        of_type = {"type_name": kind.name, "kind": kind.kind, **kind.labels} if kind else {}
        row.labels = base | of_type | dict(entry.labels if entry else {})

    def _read(self, first: bool) -> Inventory | list[InventoryError]:
        try:
            return parse(self._path.read_text())
        except FileNotFoundError:
            remedy = "put it back, or leave a file with `devices: []` for an empty inventory"
            return Inventory() if first else [InventoryError(0, f"is gone from {self._path.parent}: {remedy}")]
        except (OSError, UnicodeDecodeError) as error:
            return [InventoryError(0, f"cannot be read: {error}")]

    def _report(self, errors: list[InventoryError]) -> None:
        words = [error.words(self._path.name) for error in errors]
        for line in words:
            log.error("%s (the inventory before it stays in force)", line)
        if self._wrong and not words:
            log.info("%s is right again, and in force", self._path.name)
        self._wrong = bool(words)
        with self._db.session() as session:
            inventories.note(session, self._host, str(self._path), words, self._db.now(session))

    def _apply(self, found: Inventory) -> bool:
        with self._db.alone("inventory"), self._db.session() as session:
            now = self._db.now(session)
            self.current = found
            ensure_host(session, self._host)
            for name in sorted({*found.hosts, *(d.host for d in found.devices if d.host)}):
                host = hosts.hold(session, name)
                slots = found.hosts[name].measure_slots if name in found.hosts else None
                host.info = {**host.info, "measure_slots": slots}
            rows = {row.serial: row for row in session.scalars(select(tables.Device))}
            for entry in found.devices:
                if entry.serial not in rows:
                    rows[entry.serial] = new_device(session, entry.serial, entry.host or self._host)
            for row in rows.values():
                if row.host != self._host and row.id is not None:  # the inventory of its own host speaks for it
                    continue
                before = _facts(row)
                self.dress(session, row)
                if not row.listed and row.seen_at is None and row.connection == "gone":
                    _drop(session, row, before != _facts(row), now)
                elif _facts(row) != before or row.id is None:
                    session.flush()
                    touch(session, "device", row.id, at=now, device_id=row.id)
        return True


def _drop(session: Session, row: tables.Device, changed: bool, now: datetime) -> None:
    """Nobody ever saw it and the file does not name it any more: the row goes, or is hidden while work refers to it."""
    ident = row.id
    if devices.forget(session, ident) or changed:
        touch(session, "device", ident, at=now, device_id=ident)


def ensure_host(session: Session, name: str) -> tables.Host:
    """The host's row, made when it is new."""
    return hosts.ensure(session, name)


def new_device(session: Session, serial: str, host: str) -> tables.Device:
    """A row for a device that nobody has seen yet."""
    row = tables.Device(serial=serial, name=serial, host=host, labels={}, connection="gone")
    session.add(row)
    return row


def _facts(row: tables.Device) -> tuple[object, ...]:
    return (row.name, row.type, row.pool, row.ring, row.listed, row.labels)
