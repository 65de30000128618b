"""Several hosts on one PostgreSQL: a run over all of them, and what happens when a process dies."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.lab import LONG_S, Lab
from tests.postgres import PostgresServer
from tests.waiting import eventually

STEPS = [f"steady/test_steady.py::test_step[{n}]" for n in range(4)]


@pytest.fixture(scope="module")
def lab(postgres_server: PostgresServer, bundle_folder: Path) -> Iterator[Lab]:
    """Two hosts with a device each, two servers; every test leaves all of them running."""
    with Lab(postgres_server, hosts=2, servers=2, bundle=bundle_folder) as made:
        yield made


def test_a_run_over_the_devices_of_two_hosts_passes(lab: Lab) -> None:
    run = lab.submit()
    assert lab.ended(run) == "passed", lab.story(run)
    assert {attempt.host for attempt in lab.attempts(run)} == {"h1", "h2"}
    assert lab.passed(run) == Counter(STEPS * 2)
    eventually(lambda: lab.open_leases() == 0, what="every device is free again")
    assert lab.overlapping() == []


def test_a_server_is_killed_and_another_one_plans_while_the_agents_go_on(lab: Lab) -> None:
    first = lab.submit(selector="serial=H1D1")
    lab.underway(first)
    [planning] = [s for s in lab.servers if "plans from now on" in lab.log(s)]
    lab.kill(planning)
    second = lab.submit(selector="serial=H2D1")
    assert lab.ended(second) == "passed", lab.story(second)
    assert lab.ended(first) == "passed", lab.story(first)
    assert [len(lab.attempts(run)) for run in (first, second)] == [1, 1]
    assert lab.passed(first) == Counter(STEPS)
    lab.start(planning)


def test_an_agent_that_is_killed_is_seen_at_once_and_started_again_goes_on_where_it_was(lab: Lab) -> None:
    run = lab.submit(selector="serial=H1D1")
    lab.underway(run)
    lab.kill("h1")
    eventually(lambda: lab.lost("h1"), 8, what="the host is lost: its channel has closed")  # a silence takes 10 s
    assert lab.available()["H1D1"] == "stale"
    lab.start("h1")
    assert lab.ended(run) == "passed", lab.story(run)
    assert not lab.lost("h1")
    assert lab.passed(run) == Counter(STEPS)  # the runner was adopted: nothing ran twice
    assert len(lab.attempts(run)) == 1


@pytest.mark.slow
def test_a_job_of_an_agent_that_stays_away_goes_on_elsewhere_once_its_lease_has_ended(lab: Lab) -> None:
    run = lab.submit(mode="any", selector="serial in (H1D1, H2D1)", params={"step_s": 4})
    lab.underway(run)
    [attempt] = lab.attempts(run)
    lab.kill(attempt.host)
    assert lab.ended(run, LONG_S) == "passed", lab.story(run)
    lost, again = lab.attempts(run)
    assert (lost.outcome, lost.cause, again.outcome) == ("infra-error", "host-lost", "passed")
    assert lost.host != again.host
    assert set(lab.passed(run)) == set(STEPS)
    lab.start(lost.host)
    eventually(lambda: lab.open_leases() == 0, LONG_S, what="the host that is back has cleaned its device")
    lab.ready(2)
    assert lab.overlapping() == []


@pytest.mark.slow
def test_the_database_restarts_and_nothing_is_lost(postgres_server: PostgresServer, lab: Lab) -> None:
    run = lab.submit()
    lab.underway(run)
    postgres_server.restart()
    assert lab.ended(run) == "passed", lab.story(run)
    assert lab.passed(run) == Counter(STEPS * 2)
    assert lab.overlapping() == []


@pytest.mark.slow
def test_a_second_agent_of_a_host_is_refused(lab: Lab) -> None:
    command = [sys.executable, "-P", "-m", "farm.agent", "--host", "h1", "--state", str(lab.state / "other")]
    refused = subprocess.run(command, env=lab.environment("h1"), capture_output=True, text=True, timeout=120)
    assert refused.returncode == 2
    assert "another agent speaks for the host 'h1'" in refused.stderr
