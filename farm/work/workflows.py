"""Attempts as durable workflows: which steps there are, in which order, and whose queue they wait in.

DBOS re-enters a workflow at its first unfinished step after a crash, for the same executor (the host) and the same
application version (`PROTOCOL`). It is durable at step edges only; what a step may do is decided by the attempt's row
(`farm.work.step`). A workflow is never cancelled: its later steps would not run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from dbos import DBOS, DBOSConfig
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from farm.domain.outcomes import Phase
from farm.store import postgres, tables
from farm.store.locks import hold_attempt
from farm.work.clean import clean_device
from farm.work.collect import collect
from farm.work.context import Work
from farm.work.deploy import deploy_bundle
from farm.work.execute import execute
from farm.work.precheck import precheck
from farm.work.queue import PROTOCOL, WORKFLOW, Queue, queue_of
from farm.work.settle import settle
from farm.work.step import Body, run_step
from farm.work.verdict import verdict

log = logging.getLogger(__name__)

STEPS: tuple[tuple[Phase, Body], ...] = (
    (Phase.PRECHECK, precheck),
    (Phase.DEPLOY, deploy_bundle),
    (Phase.SETTLE, settle),
    (Phase.EXECUTE, execute),
    (Phase.COLLECT, collect),
    (Phase.CLEAN, clean_device),
    (Phase.VERDICT, verdict),
)


class Workflows:
    """The workflow engine of this process: one per process, since DBOS is one."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._queue = Queue(work.db)
        self.enqueue = self._queue.enqueue

    def launch(self) -> None:
        """Take up what a crash left, and listen to this host's queue; its tables are there (`queue.prepare`)."""
        host = self._work.settings.host
        config: DBOSConfig = {
            "name": "device-farm",
            "system_database_url": self._work.db.url,
            "executor_id": host,
            "application_version": PROTOCOL,
            "log_level": "WARNING",
            "enable_otlp": False,
            "scheduler_polling_interval_sec": 3600.0,  # nothing of ours is scheduled by DBOS
            "notification_listener_polling_interval_sec": 1.0,  # nor sent through it; a stop waits for one such pause
            "run_migrations": self._work.db.is_sqlite,  # of many processes the server alone changes the tables
        }
        if not self._work.db.is_sqlite:
            config["db_engine_kwargs"] = {"connect_args": postgres.arguments()}
        DBOS(config=config)
        _register(self._work)
        DBOS.listen_queues([queue_of(host)])
        DBOS.launch()
        DBOS.register_queue(queue_of(host), polling_interval_sec=self._work.settings.queue_poll_s)

    def repair(self) -> list[int]:
        """Attempts of this host whose workflow is over or unknown, though they are not done, get a new one."""
        query = select(tables.Attempt.id, tables.Attempt.workflow_id).where(
            tables.Attempt.host == self._work.settings.host, tables.Attempt.phase != Phase.DONE.value
        )
        with self._work.db.read() as session:
            lost = [id_ for id_, workflow_id in session.execute(query) if not _is_live(session, workflow_id)]
        return [attempt_id for attempt_id in lost if self._enter_again(attempt_id)]

    def _enter_again(self, attempt_id: int) -> bool:
        with self._work.db.session() as session:
            attempt = hold_attempt(session, attempt_id)
            if attempt.phase == Phase.DONE.value or _is_live(session, attempt.workflow_id):
                return False  # it has ended since, or the step that was about to end is still there
            base, _, number = attempt.workflow_id.partition("~")
            attempt.workflow_id = f"{base}~{int(number or 1) + 1}"
            self.enqueue(session, attempt)
            log.warning("attempt %d had lost its workflow in %s: entered again", attempt.id, attempt.phase)
            return True

    def stop(self, timeout_s: float = 20.0) -> None:
        """Leave every step as it is; runners live on and are adopted after the next start."""
        self._work.stopping.set()
        DBOS.destroy(workflow_completion_timeout_sec=0, destroy_registry=True)
        self._queue.close()


def _is_live(session: Session, workflow_id: str) -> bool:
    """Whether DBOS still has the workflow to run."""
    schema = "" if session.get_bind().dialect.name == "sqlite" else "dbos."
    status = session.execute(
        text(f"SELECT status FROM {schema}workflow_status WHERE workflow_uuid = :id"), {"id": workflow_id}
    ).scalar()
    return status in ("ENQUEUED", "PENDING", "DELAYED")


def _register(work: Work) -> None:
    def as_step(phase: Phase, body: Body) -> Callable[[int], None]:
        @DBOS.step(name=phase.value)
        def step(attempt_id: int) -> None:
            run_step(work, attempt_id, phase, body)

        return step

    steps = [as_step(phase, body) for phase, body in STEPS]

    # A crash of the farm is no fault of the attempt: it is entered again however often that happens.
    @DBOS.workflow(name=WORKFLOW, max_recovery_attempts=1_000_000)
    def attempt(attempt_id: int) -> None:
        for step in steps:
            step(attempt_id)
