"""One look at one device: what it measured is written down, and what it means for the device's health.

A device that is booting, empty, full or hot is well; readiness says it. One that does not answer as it should is
doubted, and after some more such looks it is to be recovered (`farm.work.recovery`). A look that the adb server did not
let through says nothing of the device.
"""

from __future__ import annotations

import threading
from collections import deque
from datetime import datetime

from sqlalchemy.orm import Session

from farm.adb import health
from farm.domain import health as rules
from farm.domain import readiness
from farm.domain.devices import Connection, Health
from farm.store import devices, tables
from farm.store.bus import touch
from farm.work.context import Work
from farm.work.sightings import device_at

#: So many of the last looks are kept as the tail of a device's health log.
_TAIL = 20


class Looks:
    """Remembers, per device, how many looks in a row were bad. A restart of the farm begins to count anew."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._failures: dict[int, int] = {}
        self._tails: dict[int, deque[str]] = {}
        self._skewed: set[int] = set()

    def look(self, device_id: int) -> health.HealthReport | None:
        """A health check of an online device, written down; None when the device went away meanwhile."""
        with self._work.db.read() as session:
            row = session.get_one(tables.Device, device_id)
        report = health.check(device_at(self._work, row))
        if report.server_gone:
            return report
        with self._work.db.session() as session:
            now = self._work.db.now(session)
            row = session.get_one(tables.Device, device_id)
            if row.connection != Connection.ONLINE.value:
                return None  # that is told elsewhere
            self.write(session, row, report, now)
            self._judge(session, row, report, now)
            touch(session, "device", device_id, at=now, device_id=device_id)
        return report

    def failures(self, device_id: int) -> int:
        """Bad looks in a row, up to now."""
        with self._lock:
            return self._failures.get(device_id, 0)

    def tail(self, device_id: int) -> list[str]:
        """The last bad looks, oldest first, each with its time."""
        with self._lock:
            return list(self._tails.get(device_id, ()))

    def forget(self, device_id: int) -> None:
        """The device was restarted or given up: what it did before does not count any more."""
        with self._lock:
            self._failures.pop(device_id, None)
            self._tails.pop(device_id, None)

    def write(self, session: Session, row: tables.Device, report: health.HealthReport, now: datetime) -> None:
        """What the look measured. A device that did not answer was not measured."""
        if report.boot_id is None and not report.ok:
            return
        if row.boot_id is not None and report.boot_id is not None and report.boot_id != row.boot_id:
            devices.event(session, row.id, now, "rebooted", {"boot_id": report.boot_id})
        devices.note_battery(session, row, report.battery_pct, report.has_battery, now)
        devices.note_temperature(session, row, report.temperature_c, now)
        row.boot_completed, row.boot_id = report.boot_completed, report.boot_id or row.boot_id
        row.free_bytes, row.clock_skew_s = report.free_bytes, report.clock_skew_s
        self._mind_clock(session, row, report.clock_skew_s, now)

    def _mind_clock(self, session: Session, row: tables.Device, skew_s: float | None, now: datetime) -> None:
        """A clock that is wrong is told once, not at every look."""
        wrong = skew_s is not None and abs(skew_s) > readiness.MAX_CLOCK_SKEW_S
        with self._lock:
            told = row.id in self._skewed
            (self._skewed.add if wrong else self._skewed.discard)(row.id)
        if wrong and not told:
            devices.event(session, row.id, now, "clock", {"skew_s": round(skew_s or 0.0, 1)})

    def _judge(self, session: Session, row: tables.Device, report: health.HealthReport, now: datetime) -> None:
        failures = self._count(row.id, report, now)
        if row.health == Health.MAINTENANCE.value:
            return
        if not report.ill:
            self._well(session, row, now)
            return
        words = "; ".join(report.problems) or "it did not answer"
        if row.health == Health.GOOD.value and failures >= rules.DOUBT_AFTER:
            devices.set_health(
                session, row.id, Health.SUSPECT, words, "agent", now,
                action=rules.advice(words), log=self.tail(row.id),
            )  # fmt: skip

    def _count(self, device_id: int, report: health.HealthReport, now: datetime) -> int:
        with self._lock:
            if not report.ill:
                self._failures.pop(device_id, None)
                return 0
            line = f"{now:%H:%M:%S} {'; '.join(report.problems)[:300]}"
            self._tails.setdefault(device_id, deque(maxlen=_TAIL)).append(line)
            self._failures[device_id] = self._failures.get(device_id, 0) + 1
            return self._failures[device_id]

    def _well(self, session: Session, row: tables.Device, now: datetime) -> None:
        if row.health == Health.GOOD.value:
            row.strikes = rules.strikes_after_good(row.strikes, row.health_at, now)
        elif rules.is_over(Health(row.health), row.health_until, now):
            devices.set_health(session, row.id, Health.GOOD, None, "agent", now)
