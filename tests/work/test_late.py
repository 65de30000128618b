"""A host that comes back ships what it kept of attempts that were closed without it; then their folders go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from farm.domain.causes import Cause
from farm.domain.journal import Record
from farm.domain.outcomes import Outcome, Phase
from farm.store import leases, results, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work.context import Work
from farm.work.late import Leftovers
from farm.work.settings import WorkSettings
from farm.work.step import run_step, set_outcome
from farm.work.verdict import close
from tests.work.factories import start_attempt

HEARD = [Record(0, 1.0, 1.0, "start", {}), Record(1, 1.0, 1.0, "test_end", {"test": "t::a", "outcome": "passed"})]
LATE = [
    Record(2, 2.0, 2.0, "test_end", {"test": "t::b", "outcome": "failed", "cause": "crashed"}),
    Record(3, 2.0, 2.0, "incident", {"class": "crash", "summary": "SIGSEGV"}),
    Record(4, 3.0, 3.0, "end", {"outcome": "crashed", "reason": "SIGSEGV in decode"}),
]


@pytest.fixture
def work(database_url: str, store: ArtifactStore, tmp_path: Path) -> Iterator[Work]:
    """One attempt under way whose first records have been heard, with a folder that has more."""
    db = Database(database_url)
    db.migrate()
    start_attempt(db, store, tmp_path / "src")
    made = Work(db, tmp_path, store, WorkSettings())
    folder = made.attempt_dir(1)
    (folder / "work" / "artifacts").mkdir(parents=True)
    (folder / "journal.jsonl").write_text("".join(record.line() for record in HEARD + LATE))
    (folder / "runner.log").write_text("log")
    (folder / "work" / "artifacts" / "trace.txt").write_text("trace")
    with db.session() as session:
        attempt = session.get_one(tables.Attempt, 1)
        results.apply(session, attempt, HEARD, db.now(session), late=False)
        attempt.phase = Phase.EXECUTE.value
    yield made
    db.close()


def lose(work: Work) -> None:
    """The farm gives the attempt up without its host; the lease stays open."""
    with work.db.session() as session:
        attempt = session.get_one(tables.Attempt, 1)
        set_outcome(attempt, Outcome.INFRA_ERROR, "its host was lost", Cause.HOST_LOST)
        close(session, attempt, work.db.now(session))


def end_lease(work: Work) -> None:
    with work.db.session() as session:
        [lease] = leases.open_leases(session)
        leases.end(session, lease.id, work.db.now(session), "its device is cleaned before its next use")


def artifacts(work: Work) -> dict[str, bytes]:
    with work.db.read() as session:
        rows = session.scalars(select(tables.Artifact)).all()
    return {row.name: work.artifacts.local_path(row.sha256).read_bytes() for row in rows}


def test_journal_logs_and_evidence_of_a_lost_attempt_are_kept_and_count_for_nothing(work: Work) -> None:
    lose(work)
    end_lease(work)
    assert Leftovers(work).once() == [1]
    kept = artifacts(work)
    assert kept["runner.log"] == b"log"
    assert kept["trace.txt"] == b"trace"
    assert b"SIGSEGV" in kept["journal.jsonl"]
    with work.db.read() as session:
        attempt = session.get_one(tables.Attempt, 1)
        assert (attempt.outcome, attempt.cause) == ("infra-error", "host-lost")  # the first cause stands
        assert attempt.late_outcome == "crashed"
        assert attempt.late_reason == (
            "its runner ended crashed (SIGSEGV in decode); 1 test ended unheard and counts for nothing: 1 failed; "
            "its journal has incidents: crash"
        )
        assert attempt.late_at is not None
        assert [(t.test_id, t.outcome) for t in session.scalars(select(tables.Test))] == [("t::a", "passed")]
        assert session.scalars(select(tables.Incident)).all() == []
        marks = {mark.seq: mark.late for mark in session.scalars(select(tables.JournalMark))}
        assert marks == {0: False, 1: False, 2: True, 3: True, 4: True}
        assert session.get_one(tables.Job, 1).state == "queued"
    assert not work.attempt_dir(1).exists()
    assert Leftovers(work).once() == []


def test_nothing_is_touched_while_the_device_waits_to_be_cleaned_or_a_step_is_under_way(work: Work) -> None:
    left = Leftovers(work)
    assert left.once() == []  # it is not over
    lose(work)
    assert left.once() == []  # its lease is open: the snapshot in the folder is needed
    end_lease(work)
    work.entered.add(1)
    assert left.once() == []
    assert work.attempt_dir(1).exists()
    work.entered.clear()
    assert left.once() == [1]


def test_an_attempt_is_entered_for_as_long_as_its_step_lasts(work: Work) -> None:
    seen: list[set[int]] = []
    run_step(work, 1, Phase.EXECUTE, lambda step: seen.append(set(step.work.entered)))
    assert (seen, work.entered) == ([{1}], set())


def test_what_was_collected_in_time_is_not_late(work: Work) -> None:
    with work.db.session() as session:
        now = work.db.now(session)
        session.add(tables.AttemptPhase(attempt_id=1, phase="collect", began_at=now, ended_at=now, detail={}))
    lose(work)
    end_lease(work)
    assert Leftovers(work).once() == []
    assert artifacts(work) == {}
    assert not work.attempt_dir(1).exists()


def test_one_attempt_that_cannot_be_shipped_stays_and_is_tried_again(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(work)
    end_lease(work)
    with monkeypatch.context() as broken:
        broken.setattr(ArtifactStore, "put_file", lambda *_a, **_k: 1 / 0)
        assert Leftovers(work).once() == []
    assert (work.attempt_dir(1) / "journal.jsonl").exists()
    assert Leftovers(work).once() == [1]


def test_at_the_start_folders_go_that_nobody_knows_and_no_others(work: Work) -> None:
    work.attempt_dir(77).mkdir()
    lose(work)
    end_lease(work)
    Leftovers(work).begin()
    assert not work.attempt_dir(77).exists()
    assert work.attempt_dir(1).exists()
