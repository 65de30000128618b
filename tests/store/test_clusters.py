"""Incidents get their signature when they are stored; clusters gather them, are named, muted and found again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from farm.evidence import clusters as rules
from farm.store import clusters, tables
from farm.store.db import Database

NOW = datetime(2030, 1, 1, tzinfo=UTC)
STACK = "pid: 7, tid: 7, name: x  >>> x <<<\nsignal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x{:x}\n{}"
FRAMES = ("ggml_compute_forward_mul_mat", "ggml_graph_compute", "llama_decode")


def crash(address: int, *functions: str) -> str:
    lines = [f"      #{n:02d} pc {address + n:016x}  /data/x/libllama.so ({f}+{n})" for n, f in enumerate(functions)]
    return STACK.format(address, "\n".join(lines))


@pytest.fixture
def device(db: Database) -> int:
    with db.session() as session:
        session.add(tables.Host(name="local", drained=False, info={}))
        session.flush()
        session.add(tables.Device(id=1, serial="s", name="s", host="local", labels={}))
    return 1


def store(db: Database, evidence: str | None, klass: str = "engine-crashed", at: datetime = NOW) -> str:
    with db.session() as session:
        row = tables.Incident(device_id=1, at=at, klass=klass, summary="the engine crashed", evidence=evidence)
        session.add(row)
        clusters.sign(session, row)
        assert row.signature is not None
        return row.signature


def regroup(db: Database) -> int:
    with db.read() as session:
        found = clusters.candidates(session)
    keys = list(found.texts)
    moves = rules.settle(keys, rules.group(list(found.texts.values())), found.clusters, found.kept)
    with db.session() as session:
        return clusters.gather(session, moves, NOW + timedelta(days=1))


def cluster_of(db: Database, key: str) -> int:
    with db.read() as session:
        return session.get_one(tables.Signature, key).cluster_id


def count(db: Database) -> int:
    with db.read() as session:
        return session.scalar(select(func.count()).select_from(tables.Cluster)) or 0


def test_the_same_fault_again_is_the_same_signature_and_widens_when_it_was_seen(db: Database, device: int) -> None:
    later = NOW + timedelta(hours=3)
    keys = {store(db, crash(4096, *FRAMES)), store(db, crash(99_000, *FRAMES), at=later)}
    assert len(keys) == 1
    with db.read() as session:
        (row,) = session.scalars(select(tables.Signature))
    assert (row.first_seen, row.last_seen, row.klass) == (NOW, later, "native_crash")


def test_a_build_that_inlined_a_function_comes_into_the_cluster_and_the_empty_one_goes(
    db: Database, device: int
) -> None:
    one, other = store(db, crash(1, *FRAMES)), store(db, crash(2, *FRAMES[:2]))
    far = store(db, None, "warning")
    assert len({cluster_of(db, key) for key in (one, other, far)}) == 3
    assert regroup(db) == 1
    assert cluster_of(db, one) == cluster_of(db, other) != cluster_of(db, far)
    assert count(db) == 2
    assert regroup(db) == 0


def test_a_named_cluster_takes_new_signatures_in_and_keeps_its_number(db: Database, device: int) -> None:
    old = store(db, crash(1, *FRAMES))
    named = cluster_of(db, old)
    with db.session() as session:
        clusters.rename(session, named, "matrix product", "ann", NOW)
    new = store(db, crash(2, *FRAMES[:2]))
    store(db, crash(3, *FRAMES, "main_loop"))
    regroup(db)
    assert cluster_of(db, new) == cluster_of(db, old) == named


def test_incidents_from_before_signatures_get_theirs(db: Database, device: int) -> None:
    with db.session() as session:
        session.add(tables.Incident(device_id=1, at=NOW, klass="warning", summary="clock 7 s off"))
        session.add(tables.Incident(device_id=1, at=NOW, klass="warning", summary="clock 9 s off"))
    with db.session() as session:
        assert clusters.sign_old(session) == 2
    with db.session() as session:
        assert clusters.sign_old(session) == 0
        assert len(set(session.scalars(select(tables.Incident.signature)))) == 1


def test_mute_and_unmute_and_a_cluster_that_is_not_there(db: Database, device: int) -> None:
    number = cluster_of(db, store(db, None))
    with db.session() as session:
        clusters.mute(session, number, "known, fixed in 1.5", "ann", NOW)
    with db.read() as session:
        row = session.get_one(tables.Cluster, number)
        assert (row.muted_by, row.mute_reason) == ("ann", "known, fixed in 1.5")
    with db.session() as session:
        clusters.unmute(session, number, NOW)
        assert session.get_one(tables.Cluster, number).muted_at is None
        with pytest.raises(clusters.NoSuchCluster):
            clusters.rename(session, 10**6, "x", "ann", NOW)
