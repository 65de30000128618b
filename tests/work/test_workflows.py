"""Attempts as workflows, with real processes that are killed: every step once, and on from where it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import select, text

from farm.store import leases, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from tests.waiting import eventually
from tests.work.factories import add_bundle_and_pack, add_device, start_run

#: A farm whose steps write down that they ran; `execute` waits for the file `go`, clean and verdict are the real thing.
ENTRY = textwrap.dedent(
    """
    import sys, threading, time
    from pathlib import Path
    from farm.domain.outcomes import Outcome, Phase
    from farm.store import leases
    from farm.store.artifacts import ArtifactStore
    from farm.store.db import Database, sqlite_url
    from farm.work import workflows
    from farm.work.context import Work
    from farm.work.heart import Heart
    from farm.work.planner import Planner
    from farm.work.settings import WorkSettings
    from farm.work.step import Cut

    root = Path(sys.argv[1])
    settings = WorkSettings(planner_tick_s=0.5)
    db = Database(sqlite_url(root / "farm.sqlite"))
    work = Work(db, root, ArtifactStore(root / "artifacts"), settings)

    def note(step):
        with (root / "steps").open("a") as file:
            file.write(f"{step.id} {step.phase.value}\\n")

    def execute(step):
        note(step)
        while not (root / "go").exists():
            step.check()
            step.pause(0.05)
        raise Cut(Outcome((root / "go").read_text()), "said so")

    def clean(step):
        note(step)
        with db.session() as session:
            lease = leases.of_attempt(session, step.id, step.attempt.token)
            leases.end(session, lease.id, db.now(), "cleaned")

    real = dict(workflows.STEPS)
    bodies = {p: note for p in real} | {Phase.EXECUTE: execute, Phase.CLEAN: clean, Phase.VERDICT: real[Phase.VERDICT]}
    workflows.STEPS = tuple((phase, bodies[phase]) for phase, _ in workflows.STEPS)
    heart = Heart(work)
    heart.start()
    flows = workflows.Workflows(work)
    flows.launch()
    planner = Planner(db, settings, flows.enqueue)
    planner.start()
    stop = threading.Event()
    def end():
        sys.stdin.readline()
        stop.set()
    threading.Thread(target=end, daemon=True).start()
    print("up", flows.repair(), flush=True)
    stop.wait()
    work.stopping.set()
    planner.stop()
    heart.stop()
    flows.stop()
    """
)
BEFORE = ["precheck", "deploy", "settle", "execute"]
AFTER = ["collect", "clean"]


@pytest.fixture
def farm(db: Database, store: ArtifactStore, tmp_path: Path) -> Database:
    add_device(db, "d1")
    add_bundle_and_pack(db, store, tmp_path / "src")
    return db


Start = Callable[[], subprocess.Popen[str]]


@pytest.fixture
def start(farm: Database, tmp_path: Path) -> Iterator[Start]:
    processes: list[subprocess.Popen[str]] = []

    def begin() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", ENTRY, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("up")
        return process

    yield begin
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate(timeout=30)


def steps(tmp_path: Path, attempt: int = 1) -> list[str]:
    path = tmp_path / "steps"
    lines = path.read_text().split("\n") if path.exists() else []
    return [line.split()[1] for line in lines if line.startswith(f"{attempt} ")]


def ended(db: Database, run: int) -> str | None:
    with db.read() as session:
        row = session.get_one(tables.Run, run)
        return row.outcome if row.state == "ended" else None


def go(tmp_path: Path, outcome: str) -> None:
    (tmp_path / "go.part").write_text(outcome)
    os.replace(tmp_path / "go.part", tmp_path / "go")


def phases_are_over(farm: Database) -> bool:
    with farm.read() as session:
        return all(phase.ended_at is not None for phase in session.scalars(select(tables.AttemptPhase)))


def test_an_attempt_goes_through_every_step_once(farm: Database, tmp_path: Path, start: Start) -> None:
    go(tmp_path, "passed")
    start()
    run = start_run(farm)
    assert eventually(lambda: ended(farm, run)) == "passed"
    assert steps(tmp_path) == BEFORE + AFTER
    eventually(lambda: phases_are_over(farm))  # the last one ends after the outcome is there
    with farm.read() as session:
        phases = session.scalars(select(tables.AttemptPhase)).all()
        assert {p.phase for p in phases} == {*BEFORE, *AFTER, "verdict"}
        assert leases.open_leases(session) == []


def test_kill_9_in_the_middle_and_a_new_start_goes_on_at_that_step(
    farm: Database, tmp_path: Path, start: Start
) -> None:
    process = start()
    run = start_run(farm)
    for kills in range(1, 4):
        eventually(lambda kills=kills: len(steps(tmp_path)) == 3 + kills)
        process.kill()
        process.wait(30)
        process = start()
    go(tmp_path, "passed")
    assert eventually(lambda: ended(farm, run)) == "passed"
    assert steps(tmp_path) == ["precheck", "deploy", "settle", *["execute"] * 4, *AFTER]
    with farm.read() as session:
        assert len(session.scalars(select(tables.Lease)).all()) == 1


def test_a_stop_leaves_the_step_as_it_is_and_the_next_start_takes_it_up(
    farm: Database, tmp_path: Path, start: Start
) -> None:
    process = start()
    run = start_run(farm)
    eventually(lambda: steps(tmp_path) == BEFORE)
    process.communicate("\n", timeout=60)
    assert process.returncode == 0
    with farm.read() as session:
        attempt = session.get_one(tables.Attempt, 1)
        assert (attempt.phase, attempt.outcome) == ("execute", None)
    start()
    go(tmp_path, "failed")
    assert eventually(lambda: ended(farm, run)) == "failed"
    assert steps(tmp_path) == [*BEFORE, "execute", *AFTER]


def test_an_attempt_whose_workflow_was_lost_is_entered_again(farm: Database, tmp_path: Path, start: Start) -> None:
    process = start()
    run = start_run(farm)
    eventually(lambda: steps(tmp_path) == BEFORE)
    process.kill()
    process.wait(30)
    with farm.session() as session:
        session.execute(text("DELETE FROM operation_outputs"))
        session.execute(text("DELETE FROM workflow_status"))
    start()
    go(tmp_path, "passed")
    assert eventually(lambda: ended(farm, run)) == "passed"
    assert steps(tmp_path) == [*BEFORE, "execute", *AFTER]


def test_a_cancel_while_it_runs_still_collects_and_cleans(farm: Database, tmp_path: Path, start: Start) -> None:
    from farm.work.submit import cancel

    start()
    run = start_run(farm)
    eventually(lambda: steps(tmp_path) == BEFORE)
    cancel(farm, run, "ada")
    assert eventually(lambda: ended(farm, run)) == "cancelled"
    assert steps(tmp_path) == BEFORE + AFTER


def test_farm_trouble_is_tried_again_and_then_ends_violet(farm: Database, tmp_path: Path, start: Start) -> None:
    go(tmp_path, "infra-error")
    start()
    run = start_run(farm)

    def fit_again() -> str | None:
        with farm.session() as session:  # nobody looks at devices here
            session.get_one(tables.Device, 1).health = "good"
        return ended(farm, run)

    assert eventually(fit_again) == "infra-error"
    assert steps(tmp_path, 1) == steps(tmp_path, 2) == BEFORE + AFTER
