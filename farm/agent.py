"""The agent's process: one per host, its devices, its attempts, its channel to a server.

    python -m farm.agent --host NAME [--state DIR] [--inventory FILE] [--server URL …]

It needs the farm's database (FARM_DATABASE_URL, PostgreSQL) and its artifact store (FARM_ARTIFACTS), the same as the
servers. It changes no schema: it waits until a server has brought that up to date.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from farm.adb.errors import AdbError
from farm.settings import Settings, SettingsError, choose_adb_port, load, refuse_sqlite
from farm.store import servers, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work import queue
from farm.work.channel import AgentChannel, Identity, Offer, echo
from farm.work.host import AgentWork, AlreadyRunning
from farm.work.live_logs import log_service
from farm.work.settings import WorkSettings, from_environment

log = logging.getLogger("farm.agent")

#: How long an agent waits for a server to bring the schema up to date, seconds.
SCHEMA_S = 300.0


class NotReady(RuntimeError):
    """The database is not what this agent can work with."""


def main(argv: list[str] | None = None) -> int:
    """Work until a signal; 0 after an ordinary end, 2 where it cannot work."""
    options = _parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)  # what it finds on import
    try:
        settings = load(
            state=options.state, inventory=options.inventory, host_name=options.host, servers=options.server
        )
        refuse_sqlite(settings, "farm agent")
        return run(settings)
    except (SettingsError, AlreadyRunning, NotReady, AdbError) as error:
        print(f"farm: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m farm.agent", description="Do the work of one host of a farm.")
    parser.add_argument("--host", help="name of this host in the farm")
    parser.add_argument("--state", type=Path)
    parser.add_argument("--inventory", type=Path)
    parser.add_argument("--server", action="append", default=[], help="a server's address; may be given several times")
    return parser


def run(settings: Settings) -> int:
    """The whole life of an agent. Raises AlreadyRunning, NotReady, AdbError."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    settings.state.mkdir(parents=True, exist_ok=True)
    settings.state.chmod(0o700)
    db = Database(settings.database)
    try:
        wait_for_schema(db, ended)
        if ended.is_set():
            return 0
        replaced = _work(settings, db, ended)
    finally:
        db.close()
    if replaced.is_set():
        print(f"farm: another agent speaks for the host {settings.host_name!r} by now", file=sys.stderr)
        return 2
    return 0


def _work(settings: Settings, db: Database, ended: threading.Event) -> threading.Event:
    """From the start of the work to its end; the event that is set when another agent has taken over."""
    replaced = threading.Event()

    def taken_over() -> None:
        replaced.set()
        ended.set()

    work = build(settings, db)
    channel = _channel(settings, db, work)
    work.start()
    try:
        work.keep_name(taken_over)
        channel.start()
        print(f"The agent of host {settings.host_name} is up.", flush=True)
        ended.wait()
    finally:
        channel.stop()
        work.stop(adb_server=_is_idle(db, settings.host_name))
    return replaced


def build(settings: Settings, db: Database) -> AgentWork:
    """The work of `settings.host_name`, not started."""
    chosen = from_environment(WorkSettings(host=settings.host_name, adb_port=choose_adb_port(settings)))
    return AgentWork(db, ArtifactStore(settings.artifacts), settings.state, chosen, settings.inventory)


def wait_for_schema(db: Database, ended: threading.Event, limit_s: float = SCHEMA_S) -> None:
    """Until the database has the schema and the protocol of this version. Raises NotReady."""
    until, said = time.monotonic() + limit_s, ""
    while not ended.is_set():
        lacks = _lacks(db)
        if lacks is None:
            return
        if time.monotonic() >= until:
            raise NotReady(f"waited {limit_s:g} s in vain: {lacks}")
        if lacks != said:
            log.info("waiting: %s", lacks)
            said = lacks
        ended.wait(0.5)


def _lacks(db: Database) -> str | None:
    """What keeps this agent from working, in words; None: nothing. Raises NotReady where waiting does not help."""
    try:
        if not db.is_current():
            return "the database has another schema than this version: start a server (`farm server`) of it"
        with db.read() as session:
            row = session.get(tables.Setting, queue.SETTING)
    except SQLAlchemyError as error:
        return f"the database cannot be reached: {str(error).splitlines()[0]}"
    if row is None:
        return "no server has prepared the database yet: start one (`farm server`)"
    if row.value.get("protocol") != queue.PROTOCOL:
        raise NotReady(
            f"the farm's servers speak protocol {row.value.get('protocol')}, this agent {queue.PROTOCOL}: drain this "
            "host, then bring servers and agents to one version (docs/operating.md, “Upgrade”)"
        )
    return None


def _channel(settings: Settings, db: Database, work: AgentWork) -> AgentChannel:
    def known() -> Sequence[str]:
        if settings.servers:
            return settings.servers
        with db.read() as session:
            return servers.urls(session, db.now(session))

    def holds(lease_id: int) -> bool:
        lease, device = tables.Lease, tables.Device
        query = select(lease.id).join(device, device.id == lease.device_id)
        with db.read() as session:
            found = query.where(lease.id == lease_id, lease.released_at.is_(None), device.host == settings.host_name)
            return session.scalar(found) is not None

    me = Identity(settings.host_name, work.incarnation, work.secret, queue.PROTOCOL)
    offers = {
        "echo": Offer(echo, needs_lease=False),
        "log": Offer(log_service(settings.state), needs_lease=False),
    }
    return AgentChannel(me, known, offers, holds)


def _is_idle(db: Database, host: str) -> bool:
    """Whether no lease is open here, so that the adb server may end too."""
    try:
        with db.read() as session:
            query = select(tables.Lease.id).join(tables.Device, tables.Device.id == tables.Lease.device_id)
            open_here = query.where(tables.Lease.ended_at.is_(None), tables.Device.host == host)
            return session.scalar(open_here.limit(1)) is None
    except SQLAlchemyError:
        return False


if __name__ == "__main__":
    sys.exit(main())
