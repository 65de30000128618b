"""`farm hosts`: which machines there are, and why one gets no work."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import delete

from farm.store import tables as t
from tests.cli.conftest import farm
from tests.served import Served


def test_each_host_says_whether_it_can_be_given_work_and_why_not(farm_server: Served) -> None:
    db = farm_server.farm.db
    now = db.now()
    full = "about 10 MB are free in /farm/attempts, below 268 MB: free some"
    with db.session() as session:
        session.add(t.Host(name="lab-2", info={}, seen_at=now + timedelta(hours=1), unready=full))
        session.add(t.Host(name="lab-3", info={}, seen_at=now - timedelta(hours=2)))
        session.add(t.Host(name="lab-4", info={}, seen_at=now + timedelta(hours=1), lost_at=now))
    try:
        shown = farm("hosts", state=farm_server.settings.state)
        rows = {line.split()[0]: " ".join(line.split()[1:]) for line in shown.out.splitlines()[1:]}
        assert rows["lab-2"].startswith("not-ready 0 ")
        assert rows["lab-2"].endswith(full)
        assert rows["lab-3"].startswith("away 0 2 h ago")
        assert rows["lab-4"].startswith("away 0 ")
        told = farm("hosts", "--json", state=farm_server.settings.state).json()["hosts"]
        assert {host["name"]: host["unready"] for host in told}["lab-2"] == full
    finally:
        with db.session() as session:
            session.execute(delete(t.Host).where(t.Host.name.in_(["lab-2", "lab-3", "lab-4"])))
