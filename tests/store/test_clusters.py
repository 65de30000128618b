"""Incidents get their signature when they are stored; clusters gather them, are named, muted and found again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from farm.evidence import clusters as rules
from farm.store import clusters, tables
from farm.store.db import Database
from farm.store.reads import clusters as reads

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


def add_attempts(session: Session, running: tuple[bool, ...]) -> None:
    """One per value, numbered from 1, on device 1: one that runs, or one that has ended."""
    session.add(tables.Bundle(hash="b", name="b", version="1", adapter="events", manifest={}, bytes=1, created_at=NOW))
    session.add(tables.SuitePack(hash="p", name="p", manifest={}, bytes=1, created_at=NOW))
    session.flush()
    run = {"title": "t", "klass": "manual", "bundle_hash": "b", "pack_hash": "p", "suites": ["s"], "selector": "*"}
    session.add(tables.Run(id=1, created_at=NOW, request={}, **run))
    session.flush()
    session.add(tables.Job(id=1, run_id=1, ordinal=0, selector="*", suites=["s"], klass="manual", queued_at=NOW))
    session.flush()
    for number, runs in enumerate(running, start=1):
        ended = None if runs else NOW
        session.add(
            tables.Attempt(
                id=number, job_id=1, number=number, device_id=1, host="local", token=number, created_at=NOW,
                ended_at=ended, workflow_id=f"w{number}",
            )
        )  # fmt: skip
    session.flush()


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


def test_what_a_suite_tried_is_one_fault_whatever_names_and_numbers_it_used(db: Database, device: int) -> None:
    def keys(klass: str, *summaries: str) -> set[str | None]:
        with db.session() as session:
            rows = [tables.Incident(device_id=1, at=NOW, klass=klass, summary=summary) for summary in summaries]
            session.add_all(rows)
            for row in rows:
                clusters.sign(session, row)
            return {row.signature for row in rows}

    ports = keys(
        "sandbox-refused",
        "connect 127.0.0.1 port 5001: nothing listens there; ports of the host cannot be reached",
        "connect ::1 port 80: nothing listens there; ports of the host cannot be reached",
        "8 more like these: ports of the host",
    )
    files = keys("sandbox-refused", "openat /srv/a: outside of this attempt", "openat /mnt/b: outside of this attempt")
    others = keys(
        "lens-refused",
        "host:transport:R58N1: 'R58N1' is not a device of this lease",
        "host-serial:10.0.0.7:5555:get-state: '10.0.0.7:5555' is not a device of this lease",
        "host:transport-id:77: transport 77 is not leased",
    )
    asked = keys("lens-refused", "host:kill: 'kill': the adb server belongs to the farm")
    assert [len(found) for found in (ports, files, others, asked)] == [1, 1, 1, 1]
    unknown = keys("sandbox-refused", "8 more like these")  # as older journals say it
    assert len(ports | files | others | asked | unknown) == 5


def test_a_fault_is_not_split_by_the_device_that_its_words_name(db: Database, device: int) -> None:
    with db.session() as session:
        session.add(tables.Device(id=2, serial="VX-husky", name="husky-v1", host="local", labels={}))
        session.add(tables.Device(id=3, serial="R58N-71", name="shelf", host="local", labels={}))
        rows = [
            tables.Incident(device_id=3, at=NOW, klass="engine-failed", summary="R58N-71: no room on the device"),
            tables.Incident(device_id=2, at=NOW, klass="engine-failed", summary="VX-husky: no room on the device"),
            tables.Incident(device_id=2, at=NOW, klass="engine-failed", summary="husky-v1: no room on the device"),
        ]
        session.add_all(rows)
        for row in rows:
            clusters.sign(session, row)
        assert len({row.signature for row in rows}) == 1


def test_an_attempt_that_still_runs_and_has_the_fault_counts_in_its_rate(db: Database, device: int) -> None:
    with db.session() as session:
        add_attempts(session, running=(True, True, False))
        row = tables.Incident(device_id=1, attempt_id=1, at=NOW, klass="warning", summary="clock 7 s off")
        session.add(row)
        clusters.sign(session, row)
    with db.read() as session:
        [found] = reads.clusters(session, NOW)
    assert (found.rate.hits, found.rate.total) == (1, 2), "itself, and the one that ended; what runs is not known yet"


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
