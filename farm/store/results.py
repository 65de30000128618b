"""Journal records become rows: tests, measurements, stages, series, incidents, fingerprints.

Applying is idempotent: `(attempt, seq)` is marked in the same transaction, a record that was applied before is passed
over. What the records hold came from a suite, which is a stranger's: it is checked and bounded, and a record that makes
no sense becomes an incident, never an error. Records that come under a stale lease are marked as late and not applied.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from farm.domain.jobs import carried
from farm.domain.journal import Kind, Record, clip
from farm.domain.measurements import Better, Mark, Measurement, temperature_band
from farm.domain.outcomes import Outcome, TestOutcome
from farm.evidence import incidents
from farm.store import clusters, runs, series, tables
from farm.store.bus import touch

MAX_TESTS = 5000
MAX_VALUES = 10_000
MAX_NODES = 20_000
MAX_ABSENT = 200
_TEXT = 4000


def apply(session: Session, attempt: tables.Attempt, records: Sequence[Record], now: datetime, *, late: bool) -> int:
    """Apply the records that were not applied before; returns how many. The attempt's run is told once per kind."""
    known = set(
        session.scalars(
            select(tables.JournalMark.seq).where(
                tables.JournalMark.attempt_id == attempt.id, tables.JournalMark.seq.in_([r.seq for r in records])
            )
        )
    )
    fresh: dict[int, Record] = {r.seq: r for r in records if r.seq not in known}
    scene = _Scene(session, attempt, now)
    if fresh:
        marks = [{"attempt_id": attempt.id, "seq": seq, "late": late} for seq in fresh]
        session.execute(insert(tables.JournalMark), marks)
    for record in fresh.values():
        handler = None if late else _HANDLERS.get(record.kind)
        if handler is not None:
            _guarded(scene, record, handler)
    scene.announce()
    return len(fresh)


class _Scene:
    """What the handlers share while one batch is applied."""

    def __init__(self, session: Session, attempt: tables.Attempt, now: datetime) -> None:
        self.session, self.attempt, self.now = session, attempt, now
        self.device = session.get_one(tables.Device, attempt.device_id)
        self.run_id = session.scalar(select(tables.Job.run_id).where(tables.Job.id == attempt.job_id))
        self.chunks: list[dict[str, Any]] = []  # of series: many, and alike; all in one statement
        self._topics: dict[str, None] = {}

    def changed(self, topic: str) -> None:
        self._topics[topic] = None

    def announce(self) -> None:
        if self.chunks:
            self.session.execute(insert(tables.SeriesChunk), self.chunks)
        for topic in self._topics:
            touch(
                self.session, topic, self.attempt.id, at=self.now, run_id=self.run_id, device_id=self.attempt.device_id
            )

    def test(self, test_id: str) -> tables.Test:
        row = self.session.get(tables.Test, (self.attempt.id, test_id))
        if row is None:
            row = tables.Test(attempt_id=self.attempt.id, test_id=test_id, ordinal=0)
            self.session.add(row)
        return row


_Handler = Callable[[_Scene, Record], None]


def _guarded(scene: _Scene, record: Record, handler: _Handler) -> None:
    record = replace(record, fields=_scrub(record.fields))
    try:
        handler(scene, record)
    except (KeyError, TypeError, ValueError, OverflowError, OSError) as error:
        what = f"journal record {record.seq} ({record.kind[:40]}) makes no sense: {type(error).__name__}: {error}"
        _incident_row(scene, record, "bad-record", what, json.dumps(plain(record.fields))[:_TEXT])


def _collected(scene: _Scene, record: Record) -> None:
    tests = record.fields["tests"]
    if not isinstance(tests, list) or len(tests) > MAX_TESTS:
        raise ValueError(f"tests must be a list of at most {MAX_TESTS}")
    attempt = scene.attempt
    done = carried(runs.attempt_ends(scene.session, attempt.job_id)) if attempt.number > 1 else {}
    for ordinal, test in enumerate(tests):
        if test not in done:  # what finished in an earlier attempt is not run again and does not wait here
            scene.test(_line(test, 500)).ordinal = ordinal
    scene.changed("test")


def _test_start(scene: _Scene, record: Record) -> None:
    row = scene.test(_line(record.fields["test"], 500))
    if row.outcome is None:
        row.began_at = _time(record.wall)
    scene.changed("test")


def _test_end(scene: _Scene, record: Record) -> None:
    fields = record.fields
    row = scene.test(_line(fields["test"], 500))
    row.outcome = TestOutcome(fields["outcome"]).value
    row.cause = Outcome(fields["cause"]).value if fields.get("cause") else None
    row.duration_s = _finite(fields.get("duration_s"))
    row.ended_at = _time(record.wall)
    row.message = clip(str(fields["message"]), _TEXT) if fields.get("message") else None
    row.detail = clip(str(fields["detail"])) if fields.get("detail") else None
    scene.changed("test")


def _measurement(scene: _Scene, record: Record) -> None:
    fields = record.fields
    values, marks = fields["values"], fields.get("marks") or []
    if not isinstance(values, list) or len(values) > MAX_VALUES or not isinstance(marks, list):
        raise ValueError(f"values must be a list of at most {MAX_VALUES}")
    checked = Measurement(
        _line(fields["name"], 200),
        _line(fields["unit"], 40),
        Better(fields["better"]),
        tuple(float(v) for v in values),
        tuple(None if m is None else Mark(m) for m in marks),
        {_line(k, 100): _line(v, 200) for k, v in dict(fields.get("labels") or {}).items()},
    )
    scene.session.add(
        tables.Measurement(
            attempt_id=scene.attempt.id,
            seq=record.seq,
            test_id=_line(fields["test"], 500),
            device_id=scene.attempt.device_id,
            fingerprint_id=scene.device.fingerprint_id,
            temperature_band=temperature_band(_finite(fields.get("temperature_c")) or scene.device.temperature_c),
            name=checked.name,
            unit=checked.unit,
            better=checked.better.value,
            values=list(checked.values),
            marks=[None if m is None else m.value for m in checked.marks],
            labels=checked.labels,
            at=_time(record.wall),
        )
    )
    scene.changed("measurement")


def _series(scene: _Scene, record: Record) -> None:
    fields = record.fields
    moments, values = fields["t"], fields["values"]
    if not moments or len(moments) != len(values):
        raise ValueError("t and values must be lists of one length")
    if len(moments) > MAX_VALUES:
        raise ValueError(f"a chunk of a series has at most {MAX_VALUES} points")
    shift = record.wall - record.mono  # the journal's own clock, as it stood when the record was written
    name, unit = _line(fields["name"], 200), _line(fields["unit"], 40)
    times, taken = [float(t) + shift for t in moments], [float(v) for v in values]
    attempt = scene.attempt
    scene.chunks.append(series.row(attempt.id, record.seq, attempt.device_id, name, unit, times, taken))
    scene.changed("series")


def _sampler(scene: _Scene, record: Record) -> None:
    """How the device is sampled and what it does not show: what was said last counts."""
    fields = record.fields
    absent = {_line(k, 200): str(v)[:300] for k, v in list(dict(fields.get("absent") or {}).items())[:MAX_ABSENT]}
    why = f": {fields['why']}" if fields.get("why") else ""
    absent["sampler"] = f"{fields['via']} at {float(fields['hz']):g} Hz{why}"[:300]
    a = tables.SeriesAbsence
    scene.session.execute(delete(a).where(a.attempt_id == scene.attempt.id))
    scene.session.add_all(a(attempt_id=scene.attempt.id, name=name, reason=reason) for name, reason in absent.items())
    scene.changed("series")


def _stage(scene: _Scene, record: Record) -> None:
    fields = record.fields
    duration = _finite(fields["dur_s"])
    if duration is None or duration < 0:
        raise ValueError("dur_s must be a duration in seconds")
    scene.session.add(
        tables.Stage(
            attempt_id=scene.attempt.id,
            seq=record.seq,
            test_id=_line(fields["test"], 500) if fields.get("test") else None,
            device_id=scene.attempt.device_id,
            name=_line(fields["name"], 100),
            began_at=_time(float(fields["began"]) + record.wall - record.mono),
            duration_s=duration,
            counters=plain(dict(fields.get("counters") or {})),
        )
    )
    scene.changed("stage")


def _incident(scene: _Scene, record: Record) -> None:
    fields = record.fields
    klass = _line(fields["class"], 60)
    evidence = incidents.explained(klass, str(fields["evidence"])) if fields.get("evidence") else None
    _incident_row(scene, record, klass, str(fields["summary"]), clip(evidence) if evidence else None)


def _incident_row(scene: _Scene, record: Record, klass: str, summary: str, evidence: str | None) -> None:
    fields = record.fields
    row = tables.Incident(
        attempt_id=scene.attempt.id,
        seq=record.seq,
        test_id=str(fields["test"])[:500] if fields.get("test") else None,
        device_id=scene.attempt.device_id,
        at=_time(record.wall),
        klass=klass,
        summary=clip(summary, _TEXT),
        evidence=evidence,
        artifact=str(fields["artifact"])[:300] if fields.get("artifact") else None,
        count=_count(fields.get("count")),
    )
    scene.session.add(row)
    clusters.sign(scene.session, row)
    scene.changed("incident")


def _note(scene: _Scene, record: Record) -> None:
    """Warnings are shown among the incidents; the rest stays in the journal."""
    if record.fields.get("level") == "warning":
        _incident_row(scene, record, "warning", str(record.fields["text"]), None)


def _fingerprint(scene: _Scene, record: Record) -> None:
    if record.fields.get("partial"):
        return  # one test's part; the whole follows
    facts = plain(dict(record.fields["facts"]))
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    row = scene.session.scalar(
        select(tables.Fingerprint).where(
            tables.Fingerprint.device_id == scene.attempt.device_id, tables.Fingerprint.hash == digest
        )
    )
    at = _time(record.wall)
    if row is None:
        row = tables.Fingerprint(
            device_id=scene.attempt.device_id, hash=digest, facts=facts, first_seen=at, last_seen=at
        )
        scene.session.add(row)
        scene.session.flush()
    row.last_seen = at
    if scene.device.fingerprint_id != row.id:
        detail = {"from": scene.device.fingerprint_id, "to": row.id}
        scene.session.add(tables.DeviceEvent(device_id=scene.device.id, at=at, kind="fingerprint", detail=detail))
    scene.device.fingerprint_id = row.id
    scene.changed("device")


_HANDLERS: Mapping[str, _Handler] = {
    Kind.COLLECTED: _collected,
    Kind.TEST_START: _test_start,
    Kind.TEST_END: _test_end,
    Kind.MEASUREMENT: _measurement,
    Kind.SERIES: _series,
    Kind.SAMPLER: _sampler,
    Kind.STAGE: _stage,
    Kind.INCIDENT: _incident,
    Kind.NOTE: _note,
    Kind.FINGERPRINT: _fingerprint,
}


def plain(value: Any) -> Any:
    """`value` as JSON that every reader takes: NaN and infinities become null, depth and size are bounded."""
    budget = [MAX_NODES]

    def walk(item: Any, depth: int) -> Any:
        budget[0] -= 1
        if budget[0] < 0 or depth > 12:
            return None
        if isinstance(item, dict):
            return {str(k)[:500]: walk(v, depth + 1) for k, v in item.items()}
        if isinstance(item, list | tuple):
            return [walk(v, depth + 1) for v in item]
        if isinstance(item, float):
            return item if math.isfinite(item) else None
        if isinstance(item, bool | int) or item is None:
            return item
        return clip(str(item))

    return walk(value, 0)


def _scrub(value: Any, depth: int = 0) -> Any:
    """Text without what a database cannot hold: lone surrogates and zero bytes."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    if isinstance(value, list):
        if depth >= 50:
            return []
        return [item if isinstance(item, float) else _scrub(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_scrub(k): _scrub(v, depth + 1) for k, v in value.items()} if depth < 50 else {}
    return value


def _count(value: Any) -> int:
    """How many one record stands for; 1 for what is no such number."""
    return min(max(value, 1), 2**31 - 1) if isinstance(value, int) else 1


def _line(value: Any, limit: int) -> str:
    text = str(value)
    if not text or len(text) > limit:
        raise ValueError(f"{text[:60]!r} must be text of 1 to {limit} characters")
    return text


def _finite(value: Any) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
