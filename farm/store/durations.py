"""Learnt durations: written when an attempt has ended, read as estimates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from farm.domain.durations import ANY, KEPT, OVERHEAD, SUITE, TEST, Durations, LearntKey, keys
from farm.domain.outcomes import Outcome
from farm.store import tables

#: Ends that say how long the work takes: it was done.
_WHOLE = frozenset({Outcome.PASSED.value, Outcome.FAILED.value})
#: Tests of one attempt that are learnt one by one.
_MAX_TESTS = 500


def load(session: Session, tests: Collection[str] = ()) -> Durations:
    """All that is known of suites and of what comes beside them, and of the named tests."""
    row = tables.Duration
    query = select(row.kind, row.name, row.bundle, row.device_type, row.recent)
    found = list(session.execute(query.where(row.kind.in_([SUITE, OVERHEAD]))))
    wanted = sorted(set(tests))
    for start in range(0, len(wanted), 500):
        found += session.execute(query.where(row.kind == TEST, row.name.in_(wanted[start : start + 500])))
    return Durations({(k, n, b, t): [float(v) for v in recent] for k, n, b, t, recent in found})


def learn(session: Session, attempt: tables.Attempt, now: datetime) -> None:
    """Take in how long an ended attempt, its suites and its tests took; one that broke off teaches nothing."""
    if attempt.outcome not in _WHOLE or attempt.ended_at is None:
        return
    job = session.get_one(tables.Job, attempt.job_id)
    run = session.get_one(tables.Run, job.run_id)
    bundle = session.get_one(tables.Bundle, run.bundle_hash).name
    pack = session.get_one(tables.SuitePack, run.pack_hash).manifest
    kind_of_device = session.get_one(tables.Device, attempt.device_id).type
    test = tables.Test
    took = {
        test_id: seconds
        for test_id, seconds in session.execute(
            select(test.test_id, test.duration_s).where(
                test.attempt_id == attempt.id, test.outcome.is_not(None), test.duration_s.is_not(None)
            )
        )
        if seconds is not None
    }
    values: list[tuple[str, str, float]] = [(TEST, name, s) for name, s in sorted(took.items())[:_MAX_TESTS]]
    whole = (attempt.ended_at - attempt.created_at).total_seconds()
    values.append((OVERHEAD, "", max(0.0, whole - sum(took.values()))))
    earlier = select(tables.Attempt.id).where(tables.Attempt.job_id == job.id, tables.Attempt.id != attempt.id)
    if job.tests is None and session.scalar(earlier.limit(1)) is None:  # a later try runs only what was left
        values += [(SUITE, suite, _suite_s(pack, suite, took)) for suite in job.suites]
    _keep(session, values, bundle, kind_of_device, now)


def _suite_s(pack: dict[str, Any], suite: str, took: dict[str, float]) -> float:
    folder = str(pack["suites"][suite].get("path", suite)).strip("/") + "/"
    return sum(seconds for test, seconds in took.items() if test.startswith(folder))


def _keep(
    session: Session, values: Iterable[tuple[str, str, float]], bundle: str, device_type: str | None, now: datetime
) -> None:
    fresh: dict[LearntKey, list[float]] = defaultdict(list)
    for kind, name, seconds in values:
        for key in keys(kind, name, bundle, device_type):
            if kind != TEST or key[2:] in ((bundle, device_type or ANY), (ANY, ANY)):  # tests are many: two keys do
                fresh[key].append(round(seconds, 3))
    known = _rows(session, list(fresh))
    for key, newest in fresh.items():
        row = known.get(key)
        if row is None:
            row = tables.Duration(kind=key[0], name=key[1], bundle=key[2], device_type=key[3], recent=[], at=now)
            session.add(row)
        row.recent, row.at = [*row.recent, *newest][-KEPT:], now


def _rows(session: Session, wanted: list[LearntKey]) -> dict[LearntKey, tables.Duration]:
    row = tables.Duration
    found: dict[LearntKey, tables.Duration] = {}
    for start in range(0, len(wanted), 200):
        some = wanted[start : start + 200]
        query = select(row).where(tuple_(row.kind, row.name, row.bundle, row.device_type).in_(some))
        found |= {(r.kind, r.name, r.bundle, r.device_type): r for r in session.scalars(query)}
    return found
