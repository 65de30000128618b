"""The farm that is measured: the product's own application, planner and agent's heart, over places without a device.

    python -m benchmarks.pairs.server STATE --places N [--database URL] [--device] [--no-heart]

A place is a device row that its host's heart keeps fresh; there is nothing to clean, so a released lease is ended at
once (`Cleaner`). With `--device` the whole agent runs as well, with the virtual devices of the state folder. It prints
one line of JSON when it is up: `{"port", "token", "pid"}`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import uvicorn
from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.app import Farm, build
from farm.server import _listen
from farm.settings import load
from farm.store import handover, tables
from farm.store.artifacts import ArtifactStore
from farm.store.bus import Change
from farm.store.db import Database
from farm.store.prepared import run
from farm.work.context import Work
from farm.work.heart import Heart
from farm.work.planner import Planner
from farm.work.settings import WorkSettings

HOST = "places"


_RELEASED = (
    select(tables.Lease.id)
    .join(tables.Device, tables.Device.id == tables.Lease.device_id)
    .where(tables.Lease.ended_at.is_(None), tables.Lease.released_at.is_not(None), tables.Device.host == HOST)
)


def main() -> None:
    options = _options()
    logging.basicConfig(level=logging.WARNING)
    options.state.mkdir(parents=True, exist_ok=True)
    environ = {"FARM_DATABASE_URL": options.database} if options.database else {}
    settings = load(environ, state=options.state, port=0, inventory=options.state / "devices.yaml")
    farm = build(settings, work=options.device)
    listener = _listen(settings)
    server = _Server(farm, listener.getsockname()[1], options)
    try:
        server.run(sockets=[listener])
    finally:
        server.end()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("state", type=Path)
    parser.add_argument("--places", type=int, default=50)
    parser.add_argument("--database", default="")
    parser.add_argument("--device", action="store_true")
    parser.add_argument("--no-heart", action="store_true", help="another process keeps the places fresh")
    return parser.parse_args()


class _Server(uvicorn.Server):
    """Begins the rest of the farm once the application is up, and says where it is."""

    def __init__(self, farm: Farm, port: int, options: argparse.Namespace) -> None:
        super().__init__(
            uvicorn.Config(farm.app, log_config=None, access_log=False, timeout_graceful_shutdown=1, lifespan="on")
        )
        self._farm, self._port, self._options = farm, port, options
        self._parts: list[Planner | Heart | Cleaner] = []

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await super().startup(sockets)  # type: ignore[arg-type]
        await asyncio.to_thread(self._begin)
        token = self._farm.first.admin_token or (self._options.state / "cli-token").read_text().strip()
        print(json.dumps({"port": self._port, "token": token, "pid": os.getpid()}), flush=True)

    def _begin(self) -> None:
        db = self._farm.db
        add_places(db, self._options.places)
        self._parts.append(Cleaner(db))
        if not self._options.device:
            self._parts.append(Planner(db, WorkSettings(), lambda _session, _attempt: None))
        if not self._options.no_heart:
            self._parts.append(heart(db, self._options.state, HOST))
        for part in self._parts:
            part.start()

    def end(self) -> None:
        for part in reversed(self._parts):
            part.stop()


def add_places(db: Database, count: int, host: str = HOST) -> None:
    """So many devices of a host; what is there already stays."""
    with db.session() as session:
        now = db.now(session)
        if session.get(tables.Host, host) is None:
            session.add(tables.Host(name=host, drained=False, info={}, seen_at=now))
            session.flush()
        known = set(session.scalars(select(tables.Device.serial)))
        for number in range(count):
            serial = f"{host[:-1] if host == HOST else host}-{number}"
            if serial in known:
                continue
            session.add(
                tables.Device(
                    serial=serial, name=serial, host=host, listed=True, pool="places", labels={"abi": "arm64-v8a"},
                    connection="device", connection_at=now, seen_at=now, boot_completed=True,
                )
            )  # fmt: skip


def heart(db: Database, state: Path, host: str) -> Heart:
    """The agent's own heart, for the places of a host."""
    settings = WorkSettings(host=host)
    return Heart(Work(db, state, ArtifactStore(state / "artifacts"), settings, adb_port=1))


class Cleaner:
    """Ends a lease of a place as soon as it is released: cleaning that takes no time, and is not measured."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="cleaner", daemon=True)

    def start(self) -> None:
        self._db.bus.listen(self._heard)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._wake.set()
        self._thread.join(10)

    def _heard(self, changes: Sequence[Change]) -> None:
        if any(change.topic == "reservation" for change in changes):
            self._wake.set()

    def _loop(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(0.5)
            self._wake.clear()
            self.once()

    def once(self) -> None:
        with self._db.session() as session:
            released = run(session, _RELEASED, {}).scalars()
            together = len(released) if self._db.is_sqlite else 1  # on PostgreSQL who holds a device waits for no other
            for lease_id in released[:together]:
                self._free(session, lease_id)
        for lease_id in released[together:]:
            with self._db.session() as session:
                self._free(session, lease_id)

    def _free(self, session: Session, lease_id: int) -> None:
        handover.free(session, lease_id, self._db.now(session), "nothing to clean")


if __name__ == "__main__":
    main()
