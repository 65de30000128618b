"""The agent's loop: which devices there are, how they are, and what was left undone on them.

It owns the adb server of this host. Everything that talks to a device runs in a small pool, one task per device at a
time, so that a device that hangs delays nobody else.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sqlalchemy import select

from farm.adb.server import AdbServer
from farm.adb.tracker import Tracker
from farm.domain.devices import Health
from farm.domain.leases import RESERVATION
from farm.domain.outcomes import Phase
from farm.store import leases, tables
from farm.store.bus import Change
from farm.work.context import Work
from farm.work.heart import Heart
from farm.work.inventory import InventoryKeeper
from farm.work.late import Leftovers
from farm.work.looks import Looks
from farm.work.recovery import Recoveries
from farm.work.reserved import Reserved
from farm.work.sightings import Sightings
from farm.work.upkeep import Upkeep
from farm.work.watch import Watch

log = logging.getLogger(__name__)

_TICK_S = 1.0
#: After a start of the agent a device that is not listed yet is not called gone for so long.
_GRACE_S = 5.0
_REPAIR_EVERY_S = 15.0
_CLEAN_EVERY_S = 10.0
_UPKEEP_EVERY_S = 60.0
_LEFTOVERS_EVERY_S = 5.0


class Agent:
    """`repair`: enters attempts again whose workflow was lost (`Workflows.repair`)."""

    def __init__(self, work: Work, inventory: Path, repair: Callable[[], object] = lambda: None) -> None:
        self._work, self._repair = work, repair
        self._server = AdbServer(work.adb_port, work.state / "adb")
        self._inventory = InventoryKeeper(work.db, inventory, work.settings.host)
        self._sightings = Sightings(work, self._inventory)
        self._watch = Watch(work)
        self._looks = Looks(work)
        self._recoveries = Recoveries(work, self._inventory, self._looks)
        self._reserved = Reserved(work)
        self._heart = Heart(work)
        self._upkeep = Upkeep(work)
        self._leftovers = Leftovers(work)
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._tracker = Tracker(self._server, on_change=lambda _entries: self._wake.set(), on_server=log.warning)
        work.adb_steady = lambda: self._tracker.steady
        self._pool = ThreadPoolExecutor(16, "device")
        self._busy: set[str] = set()
        self._last: dict[str, float] = {}  # when each task was begun
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._began = time.monotonic()

    def start(self) -> None:
        """Raises AdbError when no adb server can be had."""
        self._inventory.poll()
        self._recoveries.begin()
        self._sightings.begin()
        self._began = time.monotonic()
        self._leftovers.begin()
        self._tracker.start()
        self._work.db.bus.listen(self._heard)
        self._heart.start()
        self._thread = threading.Thread(target=self._loop, name="agent", daemon=True)
        self._thread.start()

    def stop(self, *, adb_server: bool = False) -> None:
        """End the loops. The adb server goes on for the runners that use it, unless it is to be ended too."""
        self._stop.set()
        self._work.db.bus.unlisten(self._heard)
        self._wake.set()
        if self._thread is not None:
            self._thread.join(30)
        self._heart.stop()
        self._tracker.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)
        if adb_server:
            self._server.stop()

    def _heard(self, changes: Sequence[Change]) -> None:
        """A reservation that begins or ends is prepared or cleaned after at once."""
        if any(change.topic == "reservation" for change in changes):
            self._wake.set()

    def _loop(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(_TICK_S)
            self._wake.clear()
            if self._stop.is_set():
                return
            try:
                self.once()
            except Exception:
                log.exception("a pass of the agent failed; the next one begins anew")
                self._stop.wait(0.5)

    def once(self) -> None:
        """One pass: file, addresses, sightings, looks and repairs that are due."""
        self._inventory.poll()
        self._tracker.keep(self._addresses())
        settled = time.monotonic() - self._began > _GRACE_S
        self._sightings.note_adb(self._tracker.trouble)
        listed, steady = self._tracker.entries(), self._tracker.steady
        for entry in self._sightings.update(listed, forget=settled and steady):
            self._submit(f"identify {entry.address}", 0.5, self._sightings.identify, entry)
        with self._work.db.read() as session:
            rows = session.scalars(select(tables.Device).where(tables.Device.host == self._work.settings.host)).all()
            held = leases.open_leases(session, self._work.settings.host)
            now = self._work.db.now(session)
        working = {lease.device_id for lease in held}
        settings = self._work.settings
        for row in rows:
            if self._recoveries.wanted(row, row.id in working, now, settled=settled):
                self._submit(f"recover {row.id}", 1.0, self._recoveries.step, row.id)
            elif self._watch.needs_cleaning(row) and row.id not in working:
                self._submit(f"clean {row.id}", _CLEAN_EVERY_S, self._watch.clean_up, row.id)
            elif row.connection == "device":
                busy = row.id in working and row.health == Health.GOOD.value
                every = settings.busy_health_every_s if busy else settings.health_every_s
                self._submit(f"look {row.id}", 1.0 if row.health == "suspect" else every, self._looks.look, row.id)
        for verb, lease in self._reserved.due(held):
            task = self._reserved.clean if verb == "clean" else self._reserved.prepare
            self._submit(f"{verb} lease {lease.id}", 1.0, task, lease)
        self._orphans()
        self._submit("repair", _REPAIR_EVERY_S, self._repair)
        self._submit("upkeep", _UPKEEP_EVERY_S, self._upkeep.once)
        self._submit("leftovers", _LEFTOVERS_EVERY_S, self._leftovers.once)

    def _addresses(self) -> set[str]:
        """What is to be kept connected: the file's addresses and, when it wants them, running virtual devices."""
        found = set(self._inventory.current.connect)
        if self._inventory.current.virtual:
            found |= virtual_addresses(self._work.state / "virtual")
        return found

    def _orphans(self) -> None:
        """Leases that were released, whose attempt is done: nobody else will end them."""
        with self._work.db.read() as session:
            orphans = session.scalars(
                select(tables.Lease.id)
                .join(tables.Device, tables.Device.id == tables.Lease.device_id)
                .outerjoin(tables.Attempt, tables.Attempt.id == tables.Lease.attempt_id)
                .where(
                    tables.Device.host == self._work.settings.host,
                    tables.Lease.ended_at.is_(None),
                    tables.Lease.released_at.is_not(None),
                    tables.Lease.holder.not_like(f"{RESERVATION}%"),
                    tables.Attempt.id.is_(None) | (tables.Attempt.phase == Phase.DONE.value),
                )
            ).all()
        for lease_id in orphans:
            self._submit(f"orphan {lease_id}", 5.0, self._watch.end_orphan, lease_id)

    def _submit(self, key: str, every_s: float, task: Callable[..., object], *arguments: object) -> None:
        """Run a task in the pool unless it still runs or was begun less than `every_s` ago."""
        now = time.monotonic()
        with self._lock:
            if key in self._busy or now - self._last.get(key, -every_s) < every_s:
                return
            self._busy.add(key)
            self._last[key] = now

        def run() -> None:
            try:
                task(*arguments)
            except Exception:
                log.exception("%s failed", key)
            finally:
                with self._lock:
                    self._busy.discard(key)
                self._wake.set() if key.startswith("identify") else None

        self._pool.submit(run)


def virtual_addresses(root: Path) -> set[str]:
    """Addresses of the virtual devices that run below `root`: each leaves a `device.json` with address and pid."""
    found: set[str] = set()
    for path in root.glob("*/device.json"):
        try:
            facts = json.loads(path.read_text())
            # The pid alone may be somebody else's by now, and the address another device's.
            if os.fsencode(path.parent.resolve()) in Path(f"/proc/{int(facts['pid'])}/cmdline").read_bytes():
                found.add(str(facts["address"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # half written, or of a device that is just going
    return found
