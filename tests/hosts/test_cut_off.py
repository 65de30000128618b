"""A host whose network is cut: its side stops by itself before the farm gives its work to others, and it comes back."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.hosts.lab import LONG_S, Lab
from tests.postgres import PostgresServer
from tests.waiting import eventually

pytestmark = pytest.mark.slow

STEPS = [f"steady/test_steady.py::test_step[{n}]" for n in range(4)]


def test_a_host_that_is_cut_off_fences_itself_before_its_job_goes_elsewhere(bundle_folder: Path) -> None:
    postgres = PostgresServer(listen="*")
    try:
        with Lab(postgres, hosts=2, bundle=bundle_folder, net=True) as lab:
            run = lab.submit(mode="any", params={"step_s": 12})
            lab.underway(run)
            [attempt] = lab.attempts(run)
            journal = lab.state / attempt.host / "attempts" / str(attempt.id) / "journal.jsonl"
            lab.cut(attempt.host)
            eventually(lambda: len(lab.attempts(run)) == 2, LONG_S, what="the job goes on elsewhere")
            # By now the cut-off runner has ended by itself: its journal on that host has its last record.
            last = json.loads(journal.read_text().splitlines()[-1])
            assert last["kind"] == "end", last
            assert "fenced" in last["reason"]
            assert lab.ended(run) == "passed", lab.story(run)
            lost, again = lab.attempts(run)
            assert (lost.outcome, lost.cause, again.outcome) == ("infra-error", "host-lost", "passed")
            lab.mend(attempt.host)
            eventually(lambda: not lab.lost(attempt.host), LONG_S, what="the host is heard of again")
            eventually(lambda: lab.open_leases() == 0, LONG_S, what="its device is cleaned and free")
            eventually(lambda: lab.attempts(run)[0].late_at, LONG_S, what="what it kept of the attempt arrives")
            late = lab.attempts(run)[0]
            assert (late.outcome, late.cause, late.late_outcome) == ("infra-error", "host-lost", "infra-error")
            assert "fenced" in str(late.late_reason)
            assert {"journal.jsonl", "logcat.zst", "runner.log"} <= lab.kept(late.id)
            assert lab.passed(run) == Counter(STEPS)
            lab.ready(2)
            assert lab.overlapping() == []
    finally:
        postgres.close()
