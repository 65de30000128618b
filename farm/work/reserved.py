"""Devices that people hold: looked at before they are handed over, cleaned when they come back.

An attempt has steps for that; a reservation has none, so the agent does it. Its files lie in `leases/<id>/` of the
state folder: `snapshot.json`, what the device is to be again. The lease ends when that is verified, or with the device
in quarantine; only then is the device free.
"""

from __future__ import annotations

import json
import logging
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from farm.adb import clean
from farm.adb.errors import AdbError
from farm.adb.locks import LockBusy
from farm.domain.devices import Health
from farm.domain.leases import Lease
from farm.store import devices, handover, leases, reservations, tables
from farm.work.clean import remember, restore
from farm.work.context import Work
from farm.work.hold import lock_of
from farm.work.sightings import device_at

log = logging.getLogger(__name__)

#: Somebody else may still work on the device (a desk that has not let go) for so long, seconds.
_LOCK_S = 20.0


class Reserved:
    """`prepare` and `clean` are called from the agent's pool, for one device at a time."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._ready: set[int] = set()

    def due(self, held: Iterable[Lease]) -> Iterator[tuple[str, Lease]]:
        """(`prepare` or `clean`, lease) of the open leases that need it."""
        for lease in held:
            if lease.reservation_id is None:
                continue
            if lease.released_at is not None:
                yield "clean", lease
            elif lease.id not in self._ready:
                yield "prepare", lease

    def prepare(self, lease: Lease) -> bool:
        """Note how the device is, then tell its holder to begin. One that cannot be looked at is taken back."""
        before = self._before(lease)
        problem = None if before.exists() else self._snapshot(lease, before)
        with self._work.db.session() as session:
            now = self._work.db.now(session)
            if problem is None:
                reservations.note_ready(session, lease.id, now)
                self._ready.add(lease.id)
                return True
            if (now - lease.granted_at).total_seconds() > self._work.settings.clean_wait_s:
                words = f"the device could not be prepared: {problem}"
                devices.set_health(session, lease.device_id, Health.SUSPECT, words, "agent", now)
                leases.release(session, lease.id, now, words)
        return False

    def clean(self, lease: Lease) -> None:
        """Undo what the holder did, verify, free the device; or quarantine it with the reason."""
        began = time.monotonic()
        before = self._before(lease)
        row = self._row(lease)
        problem = self._restore(lease, row, before) if before.exists() else None  # it was never handed over
        if problem is not None and self._work.stopping.is_set():
            return  # begun again after the next start
        known = problem is not None and remember(self._work, row.serial, before)
        with self._work.db.session() as session:
            now = self._work.db.now(session)
            if problem is not None:
                words = f"not cleaned after {lease.who}: {problem}"
                health = Health.BAD if known else Health.SUSPECT
                devices.set_health(session, lease.device_id, health, words, "clean", now)
            handover.free(session, lease.id, now, "cleaned" if problem is None else f"quarantined: {problem}")
        log.info("%s after %s: %s in %.1f s", row.name, lease.who, problem or "clean", time.monotonic() - began)
        self._ready.discard(lease.id)
        shutil.rmtree(before.parent, ignore_errors=True)

    def _before(self, lease: Lease) -> Path:
        return self._work.lease_dir(lease.id) / "snapshot.json"

    def _row(self, lease: Lease) -> tables.Device:
        with self._work.db.read() as session:
            return session.get_one(tables.Device, lease.device_id)

    def _snapshot(self, lease: Lease, before: Path) -> str | None:
        """What went wrong; None: the snapshot is written."""
        row = self._row(lease)
        lock = lock_of(self._work, row)
        if not lock.try_acquire(f"the farm in {self._work.state}, preparing it for {lease.who}"):
            return f"it is held by {lock.holder()}"
        try:
            found = clean.snapshot(device_at(self._work, row))
            before.parent.mkdir(parents=True, exist_ok=True)
            partial = before.with_suffix(".part")
            partial.write_text(json.dumps(found.to_json()))
            partial.replace(before)
            return None
        except AdbError as error:
            return str(error)
        finally:
            lock.release()

    def _restore(self, lease: Lease, row: tables.Device, before: Path) -> str | None:
        """What is wrong with the device now; None: it is as it was."""
        if not self._wait_online(row.id):
            return f"{row.name} could not be reached for {self._work.settings.clean_wait_s:g} s"
        lock = lock_of(self._work, row)
        try:
            lock.acquire(_LOCK_S, f"the farm in {self._work.state}, cleaning after {lease.who}")
        except LockBusy as busy:
            return str(busy)
        try:
            report = restore(device_at(self._work, self._row(lease)), before, self._work.settings.clean_limit_s)
        except (AdbError, OSError, ValueError) as error:
            return str(error)
        finally:
            lock.release()
        return None if report.ok else f"not clean: {'; '.join(report.differences[:5])}"

    def _wait_online(self, device_id: int) -> bool:
        """Whether adb lists the device as online within the limit; woken by its changes."""
        changed = threading.Event()
        self._work.db.bus.listen(listener := lambda _changes: changed.set())
        until = time.monotonic() + self._work.settings.clean_wait_s
        try:
            while not self._work.stopping.is_set():
                changed.clear()
                with self._work.db.read() as session:
                    if session.get_one(tables.Device, device_id).connection == "device":
                        return True
                left = until - time.monotonic()
                if left <= 0:
                    return False
                changed.wait(min(left, 1.0))
            return False
        finally:
            self._work.db.bus.unlisten(listener)
