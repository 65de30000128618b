"""The journal on its way: torn lines wait, floods are passed over, and nothing is lost while the database is away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select
from sqlalchemy.exc import InterfaceError, OperationalError

from farm.domain.journal import MAX_LINE, Record
from farm.store import results, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work.context import Work
from farm.work.journal import JournalTail, Shipper
from farm.work.planner import Planner
from farm.work.settings import WorkSettings
from tests.work.factories import add_bundle_and_pack, add_device, start_run


def line(seq: int, kind: str = "note", **fields: Any) -> bytes:
    return Record(seq, 1000.0 + seq, 10.0 + seq, kind, fields).line().encode()


def test_a_torn_line_waits_for_its_rest(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    tail = JournalTail(path)
    assert tail.read() == []
    whole, torn = line(0), line(1)
    path.write_bytes(whole + torn[:10])
    assert [r.seq for r in tail.read()] == [0]
    with path.open("ab") as file:
        file.write(torn[10:] + line(2))
    assert [r.seq for r in tail.read()] == [1, 2]
    assert tail.read() == []


def test_a_line_that_is_too_long_is_passed_over_and_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(line(0) + b"x" * (20 << 20) + b"\n" + line(1))
    tail = JournalTail(path)
    found: list[int] = []
    for _ in range(20):
        found += [r.seq for r in tail.read()]
        assert len(tail._rest) <= MAX_LINE
    assert found == [0, 1]


def test_the_end_is_the_last_one_unless_the_runner_started_anew(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(line(0, "start") + line(1, "end", outcome="infra-error"))
    tail = JournalTail(path)
    tail.read()
    assert tail.has_ended()
    with path.open("ab") as file:
        file.write(line(2, "start"))
    tail.read()
    assert not tail.has_ended()
    assert tail.starts == 2


@given(st.lists(st.binary(max_size=40), max_size=10), st.lists(st.integers(1, 50), min_size=1, max_size=20))
def test_any_bytes_in_any_pieces_give_the_same_records(
    tmp_path_factory: Any, junk: list[bytes], cuts: list[int]
) -> None:
    data = b"\n".join([*junk, b""]) + line(7, "note", text="ä\n") + b"".join(junk)
    path = tmp_path_factory.mktemp("j") / "journal.jsonl"
    tail = JournalTail(path)
    found: list[Record] = []
    at = 0
    for cut in [*cuts, len(data)]:
        with path.open("ab") as file:
            file.write(data[at : at + cut])
        at += cut
        found += tail.read()
    assert 7 in [r.seq for r in found]


@pytest.fixture
def shipper(db: Database, store: ArtifactStore, tmp_path: Path) -> Shipper:
    add_device(db, "d1")
    add_bundle_and_pack(db, store, tmp_path / "src")
    start_run(db)
    Planner(db, WorkSettings(), lambda _session, _attempt: None).once()
    work = Work(db, tmp_path, store, WorkSettings())
    with db.read() as session:
        token = session.get_one(tables.Attempt, 1).token
    return Shipper(work, 1, token, JournalTail(tmp_path / "journal.jsonl"))


def test_nothing_is_lost_while_the_database_is_away(
    shipper: Shipper, db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(line(0, "collected", tests=["a", "b"]))
    away = [True]
    real = results.apply

    def sometimes(*arguments: Any, **more: Any) -> int:
        if away[0]:
            raise OperationalError("INSERT", {}, Exception("disk I/O error"))
        return real(*arguments, **more)

    monkeypatch.setattr(results, "apply", sometimes)
    assert not shipper.ship()
    with path.open("ab") as file:
        file.write(line(1, "test_end", test="a", outcome="passed", duration_s=1.0))
    assert not shipper.ship()
    away[0] = False
    shipper.ship_all()
    with db.read() as session:
        assert session.scalar(select(func.count()).select_from(tables.JournalMark)) == 2
        assert session.get_one(tables.Test, (1, "a")).outcome == "passed"


def test_the_last_shipping_waits_for_the_database_and_loses_nothing(
    shipper: Shipper, db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody ships after it: what it left would be a result that is missing."""
    monkeypatch.setattr("farm.work.journal._PAUSE_S", 0.01)
    (tmp_path / "journal.jsonl").write_bytes(line(0, "test_end", test="a", outcome="passed", duration_s=1.0))
    real, tries = results.apply, iter([OperationalError, InterfaceError])

    def at_last(*arguments: Any, **more: Any) -> int:
        kind = next(tries, None)
        if kind is not None:
            raise kind("INSERT", {}, Exception("terminating connection due to administrator command"))
        return real(*arguments, **more)

    monkeypatch.setattr(results, "apply", at_last)
    shipper.ship_all()
    with db.read() as session:
        assert session.get_one(tables.Test, (1, "a")).outcome == "passed"


def test_a_last_shipping_that_the_database_never_takes_says_so(
    shipper: Shipper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farm.work.journal._PATIENCE_S", 0.0)
    (tmp_path / "journal.jsonl").write_bytes(line(0))

    def away(*_arguments: Any, **_more: Any) -> int:
        raise OperationalError("INSERT", {}, Exception("the database system is shutting down"))

    monkeypatch.setattr(results, "apply", away)
    with pytest.raises(OperationalError):
        shipper.ship_all()


def test_a_journal_that_is_read_again_from_its_start_changes_nothing(
    shipper: Shipper, db: Database, tmp_path: Path
) -> None:
    path = tmp_path / "journal.jsonl"
    body = {"test": "a", "device": "d1", "name": "n", "unit": "u", "better": "higher", "values": [1.0]}
    path.write_bytes(line(0, "measurement", **json.loads(json.dumps(body))))
    shipper.ship_all()
    Shipper(shipper._work, 1, shipper._token, JournalTail(path)).ship_all()
    with db.read() as session:
        assert session.scalar(select(func.count()).select_from(tables.Measurement)) == 1
