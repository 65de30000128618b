"""What attempts left on this host: folders of those that are done go, and late truth is shipped before.

A host that was cut off or stood still for longer than a lease finds its attempts closed when it is back: their jobs
went on without it. What it kept of them is the late truth: journal, logs and artifacts are stored with the attempt, and
what its runner found is written beside the outcome. The first cause stands, and nothing is counted twice.
"""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.domain.journal import clip
from farm.domain.late import late_truth
from farm.domain.outcomes import Phase
from farm.store import tables
from farm.store.bus import touch
from farm.store.locks import hold_attempt
from farm.work import files
from farm.work.collect import stop_logcat
from farm.work.context import Work
from farm.work.journal import JournalTail, Shipper
from farm.work.supervisor import Supervisor

log = logging.getLogger(__name__)

#: So many files that could not be stored are named.
_NAMED = 10


@dataclass(frozen=True, slots=True)
class _Done:
    """An attempt that is over. `kept`: what was worth keeping of it is in the store."""

    attempt: tables.Attempt
    run_id: int
    kept: bool


class Leftovers:
    """`begin` is called before attempts are taken up, `once` from the agent's pool while they go on."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def begin(self) -> None:
        """Folders of attempts that nobody knows, from before a restore, go now: their numbers may be given again."""
        with self._work.db.read() as session:
            query = select(tables.Attempt.id).where(tables.Attempt.host == self._work.settings.host)
            known = set(session.scalars(query))
        for attempt_id in set(self._folders()) - known:
            self._remove(attempt_id)

    def once(self) -> list[int]:
        """Ship what is late, and remove the folders of attempts that are done; the ids of those that were late."""
        folders = self._folders()
        if not folders:
            return []
        with self._work.db.read() as session:
            done = _done(session, self._work.settings.host, folders)
        return [one.attempt.id for one in done if self._settle(one)]

    def _folders(self) -> list[int]:
        """Attempts that have a folder here."""
        root = self._work.state / "attempts"
        return sorted(int(f.name) for f in root.iterdir() if f.name.isdigit()) if root.is_dir() else []

    def _settle(self, done: _Done) -> bool:
        """Whether something arrived late. One folder's trouble is not the others'."""
        attempt_id = done.attempt.id
        if attempt_id in self._work.entered:  # a step of it has not noticed yet that it is over
            return False
        try:
            late = not done.kept and self._ship(done)
            self._remove(attempt_id)
            return late
        except Exception:
            log.exception("attempt %d: what is left of it waits for the next try", attempt_id)
            return False

    def _ship(self, done: _Done) -> bool:
        """Journal, files and the runner's own word reach the store; False when there is nothing."""
        attempt, folder = done.attempt, self._folder(done.attempt.id)
        Supervisor(folder).kill()
        stop_logcat(self._work, attempt.id)
        Shipper(self._work, attempt.id, attempt.token, JournalTail(folder / files.JOURNAL)).ship_all()
        kept = files.keep(self._work, attempt, done.run_id)
        if not kept.stored and not kept.missing:
            return False
        journal = files.journal_of(folder)
        with self._work.db.session() as session:
            row = hold_attempt(session, attempt.id)
            mark = tables.JournalMark
            heard = select(mark.seq).where(mark.attempt_id == row.id, mark.late.is_(False))
            truth = late_truth(journal, set(session.scalars(heard)))
            row.late_at = now = self._work.db.now(session)
            row.late_outcome = None if truth.outcome is None else truth.outcome.value
            row.late_reason = clip(truth.words + _lost_words(kept), 4000)
            touch(session, "attempt", row.id, at=now, run_id=done.run_id, device_id=row.device_id)
        log.warning("attempt %d: what was kept of it here arrived late: %s", attempt.id, truth.words)
        return True

    def _remove(self, attempt_id: int) -> None:
        Supervisor(self._folder(attempt_id)).kill()
        shutil.rmtree(self._folder(attempt_id), ignore_errors=True)

    def _folder(self, attempt_id: int) -> Path:
        return self._work.attempt_dir(attempt_id)


def _lost_words(kept: files.Kept) -> str:
    if not kept.missing:
        return ""
    more = f" and {len(kept.missing) - _NAMED} more" if len(kept.missing) > _NAMED else ""
    return f"; could not be kept: {', '.join(kept.missing[:_NAMED])}{more}"


def _done(session: Session, host: str, ids: list[int]) -> list[_Done]:
    """Those of the host's attempts that are over, their leases too: cleaning needs what lies in the folder."""
    attempt, job, collected, lease = tables.Attempt, tables.Job, tables.AttemptPhase, tables.Lease
    open_ = select(lease.id).where(lease.attempt_id == attempt.id, lease.ended_at.is_(None)).exists()
    query = (
        select(attempt, job.run_id, collected.ended_at)
        .join(job, job.id == attempt.job_id)
        .outerjoin(collected, (collected.attempt_id == attempt.id) & (collected.phase == Phase.COLLECT.value))
        .where(attempt.host == host, attempt.phase == Phase.DONE.value, attempt.id.in_(ids), ~open_)
        .order_by(attempt.id)
    )
    rows = session.execute(query)
    return [_Done(row, run_id, ended_at is not None or row.late_at is not None) for row, run_id, ended_at in rows]
