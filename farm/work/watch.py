"""What was left undone on the devices of this host: given back dirty, or never cleaned after."""

from __future__ import annotations

import logging

from farm.adb.errors import AdbError
from farm.domain import health as rules
from farm.domain.devices import Health
from farm.store import devices, handover, leases, tables
from farm.work.clean import dirty_file, remember, restore
from farm.work.context import Work
from farm.work.hold import lock_of
from farm.work.sightings import device_at

log = logging.getLogger(__name__)


class Watch:
    """`clean_up` and `end_orphan` are called from the agent's pool."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def needs_cleaning(self, row: tables.Device) -> bool:
        """Whether the device was given back dirty and can be reached again."""
        return row.connection == "device" and dirty_file(self._work, row.serial).exists()

    def clean_up(self, device_id: int) -> bool:
        """Clean a quarantined device that is back; it is good again when that is verified."""
        with self._work.db.read() as session:
            row = session.get_one(tables.Device, device_id)
            if any(lease.device_id == device_id for lease in leases.open_leases(session)):
                return False
        before = dirty_file(self._work, row.serial)
        lock = lock_of(self._work, row)
        if not lock.try_acquire(f"the farm in {self._work.state}, cleaning"):
            return False
        try:
            report = restore(device_at(self._work, row), before, self._work.settings.clean_limit_s)
        except (AdbError, OSError, ValueError, KeyError) as error:
            log.warning("%s cannot be cleaned yet: %s", row.name, error)
            return False
        finally:
            lock.release()
        if not report.ok:
            log.warning("%s is still not clean: %s", row.name, "; ".join(report.differences[:5]))
            return False
        before.unlink(missing_ok=True)
        with self._work.db.session() as session:
            now = self._work.db.now(session)
            row = session.get_one(tables.Device, device_id)
            devices.event(session, device_id, now, "cleaned", {"removed": report.removed[:20]})
            if row.health == Health.BAD.value and row.health_by == "clean":
                standing = rules.resting(row.strikes, "cleaned; checked before its next use")
                devices.put(session, row, standing, "agent", now)
        return True

    def end_orphan(self, lease_id: int) -> bool:
        """A lease whose attempt is over and which nobody cleaned after: its device is cleaned and freed here."""
        with self._work.db.session() as session:
            row = session.get_one(tables.Lease, lease_id)
            now = self._work.db.now(session)
            device = session.get_one(tables.Device, row.device_id)
            snapshot = self._work.attempt_dir(row.attempt_id or 0) / "snapshot.json"
            if remember(self._work, device.serial, snapshot):
                words = "its attempt ended without cleaning"
                devices.set_health(session, device.id, Health.BAD, words, "clean", now)
            return handover.free(
                session, lease_id, now, "its attempt was over; the device is cleaned before its next use"
            )
