"""What `farm show` and `farm logs` say of a run that did not go well: the same words as the API and the pages."""

from __future__ import annotations

from pathlib import Path

from farm.cli.summary import summary
from farm.store import tables as t
from tests.api.rows import an_attempt
from tests.cli.conftest import Done, at_a_terminal, farm
from tests.served import Served

SMOKE = "smoke/test_smoke.py::"


def run(served: Served, *arguments: str) -> Done:
    return farm(*arguments, state=served.settings.state)


def a_hang(served: Served) -> int:
    """A run whose second test hung, so that its third never ran; its suite was refused things."""
    number, attempt = an_attempt(served, ended=True)
    now = served.farm.db.now()
    with served.farm.db.session() as session:
        for kind in (t.Run, t.Job, t.Attempt):
            key = {t.Run: number, t.Attempt: attempt}.get(kind, session.get_one(t.Attempt, attempt).job_id)
            session.get_one(kind, key).outcome = "timed-out"
        ends = (("passed", None), ("failed", "timed-out"), (None, None))
        for ordinal, (outcome, cause) in enumerate(ends):
            session.add(
                t.Test(
                    attempt_id=attempt, test_id=f"{SMOKE}test_{ordinal}", ordinal=ordinal, outcome=outcome, cause=cause,
                    began_at=now if outcome else None, message="no sign of life for 4 s" if cause else None,
                )
            )  # fmt: skip
        for seq, count in enumerate((1, 41)):
            session.add(
                t.Incident(
                    attempt_id=attempt, seq=seq, device_id=1, at=now, klass="sandbox-refused",
                    summary="open /etc/shadow: not shown", count=count,
                )
            )  # fmt: skip
    return number


def test_a_test_that_hung_is_shown_with_its_cause_and_those_after_it_as_not_run(farm_server: Served) -> None:
    number = a_hang(farm_server)
    shown = run(farm_server, "show", str(number))
    assert shown.code == 0
    header, row = (line.split() for line in shown.out.splitlines()[1:3])
    assert header[3:8] == ["PASSED", "FAILED", "SKIPPED", "NOT", "RUN"]
    assert row[-6:-2] == ["1", "1", "0", "1"], row
    assert f"✕ timed-out  d1: {SMOKE}test_1" in shown.out
    assert "no sign of life for 4 s" in shown.out
    detail = run(farm_server, "show", str(number), "--json").json()
    assert detail["matrix"]["counts"] == {"passed": 1, "timed-out": 1, "not-run": 1}
    assert detail["progress"] == detail["jobs"][0]["progress"] == {"done": 2, "known": 3}
    assert [row["cells"][0]["result"] for row in detail["matrix"]["rows"]] == ["passed", "timed-out", "not-run"]


def test_a_long_reason_has_a_heading_and_keeps_to_the_terminal(farm_server: Served) -> None:
    number, attempt = an_attempt(farm_server, ended=True)
    reason = "the suite gave no sign of life for a while and " + "its stacks were taken before it was ended " * 4
    with farm_server.farm.db.session() as session:
        row = session.get_one(t.Attempt, attempt)
        row.outcome, row.reason = "timed-out", reason.strip()
        session.get_one(t.Job, row.job_id).outcome = "timed-out"
    lines = run(farm_server, "show", str(number)).out.splitlines()
    [at] = [n for n, line in enumerate(lines) if line.split() == ["JOB", "DEVICE", "REASON"]]
    assert reason.strip() in lines[at + 1], "to a pipe a row is one line"
    code, lines = at_a_terminal("show", str(number), state=farm_server.settings.state, columns=80)
    assert code == 0
    [at] = [n for n, line in enumerate(lines) if line.split() == ["JOB", "DEVICE", "REASON"]]
    assert max(map(len, lines)) <= 80, lines
    assert lines[1].split()[:4] == ["JOB", "DEVICE", "OUTCOME", "PASSED"], "no column is crushed"
    assert reason.split() == " ".join(lines[at + 1 : lines.index("", at)]).split()[2:]


def test_the_job_that_why_asks_for_is_shown(farm_server: Served) -> None:
    number, _ = an_attempt(farm_server)
    job = run(farm_server, "show", str(number), "--json").json()["jobs"][0]["id"]
    header, row = (line.split() for line in run(farm_server, "show", str(number)).out.splitlines()[1:3])
    assert (header[0], row[0], row[1]) == ("JOB", str(job), "d1")
    assert f"job {job} of run {number}" in run(farm_server, "why", row[0]).out


def test_what_was_refused_to_the_suite_is_shown_with_every_time_that_it_was(farm_server: Served) -> None:
    shown = run(farm_server, "show", str(a_hang(farm_server)))
    [line] = [line for line in shown.out.splitlines() if line.startswith("sandbox-refused")]
    assert line.split()[1:4] == ["42", "d1", "open"]


def test_show_exits_with_the_outcome_only_where_that_is_asked_for(farm_server: Served) -> None:
    hung, _ = a_hang(farm_server), None
    passed, _ = an_attempt(farm_server, ended=True)
    running, _ = an_attempt(farm_server)
    asked = {run_id: run(farm_server, "show", str(run_id), "--exit-code").code for run_id in (hung, passed, running)}
    assert asked == {hung: 1, passed: 0, running: 4}
    assert run(farm_server, "show", str(hung)).code == 0


def test_a_try_without_a_log_has_one_line_and_no_heading(farm_server: Served) -> None:
    number, attempt = an_attempt(farm_server, ended=True)
    alone = run(farm_server, "logs", str(number))
    assert (alone.code, alone.out) == (0, "")
    assert alone.err.splitlines() == [f"── d1, attempt {attempt}: no runner log ──"]
    with farm_server.farm.db.session() as session:
        row = session.get_one(t.Attempt, attempt)
        again = t.Attempt(
            job_id=row.job_id, number=2, device_id=1, host="local", token=2, phase="done", outcome="passed",
            created_at=row.created_at, ended_at=row.ended_at, workflow_id=f"w{row.job_id}-2",
        )  # fmt: skip
        session.add(again)
        session.flush()
        second = again.id
    folder = farm_server.settings.state / "attempts" / str(second)
    folder.mkdir(parents=True)
    (folder / "runner.log").write_text("hello\n")
    both = run(farm_server, "logs", str(number))
    assert both.out == "hello\n"
    assert both.err.splitlines() == [
        f"── d1, attempt {attempt}: no runner log ──",
        f"── d1, attempt {second} ──",
    ]


def test_every_key_of_the_json_stands_in_the_documentation(farm_server: Served) -> None:
    text = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    detail = run(farm_server, "show", str(a_hang(farm_server)), "--json").json()
    assert not {key for key in detail if f"`{key}`" not in text}
    short = summary(detail)
    [attempt] = short["attempts"]
    assert not {key for key in (*short, *attempt, *attempt["failures"][0], *attempt["tests"]) if f'"{key}"' not in text}


def test_what_a_lost_host_kept_is_shown_as_late_beside_the_outcome(farm_server: Served) -> None:
    number, attempt = an_attempt(farm_server, ended=True)
    with farm_server.farm.db.session() as session:
        row = session.get_one(t.Attempt, attempt)
        row.late_at, row.late_outcome, row.late_reason = (
            farm_server.farm.db.now(session),
            "crashed",
            "its runner ended crashed",
        )
    shown = run(farm_server, "show", str(number)).out
    assert "d1: of try 1 arrived late from local: its runner ended crashed" in shown
    assert shown.splitlines()[0].split()[1] == "passed"
