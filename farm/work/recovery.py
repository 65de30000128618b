"""Lost and deaf devices of this host are brought back: `farm.domain.recovery` decides; looks, acts and notes are here.

A step machine in the agent rather than a durable workflow. The ladder's waits must end the moment that the device is
back, a person takes it or somebody leases it, and everything that it must remember is the device's own history, which
is written anyway: one event per rung, from which a recovery that a restart interrupted goes on. A workflow would keep a
thread per device for minutes, and every new rung would change the workflow's shape, which takes a drain.

Nothing is done to a device that is leased, in maintenance, or whose lock somebody else on this machine holds.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import threading
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.adb import health
from farm.adb.connection import device_prefix, query
from farm.adb.errors import AdbError, last_words
from farm.domain import health as rules
from farm.domain import recovery as ladder
from farm.domain.devices import Connection, Health
from farm.domain.recovery import Recovery, Rung, Sight
from farm.store import devices, tables
from farm.store.bus import touch
from farm.work.context import Work
from farm.work.hold import lock_of
from farm.work.inventory import InventoryKeeper
from farm.work.looks import Looks
from farm.work.sightings import device_at

log = logging.getLogger(__name__)

#: Kinds of events in a device's history: a rung, and what an action of it came to.
RUNG = "recovery"
ACTION = "recovery-action"
#: A host's own command for a device's power may take so long.
_COMMAND_S = 60.0
_TAIL = 20


class Recoveries:
    """`wanted` says, at every pass of the agent, whether `step` should be called for a device."""

    def __init__(self, work: Work, inventory: InventoryKeeper, looks: Looks) -> None:
        self._work, self._inventory, self._looks = work, inventory, looks
        self._lock = threading.Lock()
        self._online: set[int] = set()  # was there and well since it was last given up
        self._under_way: dict[int, Recovery] = {}

    def begin(self) -> None:
        """At a start, before sightings are forgotten: what was under way goes on, what was there is missed if gone."""
        with self._work.db.read() as session:
            rows = session.scalars(select(tables.Device).where(tables.Device.host == self._work.settings.host)).all()
            for row in rows:
                if row.connection == Connection.ONLINE.value:
                    self._online.add(row.id)
                found = ladder.resume(
                    (e.at, e.detail.get("rung", ""), e.detail.get("why", "")) for e in _rungs(session, row.id)
                )
                if found is not None:
                    self._under_way[row.id] = found

    def wanted(self, row: tables.Device, leased: bool, now: datetime, *, settled: bool = True) -> bool:
        """Whether the device needs a rung of the ladder now. Quick: nothing is asked of the device.

        `settled` False: what adb lists is not to be relied on yet; that the device was there is remembered.
        """
        with self._lock:
            if not settled:
                if row.connection == Connection.ONLINE.value:
                    self._online.add(row.id)
                return False
            if row.id in self._under_way:
                return not leased
            why = None if leased or row.health == Health.MAINTENANCE.value else self._why(row, now)
            if row.connection == Connection.ONLINE.value:
                self._online.add(row.id)
            if why is not None:
                self._online.discard(row.id)
                self._under_way[row.id] = ladder.begin(why, now)
            return why is not None

    def _why(self, row: tables.Device, now: datetime) -> str | None:
        """What calls for a recovery, None: nothing does."""
        if row.connection != Connection.ONLINE.value:
            return f"adb says {row.connection}" if row.id in self._online else None
        if row.health == Health.BAD.value and not rules.is_over(Health.BAD, row.health_until, now):
            return None
        failures = self._looks.failures(row.id)
        if failures >= rules.RECOVER_AFTER:
            return f"{failures} bad looks in a row: {row.health_reason or 'it does not answer'}"
        limit = ladder.LIMITS[Rung.BOOT] / self._work.settings.recovery_pace
        if row.boot_completed is False and row.connection_at is not None and now - row.connection_at > limit:
            return "it does not finish booting"
        return None

    def step(self, device_id: int) -> None:
        """Look, decide, write down, act. Called from the agent's pool, once a second at most."""
        with self._lock:
            at = self._under_way.get(device_id)
        with self._work.db.read() as session:
            row = session.get_one(tables.Device, device_id)
            now = self._work.db.now(session)
        if at is None:
            return
        if row.health == Health.MAINTENANCE.value:
            self._drop(row, at, "it was taken into maintenance")
            return
        seen = self._see(row)
        if seen is None:
            return  # the adb server is away: nothing is known
        power = bool(self._power_command(row))
        pace = self._work.settings.recovery_pace
        after = ladder.decide(at, seen, now, can_power_cycle=power, pace=pace)
        if after is at:
            return
        self._write(row, at, after, seen, power)
        with self._lock:
            if after.rung.is_last:
                self._under_way.pop(device_id, None)
            else:
                self._under_way[device_id] = after
        if after.rung.acts:
            self._act(row, after.rung)

    def _see(self, row: tables.Device) -> Sight | None:
        connection = Connection(row.connection)
        if connection is not Connection.ONLINE:
            return Sight(connection)
        report = health.check(device_at(self._work, row), deep=True)
        if report.server_gone:
            return None
        booted = not report.ill and report.boot_completed is not False
        return Sight(connection, report.boot_id is not None, booted, "; ".join(report.problems)[:300])

    # ---- what is written ----

    def _write(self, row: tables.Device, at: Recovery, after: Recovery, seen: Sight, power: bool) -> None:
        brief = at.rung is Rung.SETTLE and after.rung is Rung.RECOVERED
        with self._work.db.session() as session:
            now = self._work.db.now(session)
            device = session.get_one(tables.Device, row.id)
            if at.rung is Rung.SETTLE and not brief:
                _note(session, device, at)
                _say(session, device, f"being recovered: {at.why}", now)
            if not brief:
                _note(session, device, after)
            if after.rung is Rung.GIVEN_UP:
                self._given_up(session, device, after, seen, power, now)
            elif after.rung is Rung.RECOVERED:
                self._recovered(session, device, brief, now)
            touch(session, "device", device.id, at=now, device_id=device.id)
        log.warning("%s: recovery: %s (%s)", row.name, after.rung.value, after.why)

    def _given_up(
        self, session: Session, device: tables.Device, at: Recovery, seen: Sight, power: bool, now: datetime
    ) -> None:
        advice = ladder.advice(seen, at, can_power_cycle=power)
        words = f"recovery gave up: {at.why}"
        tail = [*self._looks.tail(device.id), *_story(session, device.id)]
        self._looks.forget(device.id)
        if device.health == Health.BAD.value and not rules.is_over(Health.BAD, device.health_until, now):
            device.health_action = device.health_action or advice  # it is in quarantine already, for its own reason
        elif seen.connection is Connection.ONLINE:
            devices.put(
                session, device, rules.after_giving_up(device.strikes, words, advice), "recovery", now, log=tail
            )
        else:  # away: when it is back one good look is enough
            devices.set_health(session, device.id, Health.SUSPECT, words, "recovery", now, action=advice, log=tail)

    def _recovered(self, session: Session, device: tables.Device, brief: bool, now: datetime) -> None:
        self._looks.forget(device.id)
        with self._lock:
            self._online.add(device.id)
        if not brief:
            _say(session, device, "recovered; checked before its next use", now)

    def _drop(self, row: tables.Device, at: Recovery, why: str) -> None:
        with self._lock:
            self._under_way.pop(row.id, None)
        with self._work.db.session() as session:
            now = self._work.db.now(session)
            if at.rung is not Rung.SETTLE:
                devices.event(session, row.id, now, RUNG, {"rung": Rung.GIVEN_UP.value, "why": why})

    # ---- what is done ----

    def _act(self, row: tables.Device, rung: Rung) -> None:
        lock = lock_of(self._work, row)
        if not lock.try_acquire(f"the farm in {self._work.state}, recovering"):
            result = f"not done: the device is held by {lock.holder()}"
        else:
            try:
                result = self._do(row, rung)
            except (AdbError, OSError, ValueError, subprocess.SubprocessError) as error:
                result = f"failed: {error}"
            finally:
                lock.release()
        with self._work.db.session() as session:
            now = self._work.db.now(session)
            devices.event(session, row.id, now, ACTION, {"rung": rung.value, "result": result[:500]})

    def _do(self, row: tables.Device, rung: Rung) -> str:
        if rung is Rung.POWER_CYCLE:
            return run_command(filled(self._power_command(row), row.serial, row.address))
        if rung is Rung.RECONNECT:
            address = row.address or row.serial
            query(self._work.adb_host, self._work.adb_port, f"{device_prefix(address)}:reconnect", address)
            return "done"
        if row.connection == Connection.BOOTLOADER.value:
            fastboot = shutil.which("fastboot")
            if fastboot is None:
                return "not done: it is in its bootloader, and this host has no fastboot"
            return run_command([fastboot, "-s", row.serial, "reboot"])
        # Not `device_at`: that asks the shell who it is, which a deaf device does not answer. Its address is kept only
        # while the transport is the one that did answer.
        self._work.device(row.address or row.serial).reboot()
        return "done"

    def _power_command(self, row: tables.Device) -> tuple[str, ...]:
        """The host's command as devices.yaml has it; empty: it has none."""
        entry = self._inventory.current.hosts.get(row.host)
        return () if entry is None else entry.power_cycle


def filled(command: Sequence[str], serial: str, address: str | None) -> list[str]:
    """The host's command with the device put in. It is never read by a shell; a serial that looks like an option, and
    would be one, is refused (ValueError)."""
    made = [part.replace("{serial}", serial).replace("{address}", address or serial) for part in command]
    for before, after in zip(command, made, strict=True):
        if before != after and after.startswith("-") and not before.startswith("-"):
            raise ValueError(f"{after!r} would be taken for an option")
    return made


def run_command(command: Sequence[str], timeout_s: float = _COMMAND_S) -> str:
    """Run a host's own command; what it came to in one line."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout_s,
        check=False, start_new_session=True,
    )  # fmt: skip
    said = last_words(done.stderr or done.stdout)
    return "done" if done.returncode == 0 else f"failed: {command[0]} ended with {done.returncode}: {said}"


def _say(session: Session, device: tables.Device, words: str, now: datetime) -> None:
    """Doubt with these words, unless somebody's quarantine says more."""
    if device.health in (Health.GOOD.value, Health.SUSPECT.value):
        devices.set_health(session, device.id, Health.SUSPECT, words, "recovery", now)


def _note(session: Session, device: tables.Device, at: Recovery) -> None:
    devices.event(session, device.id, at.since, RUNG, {"rung": at.rung.value, "why": at.why})


def _rungs(session: Session, device_id: int) -> list[tables.DeviceEvent]:
    """The newest rungs of a device's history, oldest first."""
    e = tables.DeviceEvent
    query = select(e).where(e.device_id == device_id, e.kind == RUNG).order_by(e.at.desc(), e.id.desc()).limit(50)
    return list(session.scalars(query))[::-1]


def _story(session: Session, device_id: int) -> list[str]:
    """The rungs of the last recovery as lines of a log."""
    rungs = _rungs(session, device_id)[-_TAIL:]
    return [f"{e.at:%H:%M:%S} {e.detail.get('rung')}: {e.detail.get('why')}" for e in rungs]
