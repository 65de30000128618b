"""What pages show that no device row tells: strangers on the bus, and an attempt's own heat."""

from __future__ import annotations

import struct
from datetime import timedelta
from pathlib import Path

import zstandard

from farm.store import tables as t
from farm.store.reads import attempts, fleet, runs
from farm.store.reads.shared import Point
from tests.dashboard.seed import seeded
from tests.store.reads.test_reads import NOW, RETRIED


def test_what_adb_lists_and_cannot_say_who_it_is_is_shown_with_what_helps(tmp_path: Path) -> None:
    db = seeded(tmp_path / "farm.sqlite", NOW)
    noted = [
        {"address": "3A021FDF6", "state": "unauthorized"},
        {"address": "1234", "state": "no permissions (user is not in the plugdev group)"},
        {"address": "10.0.0.7:5600", "state": "offline"},
        {"address": "10.0.0.8:5600", "state": "connecting"},
        {"address": "", "state": "offline"},
        "nonsense",
    ]
    with db.session() as session:
        session.get_one(t.Host, "lab-2").info = {"unidentified": noted}
        session.get_one(t.Host, "local").info = {"unidentified": "nonsense"}
    with db.read() as session:
        found = fleet.fleet(session, NOW).unidentified
        silent = fleet.fleet(session, NOW + timedelta(minutes=5)).unidentified
    db.close()
    assert [(one.host, one.address) for one in found] == [("lab-2", one["address"]) for one in noted[:4]]  # type: ignore[index]
    for one, words in zip(found, ("accept the key", "udev", "boot", "on its way"), strict=True):
        assert words in one.remedy
    assert silent == ()  # what a silent host noted last is not known to be so


def test_an_attempts_own_temperature_series_goes_before_the_devices_history(tmp_path: Path) -> None:
    db = seeded(tmp_path / "farm.sqlite", NOW)
    with db.read() as session:
        before = runs.run(session, RETRIED, NOW)
    assert before is not None
    kept, replaced = list(before.temperatures)[:2]
    began = NOW - timedelta(minutes=40)
    own = [Point(began + timedelta(seconds=n / 2), 30.0 + n) for n in range(6)]

    def chunk(attempt_id: int, seq: int, points: list[Point]) -> t.SeriesChunk:
        pairs = b"".join(struct.pack("<dd", p.at.timestamp(), p.value) for p in points)
        span = {"began_at": points[0].at, "ended_at": points[-1].at, "count": len(points)}
        data = zstandard.compress(pairs)
        return t.SeriesChunk(
            attempt_id=attempt_id, seq=seq, device_id=1, name="temperature", unit="°C", data=data, **span
        )

    with db.session() as session:
        session.add_all([chunk(replaced, 9001, own[3:]), chunk(replaced, 9002, own[:3]), chunk(kept, 9003, own[:1])])
    with db.read() as session:
        found = runs.run(session, RETRIED, NOW)
        shown = attempts.attempt(session, replaced, NOW)
    db.close()
    assert found is not None
    assert shown is not None
    assert list(found.temperatures[replaced].points) == own
    assert found.temperatures[kept] == before.temperatures[kept]  # one point is no curve
    assert [s.name for s in shown.series].count("temperature") == 1
    assert list(shown.series[0].points) == own
