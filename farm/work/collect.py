"""Whatever happened, what is known of it is kept: journal, logs and artifacts go to the artifact store."""

from __future__ import annotations

from farm.adb import health
from farm.work import files
from farm.work.context import Work
from farm.work.happened import look_back
from farm.work.journal import JournalTail, Shipper
from farm.work.step import Step
from farm.work.supervisor import Supervisor

#: Longest wait for the temperature after the work, seconds.
HEAT_S = 5.0


def collect(step: Step) -> None:
    """Stop the log stream, ship the rest of the journal, store every file. What cannot be stored is named."""
    Supervisor(step.folder).kill()
    if step.id in step.work.logcats:
        step.say("the log stream to end")
        stop_logcat(step.work, step.id)
    _note_heat(step)
    Shipper(step.work, step.id, step.attempt.token, JournalTail(step.folder / files.JOURNAL)).ship_all()
    kept = files.keep(step.work, step.attempt, step.run.id)
    step.detail["artifacts"] = kept.stored
    look_back(step)
    if kept.missing:
        step.detail["missing"] = list(kept.missing[:50])


def stop_logcat(work: Work, attempt_id: int) -> None:
    """End the stream of an attempt's log, if there is one; its file is whole then."""
    stream = work.logcats.pop(attempt_id, None)
    if stream is not None:
        stream.stop()


def _note_heat(step: Step) -> None:
    """How warm the work has made it; a device that is gone tells nothing."""
    step.note_temperature(health.check(step.device(), timeout_s=HEAT_S).temperature_c)
