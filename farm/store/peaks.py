"""How much memory engines needed: the peak of each attempt, learnt when it is over, and what a bundle had before."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.store import series, tables

#: Series of the engine's memory, the best first: what it has to itself and its share of the rest, or all that it maps.
SERIES = ("engine_pss", "engine_rss")
#: Newest attempts with a bundle that are looked at.
MOST = 30
_BYTES = {"MB": 1e6, "kB": 1e3, "B": 1.0}


def note(session: Session, attempt: tables.Attempt) -> None:
    """Put the attempt's peak into its row; None where no sampler saw an engine."""
    for name in SERIES:
        tops = [
            float(one.values.max()) * _BYTES[one.unit]
            for one in series.read(session, [attempt.id], name=name)
            if len(one.values) and one.unit in _BYTES
        ]
        if tops and max(tops) > 0:
            attempt.peak_bytes = round(max(tops))
            return


def of_bundle(session: Session, bundle_hash: str) -> list[int]:
    """Peaks (bytes) of the newest attempts that loaded this very bundle."""
    a, j, r = tables.Attempt, tables.Job, tables.Run
    query = (
        select(a.peak_bytes)
        .join(j, j.id == a.job_id)
        .join(r, r.id == j.run_id)
        .where(r.bundle_hash == bundle_hash, a.peak_bytes.is_not(None), a.deployment == "ok")
        .order_by(a.id.desc())
        .limit(MOST)
    )
    return [int(peak) for peak in session.scalars(query) if peak]
