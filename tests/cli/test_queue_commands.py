"""`farm why`, `pause`, `drain`, `resume`, `holds` against a real server, and `farm simulate` without one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from farm.cli.why import _accuracy
from farm.store import leases, tables
from farm.store.people import Scope
from tests.api.rows import an_attempt
from tests.cli.conftest import Done, farm
from tests.served import Served, serve


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A farm whose only device is held, and for which one job waits (number 2)."""
    with serve(tmp_path_factory.mktemp("busy")) as served:
        an_attempt(served)
        an_attempt(served)
        with served.farm.db.session() as session:
            now = served.farm.db.now(session)
            row = session.get_one(tables.Device, 1)
            row.labels, row.seen_at = {"abi": "x86_64"}, now + timedelta(hours=1)  # no agent keeps it fresh here
            session.delete(session.get_one(tables.Attempt, 2))
            session.get_one(tables.Job, 2).state = "queued"
            leases.grant(session, 1, "attempt:1", 1, now, now + timedelta(hours=1), team="red", user="ann")
        yield served


def run(served: Served, *arguments: str) -> Done:
    return farm(*arguments, state=served.settings.state)


def test_why_says_place_holder_and_expected_start(busy: Served) -> None:
    shown = run(busy, "why", "2")
    assert shown.code == 0
    assert "position 1 of 1: d1 is running (run 1 of ann, team red, until about " in shown.out
    assert "attempt:1" not in shown.out
    assert "expected to start in" in shown.out
    assert "not known yet" in shown.out  # how good estimates are
    told = run(busy, "why", "2", "--json").json()
    assert told["candidates"][0]["holder"] == "attempt:1"
    assert told["candidates"][0]["held_by"] == "run 1 of ann, team red"
    assert told["candidates"][0]["until"] is not None
    assert told["estimated_start"] is not None


def test_why_says_what_must_happen_where_the_device_is_away(busy: Served) -> None:
    with busy.farm.db.session() as session:
        row = session.get_one(tables.Device, 1)
        row.connection, row.health, before = "gone", "suspect", (row.connection, row.health)
    said = "starts once d1 is there for it: it is plugged in again and a health check finds it well"
    try:
        told = run(busy, "why", "2", "--json").json()
        shown = run(busy, "why", "2").out
    finally:
        with busy.farm.db.session() as session:
            row = session.get_one(tables.Device, 1)
            row.connection, row.health = before
    assert said in shown
    assert "nobody can say" not in shown
    assert told["candidates"][0]["once"].startswith("it is plugged in again")
    assert "waits until it is plugged in again" in told["reason"]


def test_a_runs_lease_is_listed_as_its_run(busy: Served) -> None:
    listed = run(busy, "lease", "list").out
    assert re.search(r"d1 +run 1 +ann +red", listed), listed
    refused = run(busy, "lease", "release", "1")
    assert refused.code == 3
    assert "lease 1 is held by run 1: `farm cancel 1` ends it" in refused.err


def test_why_of_a_running_job_and_of_none(busy: Served) -> None:
    assert "it runs on d1 (attempt 1, execute)" in run(busy, "why", "1").out
    missing = run(busy, "why", "99")
    assert missing.code == 3
    assert "There is no job 99. `farm show RUN` (its column JOB) lists what there is." in missing.err


@pytest.mark.parametrize(
    ("judged", "said"),
    [(1, "the only estimate so far was off by 3 s"), (4, "half of the last 4 estimates were off by at most 3 s")],
)
def test_how_good_estimates_were_is_a_sentence_for_one_and_for_many(judged: int, said: str) -> None:
    assert _accuracy(judged, "3 s") == said


def test_pause_is_shown_where_it_matters_and_resume_lifts_it(busy: Served) -> None:
    assert "Nothing is held" in run(busy, "holds").err
    paused = run(busy, "pause", "device", "d1", "--reason", "new cable")
    assert (paused.code, "Nothing new starts" in paused.err) == (0, True)
    listed = run(busy, "holds").out
    assert "device d1 is paused by admin: new cable" in listed  # by its name, not by its serial number
    assert "d1 (run 1 of ann, team red)" in listed
    told = run(busy, "why", "2", "--json").json()
    assert "running and held" in told["reason"]
    assert told["estimated_start"] is None
    resumed = run(busy, "resume", "device", "d1")
    assert "device d1 is given work again: new cable" in resumed.err
    assert "was not held" in run(busy, "resume", "device", "d1").err


def test_drain_waits_no_longer_than_it_is_told_and_says_who_still_works(busy: Served) -> None:
    done = run(busy, "drain", "farm", "--reason", "upgrade", "--wait", "1s")
    assert done.code == 4
    assert "Waits for d1 (run 1 of ann, team red)" in done.err
    assert run(busy, "resume", "farm", "--json").json()["lifted"][0]["reason"] == "upgrade"


def test_a_drain_ends_by_itself_and_times_are_told_as_people_tell_them(busy: Served) -> None:
    done = run(busy, "drain", "device", "s1", "--reason", "new cable", "--for", "2h", "--wait", "0s")
    assert done.code == 0  # nobody wanted to wait
    assert re.search(r"device d1 is paused by admin: new cable, until (\w+ \d+ )?\d\d:\d\d \(in 2 h\)", done.err)
    [held] = run(busy, "holds", "--json").json()["holds"]
    assert held["hold"]["until"].endswith("Z")
    assert held["hold"]["until"] not in run(busy, "holds").out
    with busy.farm.db.session() as session:
        session.get_one(tables.Hold, held["hold"]["id"]).until = busy.farm.db.now(session)
    assert "Nothing is held" in run(busy, "holds").err


def test_what_the_help_says_of_drain_is_what_it_does(busy: Served) -> None:
    assert "wait until nothing runs there any more" in run(busy, "--help").out
    shown = " ".join(run(busy, "drain", "--help").out.split())
    assert "wait until nothing runs there any more: exit code 0 then, 4 when that takes longer" in shown
    assert "[default: 4h]" in shown
    assert "--for SPAN" in shown


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["drain", "device", "d1", "--reason", "new cable", "--for", "soon"], "write it as 90s"),
        (["pause", "device", "d11", "--reason", "new cable"], "did you mean d1?"),
        (["pause", "device", "--reason", "new cable"], "which device?"),
        (["pause", "farm", "d1", "--reason", "new cable"], "has no name"),
        (["pause", "device", "d1", "--reason", "x"], "reason"),
    ],
)
def test_a_hold_that_makes_no_sense_is_refused(busy: Served, words: list[str], hint: str) -> None:
    done = run(busy, *words)
    assert done.code == 3
    assert hint in done.err


def test_holding_needs_the_right_to_operate(busy: Served) -> None:
    weak = busy.new_token(Scope.READ, Scope.SUBMIT)
    body = {"scope": "farm", "name": "", "reason": "because"}
    assert busy.ask("POST", "/api/holds", weak, json=body).status_code == 403
    assert busy.ask("POST", "/api/holds/lift", weak, json={"scope": "farm"}).status_code == 403


def test_simulate_needs_no_farm_and_prints_waits_or_the_whole_schedule(tmp_path: Path) -> None:
    scenario = tmp_path / "lab.json"
    scenario.write_text(
        json.dumps(
            {
                "devices": [{"id": "rk-1", "labels": {"soc": "RK3568"}}],
                "jobs": [
                    {"id": "a", "submit_s": 0, "class": "pr", "selector": "soc=RK3568", "duration_s": 60},
                    {"id": "b", "submit_s": 0, "class": "debug", "selector": "*", "duration_s": 30},
                ],
            }
        )
    )
    shown = farm("simulate", str(scenario), state=tmp_path)
    assert shown.code == 0
    assert "2 jobs on 1 device, over after" in shown.out
    found = farm("simulate", str(scenario), "--json", state=tmp_path).json()
    assert [(entry["job"], entry["start_s"], entry["end_s"]) for entry in found["schedule"]] == [
        ("b", 0.0, 30.0),
        ("a", 30.0, 90.0),
    ]


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        ("visoin=2", "did you mean vision?"),
        ("nobody=2", "its teams: default, vision"),
        ("vision=0", "write TEAM=WEIGHT"),
    ],
)
def test_simulate_knows_the_teams_that_it_weighs(tmp_path: Path, weight: str, words: str) -> None:
    scenario = tmp_path / "lab.json"
    jobs = [{"id": n, "submit_s": 0, "team": team, "duration_s": 60} for n, team in (("a", "vision"), ("b", "default"))]
    scenario.write_text(json.dumps({"devices": [{"id": "rk-1", "labels": {}}], "jobs": jobs}))
    assert farm("simulate", str(scenario), "--weight", "vision=2", state=tmp_path).code == 0
    refused = farm("simulate", str(scenario), "--weight", weight, state=tmp_path)
    assert refused.code == 3
    assert words in refused.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"devices": [', "is no JSON"),
        ('{"devices": [], "jobs": [{"id": "a"}]}', "jobs[0].submit_s: a number of seconds is needed, not nothing"),
        ("[" * 100_000, "is no JSON"),
    ],
)
def test_simulate_names_the_mistake_and_its_place(tmp_path: Path, text: str, words: str) -> None:
    scenario = tmp_path / "lab.json"
    scenario.write_text(text)
    done = farm("simulate", str(scenario), state=tmp_path)
    assert done.code == 3
    assert words in done.err
    assert "Traceback" not in done.err
    assert farm("simulate", str(tmp_path / "none.json"), state=tmp_path).code == 3
