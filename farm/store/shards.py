"""Parts of a suite that take about as long as each other, planned from what its tests took before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.domain.durations import TEST
from farm.domain.outcomes import Outcome
from farm.domain.shards import split
from farm.store import durations, tables


def known_tests(session: Session, pack_hash: str, manifest: Mapping[str, Any], suites: Iterable[str]) -> list[str]:
    """The tests that these suites of the pack had where they ran whole, in their order; empty: they never did."""
    folders = tuple(str(manifest["suites"][suite].get("path", suite)).strip("/") + "/" for suite in suites)
    test, attempt, job, run = tables.Test, tables.Attempt, tables.Job, tables.Run
    query = (
        select(test.test_id, job.tests)
        .join(attempt, attempt.id == test.attempt_id)
        .join(job, job.id == attempt.job_id)
        .join(run, run.id == job.run_id)
        .where(
            run.pack_hash == pack_hash,
            attempt.outcome.in_([Outcome.PASSED.value, Outcome.FAILED.value]),
        )
        .order_by(test.ordinal, test.test_id)
    )
    whole = (test_id for test_id, some in session.execute(query) if some is None)
    return list(dict.fromkeys(test_id for test_id in whole if test_id.startswith(folders)))


def parts(session: Session, tests: Iterable[str], bundle: str, count: int) -> list[list[str]]:
    """At most `count` lists, longest processing time first."""
    wanted = list(tests)
    learnt = durations.load(session, wanted)
    seconds = {t: found.p50 for t in wanted if (found := learnt.of(TEST, t, bundle, None)) is not None}
    return split(wanted, seconds, count)
