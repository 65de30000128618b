"""Device rows as facts: one reading for planner, selectors and pages."""

from __future__ import annotations

from datetime import UTC, datetime

from farm.domain.devices import Connection, Health
from farm.store import devices, tables
from farm.store.db import Database
from farm.store.reads.devices import facts_of

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def test_a_word_that_nobody_knows_reads_as_the_worse_state_and_hides_no_other_device(db: Database) -> None:
    with db.session() as session:
        session.add(tables.Host(name="local", info={}, seen_at=NOW))
        session.flush()
        for serial, connection, health in (("odd", "teleported", "splendid"), ("fine", "device", "good")):
            row = tables.Device(serial=serial, name=serial, host="local", connection=connection, health=health)
            row.labels = {"abi": "x86_64", "ram_gb": 8}
            session.add(row)
    with db.read() as session:
        found = {fact.serial: fact for fact in devices.facts(session)}
        assert (found["odd"].connection, found["odd"].health) == (Connection.OFFLINE, Health.SUSPECT)
        assert (found["fine"].connection, found["fine"].health) == (Connection.ONLINE, Health.GOOD)
        assert found["odd"].labels == {"abi": "x86_64", "ram_gb": "8"}
        assert {fact.serial: fact for fact in facts_of(session)} == found, "pages see what the planner sees"
