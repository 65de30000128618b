"""What a seeded attempt consists of: phases, tests, measurements, stages, a series and artifacts."""

from __future__ import annotations

import hashlib
import math
import random
import struct
from datetime import datetime, timedelta

import zstandard
from sqlalchemy.orm import Session

from farm.store import tables as t

SUITES = {
    "smoke": ["starts", "describe", "generates_the_same_text_twice", "exits_clean"],
    "fingerprint": ["properties", "cpu_features", "memory", "thermal_zones", "memory_bandwidth"],
    "latency": ["ttft", "prefill_rate", "decode_rate"],
}
PHASES = ["precheck", "deploy", "settle", "execute", "collect", "clean", "verdict"]
SECONDS = {"precheck": 0.6, "deploy": 4.0, "settle": 6.0, "execute": 24.0, "collect": 2.0, "clean": 1.4, "verdict": 0.2}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def phases(session: Session, attempt: t.Attempt, until: str = "verdict", open_: bool = False) -> datetime:
    at = attempt.created_at + timedelta(seconds=0.3)
    for phase in PHASES:
        last = phase == until
        ended = at + timedelta(seconds=SECONDS[phase] * (1 + attempt.id % 5 * 0.07))
        session.add(
            t.AttemptPhase(attempt_id=attempt.id, phase=phase, began_at=at, ended_at=None if last and open_ else ended)
        )
        if last:
            return at if open_ else ended
        at = ended
    return at


def add_tests(
    session: Session, attempt: t.Attempt, at: datetime, stop: int | None = None, died: str | None = None
) -> None:
    names = [f"{suite}/test_{suite}.py::test_{name}" for suite, names in SUITES.items() for name in names]
    for ordinal, test_id in enumerate(names):
        row = t.Test(attempt_id=attempt.id, test_id=test_id, ordinal=ordinal)
        if stop is None or ordinal < stop:
            row.began_at, row.ended_at = at, at + timedelta(seconds=1.7)
            at = row.ended_at
            row.duration_s, row.outcome = 1.7 + ordinal * 0.11, "passed"
            if "thermal_zones" in test_id and attempt.device_id % 2 == 0:
                row.outcome, row.message = "skipped", "not available: no zone of type skin"
        elif ordinal == stop:
            row.began_at = at
            if died:
                row.ended_at, row.duration_s = at + timedelta(seconds=0.4), 0.4
                row.outcome, row.cause = "failed", died
                row.message = "EngineDied: farm-engine died by SIGSEGV in stage prefill"
                row.detail = (
                    "def test_ttft(engine):\n>       result = engine.run(prompt=64)\nE       EngineDied: SIGSEGV"
                )
        session.add(row)


def measurements(session: Session, attempt: t.Attempt, at: datetime, factor: float) -> None:
    shapes = [
        ("ttft", "ms", "lower", 412.0 * factor, "ttft", 10),
        ("prefill_rate", "tok/s", "higher", 148.0 / factor, "prefill_rate", 10),
        ("decode_rate", "tok/s", "higher", 21.4 / factor, "decode_rate", 12),
        ("peak_rss", "MB", "lower", 61.0, "decode_rate", 5),
    ]
    for seq, (name, unit, better, middle, test, count) in enumerate(shapes):
        values = [round(middle * random.gauss(1, 0.018), 3) for _ in range(count)]
        marks: list[str | None] = [None] * count
        if name == "decode_rate":
            marks[0] = "warmup"
            values[0] *= 0.93
            marks[-1] = "throttled" if factor > 1.5 else None
        session.add(
            t.Measurement(
                attempt_id=attempt.id,
                seq=1000 + seq,
                test_id=f"latency/test_latency.py::test_{test}",
                device_id=attempt.device_id,
                temperature_band="30-35 °C",
                name=name,
                unit=unit,
                better=better,
                values=values,
                marks=marks,
                labels={"model": "small-q4_0"},
                at=at,
            )
        )
    for seq, (name, seconds) in enumerate(
        [("load.open", 0.04), ("load.map", 0.22), ("prefill", 0.43), ("decode", 3.0)]
    ):
        for again in range(3):
            session.add(
                t.Stage(
                    attempt_id=attempt.id,
                    seq=2000 + seq * 10 + again,
                    test_id=None,
                    device_id=attempt.device_id,
                    name=name,
                    began_at=at,
                    duration_s=seconds * factor * random.gauss(1, 0.02),
                    counters={},
                )
            )


def evidence(session: Session, attempt: t.Attempt, at: datetime) -> None:
    for name, size in (("runner.log", 18_200), ("logcat.zst", 220_412), ("journal.jsonl", 41_003)):
        session.add(
            t.Artifact(
                attempt_id=attempt.id,
                name=name,
                media_type="text/plain",
                bytes=size,
                sha256=digest(f"{name}{attempt.id}"),
                at=at,
            )
        )
    start = at.timestamp()
    pairs = [(start + i * 0.5, 2.4 if i < 30 else 1.9 + 0.5 * math.exp(-(i - 30) / 9)) for i in range(60)]
    session.add(
        t.SeriesChunk(
            attempt_id=attempt.id,
            seq=3000,
            device_id=attempt.device_id,
            name="clock.big",
            unit="GHz",
            began_at=at,
            ended_at=at + timedelta(seconds=30),
            count=len(pairs),
            data=zstandard.compress(b"".join(struct.pack("<dd", *pair) for pair in pairs)),
        )
    )
