"""How each attempt's deploy and load ended, written once when the attempt is over."""

from __future__ import annotations

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from farm.domain.causes import cause_of
from farm.domain.deployments import Failure, judge
from farm.domain.outcomes import Outcome
from farm.store import tables

#: Failures of engines that are looked at: the first decide.
MAX_FAILURES = 50


def note(session: Session, attempt: tables.Attempt) -> None:
    """Put the attempt's word into its row; it has its outcome, and all its records are applied."""
    i, s, st, m = tables.Incident, tables.Signature, tables.Stage, tables.Measurement
    failed = session.execute(
        select(s.klass, i.summary)
        .join(s, s.key == i.signature)
        .where(i.attempt_id == attempt.id, i.klass.like("engine-%"))
        .order_by(i.id)
        .limit(MAX_FAILURES)
    )
    worked = exists().where(st.attempt_id == attempt.id, st.name.not_like("load.%"))
    measured = exists().where(m.attempt_id == attempt.id)
    found = judge(
        Outcome(attempt.outcome or Outcome.INFRA_ERROR),
        cause_of(attempt.cause),
        computed=bool(session.scalar(select(worked | measured))),
        failures=[Failure(klass, summary) for klass, summary in failed],
        words=attempt.reason or "",
    )
    attempt.deployment = None if found is None else found.value
