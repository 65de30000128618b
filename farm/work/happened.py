"""After the work: what the device's log, its boots and the engine's memory say happened, as incidents."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.adb import precheck as looks
from farm.adb.log_file import STAMP, read_lines
from farm.domain.journal import clip
from farm.domain.outcomes import Phase
from farm.domain.precheck import predict
from farm.evidence import growth, incidents, signature
from farm.evidence.collect.log_marks import boot_of, clock_of
from farm.evidence.lines import Facts
from farm.evidence.log import PIECE, Log
from farm.store import clusters, series, tables
from farm.store.bus import touch
from farm.work.files import LOGCAT
from farm.work.precheck import local_models
from farm.work.step import Step

#: What the runner tells of its own engine, with the evidence that it fetched at once.
_RUNNERS = ("engine-crashed", "engine-killed", "engine-hung", "anr")

logger = logging.getLogger(__name__)

#: A log is looked through for so long at most, seconds.
SCAN_S = 60.0
#: Series of the engine's memory, the best first; the first is its own alone, the others hold the model's file too.
MEMORY = ("engine_pss_anon", "engine_pss", "engine_rss")
AUTOPSY = "autopsy"


def look_back(step: Step) -> None:
    """When everything was shipped; entered again it finds its own incidents and adds none.

    What cannot be read is noted with the phase: the attempt has its outcome, and its files are kept.
    """
    try:
        _look_back(step)
    except (ValueError, KeyError, OSError) as error:
        logger.exception("attempt %d: what happened could not be told", step.id)
        step.detail["happened"] = f"could not be told: {type(error).__name__}: {error}"[:500]


def _look_back(step: Step) -> None:
    log, boots = scan(step.folder / LOGCAT, step.attempt.started_at)
    with step.work.db.session() as session:
        attempt = session.get_one(tables.Attempt, step.id)
        now = step.work.db.now(session)
        i = tables.Incident
        rows = session.execute(select(i.signature, i.klass, i.evidence).where(i.attempt_id == attempt.id)).all()
        known, told = {row.signature for row in rows}, [row.evidence or "" for row in rows if row.klass in _RUNNERS]
        found = [*incidents.found(log), *_reboots(session, attempt, boots)]
        found += _leaks(session, step, attempt)
        for one in found:
            if one.signature.key not in known and not _names(told, one.pid):
                known.add(one.signature.key)
                _add(session, attempt, one, now)
        touch(session, "incident", attempt.id, at=now, run_id=step.run.id, device_id=attempt.device_id)


def _names(told: list[str], pid: int | None) -> bool:
    """Whether what the runner told is about this very process: it knows more than the log does."""
    return pid is not None and any(re.search(rf"(?<!\d){pid}(?!\d)", evidence) for evidence in told)


def _add(session: Session, attempt: tables.Attempt, one: incidents.Found, now: datetime) -> None:
    row = tables.Incident(
        attempt_id=attempt.id,
        seq=None,
        device_id=attempt.device_id,
        at=now,
        klass=one.klass,
        summary=clip(one.summary, 4000),
        evidence=clip(one.evidence),
        count=one.count,
        artifact=_autopsy(session, attempt.id) if one.klass == "heap-growth" else None,
    )
    session.add(row)
    clusters.sign(session, row, one.signature)


def scan(path: Path, since: datetime | None) -> tuple[dict[str, Facts], list[str]]:
    """What the log says from `since` on, by kind, and the boots that it goes through."""
    reader, boots, batch, size = Log(), [], [], 0
    end = time.monotonic() + SCAN_S
    for line in _own(path, since):
        boot = boot_of(line)
        if boot is not None and boot not in boots:
            boots.append(boot)
        batch.append(line)
        size += len(line) + 1
        if size >= PIECE:
            reader.feed_text("\n".join([*batch, ""]))
            batch, size = [], 0
            if time.monotonic() > end:
                break
    reader.feed_text("\n".join([*batch, ""]))
    return reader.finish(), boots


def _own(path: Path, since: datetime | None) -> Iterator[str]:
    """Lines of the attempt: a device's ring holds what came before it. Without the device's clock, all of them."""
    begin: str | None = None
    for part in (path.with_name(path.name + ".1"), path):
        if not path.exists() or not part.exists():
            continue
        for line in read_lines(part):
            clock = clock_of(line)
            if clock is not None and since is not None and begin is None:
                begin = f"{since.astimezone(UTC) + clock.offset + clock.zone:%m-%d %H:%M:%S}"
            stamp = STAMP.match(line)
            if begin is None or stamp is None or stamp[1] >= begin:
                yield line


def _reboots(session: Session, attempt: tables.Attempt, boots: list[str]) -> Iterator[incidents.Found]:
    """Another boot id than at the attempt's begin: the device restarted, whatever the connection did."""
    first = session.get(tables.AttemptPhase, (attempt.id, Phase.PRECHECK.value))
    before = ((first.detail or {}).get("health") or {}).get("boot_id") if first is not None else None
    now = session.get_one(tables.Device, attempt.device_id).boot_id if before else None
    seen = [boot for boot in dict.fromkeys((before, *boots, now)) if isinstance(boot, str) and boot]
    if len(seen) > 1:
        words = "the device restarted" + (f" {len(seen) - 1} times" if len(seen) > 2 else "")
        sign = signature.of_incident("reboot", "the device restarted", None)
        yield incidents.Found("reboot", words, "\n".join(f"boot {boot}" for boot in seen), sign)


def _leaks(session: Session, step: Step, attempt: tables.Attempt) -> Iterator[incidents.Found]:
    """Growth of the engine's own memory that neither cache nor buffers of the model explain."""
    manifest = step.bundle.manifest
    models = looks.models_of(manifest, local_models(step))
    peaks = [predict(model, manifest.get("parameters") or {}) for model in models.values()]
    allowance = max(((peak.cache or 0) + (peak.buffers or 0) for peak in peaks), default=0) / 1e6
    mapped = max((model.size for model in models.values()), default=0) / 1e6  # weights come in as they are touched
    for test, begin, end in _decodes(session, attempt.id):
        for name, explained in zip(MEMORY, (allowance, allowance + mapped, allowance + mapped), strict=True):
            points = _between(session, attempt.id, name, begin, end)
            if len(points) < growth.MIN_SAMPLES:
                continue
            grown = growth.leaking([t for t, _ in points], [v for _, v in points], explained)
            if grown is not None:
                lines = "\n".join(f"{t - begin:8.1f} s {v:10.1f} MB" for t, v in points[:: -(-len(points) // 40)])
                sign = signature.of_incident("heap-growth", "memory grows without end", None)
                words = f"{test or 'the engine'}: {grown.words()}"
                yield incidents.Found("heap-growth", words, f"{name}\n{lines}", sign)
            break


def _between(session: Session, attempt_id: int, name: str, begin: float, end: float) -> list[tuple[float, float]]:
    return [
        (float(t), float(v))
        for one in series.read(session, [attempt_id], name=name)
        for t, v in zip(one.times, one.values, strict=True)
        if begin <= t <= end
    ]


def _decodes(session: Session, attempt_id: int) -> list[tuple[str | None, float, float]]:
    """(test, first, last) moment of each test's computing, seconds since the epoch."""
    s = tables.Stage
    spans: dict[str | None, tuple[float, float]] = {}
    query = select(s.test_id, s.began_at, s.duration_s).where(s.attempt_id == attempt_id, s.name.not_like("load.%"))
    for test, began, duration in session.execute(query):
        begin, end = began.timestamp(), began.timestamp() + duration
        known = spans.get(test)
        spans[test] = (begin, end) if known is None else (min(known[0], begin), max(known[1], end))
    return [(test, begin, end) for test, (begin, end) in spans.items()]


def _autopsy(session: Session, attempt_id: int) -> str | None:
    """The engine's own report on its memory, if it left one."""
    a = tables.Artifact
    return session.scalar(select(a.name).where(a.attempt_id == attempt_id, a.name.contains(AUTOPSY)).limit(1))
