"""How the devices of this host are: looked at regularly, doubted, checked, quarantined, cleaned when they are back."""

from __future__ import annotations

import logging
from datetime import timedelta

from sqlalchemy.orm import Session

from farm.adb import health
from farm.adb.errors import AdbError
from farm.domain.devices import MIN_BATTERY_PCT, Health
from farm.store import devices, leases, tables
from farm.store.bus import touch
from farm.work.clean import dirty_file, restore
from farm.work.context import Work
from farm.work.sightings import device_at
from farm.work.supervisor import DeviceLock

log = logging.getLogger(__name__)

#: So many bad looks in a row put a device into quarantine, for so long at first, doubling.
BAD_AFTER = 5
QUARANTINE = timedelta(minutes=5)
QUARANTINE_MAX = timedelta(hours=2)
#: Largest difference between the device's clock and the host's that is not mentioned, seconds.
CLOCK_SKEW_S = 5.0


class Watch:
    """One look at one device at a time; `look` and `clean_up` are called from the agent's pool."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._failures: dict[int, int] = {}
        self._quarantines: dict[int, int] = {}
        self._skewed: set[int] = set()

    def look(self, device_id: int) -> None:
        """A health check of an online device, written down; a suspect that is fine again is good again."""
        with self._work.db.read() as session:
            row = session.get_one(tables.Device, device_id)
        report = health.check(device_at(self._work, row))
        with self._work.db.session() as session:
            now = self._work.db.now(session)
            row = session.get_one(tables.Device, device_id)
            if row.connection != "device":
                return  # it went away meanwhile: that is told elsewhere
            self._write(session, row, report)
            self._judge(session, row, report)
            touch(session, "device", device_id, at=now, device_id=device_id)

    def _write(self, session: Session, row: tables.Device, report: health.HealthReport) -> None:
        now = self._work.db.now(session)
        if report.boot_id is None and not report.ok:
            return  # it did not answer: nothing was measured
        if row.boot_id is not None and report.boot_id is not None and report.boot_id != row.boot_id:
            devices.event(session, row.id, now, "rebooted", {"boot_id": report.boot_id})
        devices.note_temperature(session, row, report.temperature_c, now)
        row.battery_pct, row.has_battery = report.battery_pct, report.has_battery
        row.boot_completed, row.boot_id = report.boot_completed, report.boot_id or row.boot_id
        self._mind_clock(session, row, report.clock_skew_s)

    def _mind_clock(self, session: Session, row: tables.Device, skew_s: float | None) -> None:
        """A clock that is wrong is told once, not at every look."""
        wrong = skew_s is not None and abs(skew_s) > CLOCK_SKEW_S
        if wrong and row.id not in self._skewed:
            devices.event(session, row.id, self._work.db.now(session), "clock", {"skew_s": round(skew_s or 0.0, 1)})
        (self._skewed.add if wrong else self._skewed.discard)(row.id)

    def _judge(self, session: Session, row: tables.Device, report: health.HealthReport) -> None:
        now = self._work.db.now(session)
        if row.health == Health.MAINTENANCE.value:
            return
        if report.ok:
            self._failures.pop(row.id, None)
            over = row.health == Health.BAD.value and row.health_until is not None and now >= row.health_until
            if row.health == Health.SUSPECT.value or over:
                self._quarantines.pop(row.id, None)
                devices.set_health(session, row.id, Health.GOOD, None, "agent", now)
            return
        low = report.has_battery and report.battery_pct is not None and report.battery_pct < MIN_BATTERY_PCT
        if report.boot_completed is False or low:
            return  # booting or empty is not ill: readiness says it
        failures = self._failures[row.id] = self._failures.get(row.id, 0) + 1
        words = "; ".join(report.problems) or "it did not answer"
        if row.health == Health.GOOD.value and failures >= 2:
            devices.set_health(session, row.id, Health.SUSPECT, words, "agent", now)
        elif row.health == Health.SUSPECT.value and failures >= BAD_AFTER:
            turn = self._quarantines[row.id] = self._quarantines.get(row.id, 0) + 1
            until = min(QUARANTINE * 2 ** (turn - 1), QUARANTINE_MAX)
            devices.set_health(
                session, row.id, Health.BAD, f"{failures} bad looks in a row: {words}", "agent", now, until
            )
            self._failures[row.id] = 0

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
        try:
            with DeviceLock(self._work.locks_dir, row.serial, 1.0) as free:
                if not free:
                    return False
                report = restore(device_at(self._work, row), before, self._work.settings.clean_limit_s)
        except (AdbError, OSError, ValueError, KeyError) as error:
            log.warning("%s cannot be cleaned yet: %s", row.name, error)
            return False
        if not report.ok:
            log.warning("%s is still not clean: %s", row.name, "; ".join(report.differences[:5]))
            return False
        before.unlink(missing_ok=True)
        with self._work.db.session() as session:
            now = self._work.db.now(session)
            row = session.get_one(tables.Device, device_id)
            devices.event(session, device_id, now, "cleaned", {"removed": report.removed[:20]})
            if row.health == Health.BAD.value and row.health_by == "clean":
                devices.set_health(
                    session, device_id, Health.SUSPECT, "cleaned; checked before its next use", "agent", now
                )
        return True

    def end_orphan(self, lease_id: int) -> bool:
        """A lease whose attempt is over and which nobody cleaned after: its device is cleaned and freed here."""
        with self._work.db.session() as session:
            row = session.get_one(tables.Lease, lease_id)
            now = self._work.db.now(session)
            device = session.get_one(tables.Device, row.device_id)
            snapshot = self._work.attempt_dir(row.attempt_id or 0) / "snapshot.json"
            if snapshot.exists():
                target = dirty_file(self._work, device.serial)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(snapshot.read_bytes())
                words = "its attempt ended without cleaning"
                devices.set_health(session, device.id, Health.BAD, words, "clean", now)
            return leases.end(session, lease_id, now, "its attempt was over; the device is cleaned before its next use")
