"""A database with a bit of everything, made through the tables: test data only, so that pages can be looked at.

`python -m tests.dashboard.seed FILE` writes one. Figures are invented and deterministic; nothing in the product
imports this.
"""

from __future__ import annotations

import math
import random
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from farm.store import clusters
from farm.store import tables as t
from farm.store.db import Database, sqlite_url
from tests.dashboard.seed_parts import SUITES, add_tests, digest, evidence, measurements, phases

DEVICES: list[dict[str, Any]] = [
    {"serial": "virtual-pixel-8-pro", "name": "husky-v1", "model": "Pixel 8 Pro", "soc": "Tensor G3", "android": "16"},
    {"serial": "virtual-rk3568", "name": "rk-evb-v1", "model": "RK3568 EVB", "soc": "RK3568", "android": "13"},
    {"serial": "virtual-mt-9300", "name": "mt-9300-v1", "model": "Dimensity 9300", "soc": "MT6989", "android": "15"},
    {"serial": "2C101FDH2006K3", "name": "husky-02", "model": "Pixel 8 Pro", "soc": "Tensor G3", "android": "16"},
    {"serial": "MT9300A0004", "name": "mt-9300-04", "model": "Dimensity 9300", "soc": "MT6989", "android": "15"},
    {"serial": "1A021FDF6001", "name": "oriole-02", "model": "Pixel 6", "soc": "Tensor G1", "android": "15"},
    {"serial": "0123456789ABCDEF", "name": "rk-evb-08", "model": "RK3568 EVB", "soc": "RK3568", "android": "13"},
    {"serial": "R5CT20ZZZZ", "name": "R5CT20ZZZZ", "model": "SM-S921B", "soc": "Exynos 2400", "android": "14"},
]


def seed(session: Session, now: datetime) -> None:
    """Fill an empty schema."""
    random.seed(7)
    session.add(t.Host(name="local", seen_at=now, info={}))
    session.add(t.Host(name="lab-2", seen_at=now, info={}))
    session.flush()
    devices = [_device(session, i, spec, now) for i, spec in enumerate(DEVICES)]
    session.add(t.Bundle(**_bundle("reference-engine", "0.1.0", "3f9c2e1d" + "0" * 32, now - timedelta(days=2))))
    session.add(t.Bundle(**_bundle("llama-bench", "b11434", None, now - timedelta(days=1))))
    session.add(
        t.SuitePack(
            hash=digest("pack"),
            name="builtin",
            manifest={
                "format": 1,
                "name": "builtin",
                "suites": {
                    "smoke": {"path": "smoke", "needs": "", "limits": {"suite_s": 600}},
                    "fingerprint": {"path": "fingerprint", "needs": "", "limits": {"suite_s": 600}},
                    "latency": {"path": "latency", "needs": "", "settle": {"max_temperature_c": 40}},
                },
            },
            bytes=48_000,
            created_at=now - timedelta(days=2),
        )
    )
    session.flush()
    for back in range(9, 4, -1):
        _finished(
            session, devices[:3], now - timedelta(hours=back * 5), "reference engine nightly", {}, klass="nightly"
        )
    _finished(session, devices[:3], now - timedelta(hours=3), "decode slower on purpose", {1: "crashed"})
    _finished(session, devices[:3], now - timedelta(minutes=42), "reference engine 0.1.0", {}, retry=2)
    _cancelled(session, devices[3], now - timedelta(minutes=30))
    _running(session, devices[:3], now)
    _queued(session, devices[5], now - timedelta(minutes=4))
    session.flush()
    clusters.sign_old(session)
    for attempt in session.query(t.Attempt).filter(t.Attempt.outcome.in_(["passed", "crashed"])):
        attempt.deployment = "ok" if attempt.outcome == "passed" else "other"


def _bundle(name: str, version: str, sha: str | None, at: datetime) -> dict[str, Any]:
    return {
        "hash": digest(name + version),
        "name": name,
        "version": version,
        "git_sha": sha,
        "adapter": "events" if name != "llama-bench" else "llama-bench",
        "manifest": {"files": {"x86_64": {"farm-engine": "bin/x86_64/farm-engine"}}, "models": {"small-q4_0": "m"}},
        "bytes": 34_500_000,
        "created_at": at,
    }


def _device(session: Session, index: int, spec: dict[str, Any], now: datetime) -> t.Device:
    virtual = spec["serial"].startswith("virtual")
    board = "RK3568" in spec["soc"]
    unlisted = spec["name"] == spec["serial"]
    labels = {"model": spec["model"], "soc": spec["soc"], "android": spec["android"]}
    labels |= {"abi": "x86_64" if virtual else "arm64-v8a", "ram_gb": "12", "gpu": "Mali-G715"}
    row = t.Device(
        serial=spec["serial"],
        name=spec["name"],
        host="local" if index < 4 else "lab-2",
        virtual=virtual,
        listed=not unlisted,
        type=None if unlisted else spec["model"].lower().replace(" ", "-"),
        pool=None if unlisted else "demo",
        ring=0,
        labels=labels,
        address=f"127.0.0.1:{5600 + index}",
        connection="device",
        connection_at=now - timedelta(hours=7),
        seen_at=now,
        health="good",
        temperature_c=31.8 + index,
        battery_pct=None if board else 66 + index,
        has_battery=not board,
        boot_completed=True,
        boot_id=f"b007-{index}",
        readiness_at=now,
    )
    if spec["name"] == "mt-9300-04":
        row.health, row.health_reason, row.health_by = "bad", "shell deaf three times", "farm"
        row.health_at, row.health_until = now - timedelta(minutes=50), now + timedelta(hours=2)
    if spec["name"] == "rk-evb-08":
        row.connection, row.temperature_c = "gone", None
    if unlisted:
        row.connection, row.temperature_c, row.battery_pct, row.has_battery = "unauthorized", None, None, None
    session.add(row)
    session.flush()
    _history(session, row, now)
    return row


def _history(session: Session, row: t.Device, now: datetime) -> None:
    def event(at: datetime, kind: str, **detail: Any) -> None:
        session.add(t.DeviceEvent(device_id=row.id, at=at, kind=kind, detail=detail))

    event(now - timedelta(hours=7), "connection", connection=row.connection, address=row.address)
    event(now - timedelta(hours=6, minutes=58), "rebooted", boot_id=row.boot_id)
    if row.name == "husky-02":  # a loose plug
        for back in range(6):
            lost = now - timedelta(hours=2, minutes=9 * back)
            event(lost, "connection", connection="gone")
            event(lost + timedelta(seconds=20), "connection", connection="device", address=row.address)
    if row.health == "bad":
        event(now - timedelta(minutes=50), "health", health="bad", reason=row.health_reason, by="farm")
    if row.temperature_c is not None:
        for step in range(240):
            at = now - timedelta(seconds=15 * (240 - step))
            wave = 3.2 * math.sin((step + 17 * row.id) / 21) + random.uniform(-0.4, 0.4)
            event(at, "temperature", celsius=round(row.temperature_c + wave, 1))
    facts = {
        "cpu": {"cores": 9, "features": ["fp", "asimd", "i8mm", "bf16"]},
        "memory": {"total_mb": 11_600, "page_size": 4096},
        "bandwidth_gb_s": 21.4,
        "android": {"sdk": 36, "build": "BP1A.250305.019"},
    }
    old = {**facts, "android": {"sdk": 35, "build": "AP4A.250205.002"}, "bandwidth_gb_s": 21.1}
    for back, body in ((20, old), (2, facts)):
        at = now - timedelta(days=back)
        print_row = t.Fingerprint(device_id=row.id, hash=digest(repr(body)), facts=body, first_seen=at, last_seen=now)
        session.add(print_row)
        session.flush()
        row.fingerprint_id = print_row.id


def _run(session: Session, title: str, at: datetime, klass: str = "manual", **more: Any) -> t.Run:
    run = t.Run(
        title=title,
        klass=klass,
        team="default",
        created_by="demo",
        created_at=at,
        bundle_hash=digest("reference-engine0.1.0"),
        pack_hash=digest("pack"),
        suites=list(SUITES),
        selector="pool=demo virtual=true",
        request={},
        **more,
    )
    session.add(run)
    session.flush()
    return run


def _job(session: Session, run: t.Run, ordinal: int, device: t.Device, **more: Any) -> t.Job:
    job = t.Job(
        run_id=run.id,
        ordinal=ordinal,
        selector=f"serial={device.serial}",
        device_id=device.id,
        suites=run.suites,
        tests=None,
        klass=run.klass,
        queued_at=run.created_at,
        not_before=None,
        **more,
    )
    session.add(job)
    session.flush()
    return job


def _attempt(session: Session, job: t.Job, number: int, device: t.Device, at: datetime, **more: Any) -> t.Attempt:
    device.last_token += 1
    attempt = t.Attempt(
        job_id=job.id,
        number=number,
        device_id=device.id,
        host=device.host,
        token=device.last_token,
        created_at=at,
        started_at=at + timedelta(seconds=0.3),
        workflow_id=f"attempt-{job.id}-{number}",
        **more,
    )
    session.add(attempt)
    session.flush()
    return attempt


def _lease(session: Session, attempt: t.Attempt, end: datetime | None) -> None:
    session.add(
        t.Lease(
            device_id=attempt.device_id,
            holder=f"attempt:{attempt.id}",
            attempt_id=attempt.id,
            token=attempt.token,
            granted_at=attempt.created_at,
            heartbeat_by=attempt.created_at + timedelta(seconds=30),
            ends_at=attempt.created_at + timedelta(hours=4),
            released_at=end,
            ended_at=end,
            end_reason="cleaned" if end else None,
        )
    )
    session.flush()


def _finished(
    session: Session,
    devices: list[t.Device],
    at: datetime,
    title: str,
    worse: dict[int, str],
    klass: str = "manual",
    retry: int | None = None,
) -> None:
    run = _run(session, title, at, klass, state="ended", outcome=next(iter(worse.values()), "passed"))
    run.started_at, ends = at + timedelta(seconds=2), []
    for ordinal, device in enumerate(devices):
        outcome = worse.get(ordinal, "passed")
        job = _job(session, run, ordinal, device, state="ended", outcome=outcome)
        begun, number = at + timedelta(seconds=2 + ordinal), 1
        if retry == ordinal:
            lost = _attempt(session, job, 1, device, begun, phase="done", outcome="device-lost")
            lost.reason = "adb lost the device for 20 s in execute"
            lost.ended_at = phases(session, lost, "execute")
            add_tests(session, lost, begun, stop=6)
            _lease(session, lost, lost.ended_at)
            begun, number = lost.ended_at + timedelta(seconds=4), 2
            session.add(
                t.Incident(
                    attempt_id=lost.id,
                    seq=90,
                    device_id=device.id,
                    at=lost.ended_at,
                    klass="device-lost",
                    summary="adb stopped listing it; it came back after 20.4 s",
                    evidence="11-29 14:12:01 tracker: 127.0.0.1:5602 device -> gone\n11-29 14:12:21 gone -> device",
                )
            )
        attempt = _attempt(session, job, number, device, begun, phase="done", outcome=outcome)
        attempt.ended_at = phases(session, attempt)
        ends.append(attempt.ended_at)
        _lease(session, attempt, attempt.ended_at)
        died = None if outcome == "passed" else outcome
        add_tests(session, attempt, begun + timedelta(seconds=11), stop=9 if died else None, died=died)
        evidence(session, attempt, begun)
        if died:
            attempt.reason = "farm-engine died by SIGSEGV in latency::test_ttft"
            session.add(
                t.Incident(
                    attempt_id=attempt.id,
                    seq=91,
                    device_id=device.id,
                    test_id="latency/test_latency.py::test_ttft",
                    at=attempt.ended_at,
                    klass="crash",
                    summary="farm-engine: signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x0",
                    evidence="*** *** ***\npid: 812, name: farm-engine\nsignal 11 (SIGSEGV)\n#00 prefill+0x4c",
                )
            )
        else:
            measurements(session, attempt, begun + timedelta(seconds=20), 1.0 + 0.9 * ordinal)
        device.last_bundle = run.bundle_hash
    run.ended_at = max(ends)


def _cancelled(session: Session, device: t.Device, at: datetime) -> None:
    run = _run(session, "wrong bundle, sorry", at, state="ended", outcome="cancelled")
    run.cancel_at, run.cancel_by, run.ended_at = at + timedelta(seconds=9), "demo", at + timedelta(seconds=14)
    _job(session, run, 0, device, state="ended", outcome="cancelled")


def _running(session: Session, devices: list[t.Device], now: datetime) -> None:
    run = _run(session, "latency of the new Q4_0 kernels", now - timedelta(seconds=38), "pr", state="running")
    run.started_at = now - timedelta(seconds=36)
    for ordinal, (device, phase, stop) in enumerate(
        zip(devices, ("execute", "settle", "execute"), (7, 0, 10), strict=True)
    ):
        job = _job(session, run, ordinal, device, state="running")
        attempt = _attempt(session, job, 1, device, now - timedelta(seconds=35 - ordinal), phase=phase)
        phases(session, attempt, phase, open_=True)
        _lease(session, attempt, None)
        if phase == "settle":
            attempt.waiting_for = "rk-evb-v1 to cool to 34 °C (now 37.1 °C)"
        else:
            add_tests(session, attempt, now - timedelta(seconds=20), stop=stop)


def _queued(session: Session, device: t.Device, at: datetime) -> None:
    run = _run(session, "soak on the boards", at, state="queued")
    job = _job(session, run, 0, device, state="queued")
    job.device_id = None
    job.selector = "soc=RK3568"
    job.wait_reason = "waits for an RK3568: rk-evb-v1 is held by run 9, rk-evb-08 is gone; 1st in the queue"
    del device


def seeded(path: Path, now: datetime | None = None) -> Database:
    """A new database file at `path`, filled."""
    db = Database(sqlite_url(path))
    db.migrate()
    with db.session() as session:
        seed(session, now or datetime.now(UTC))
    return db


if __name__ == "__main__":
    seeded(Path(sys.argv[1])).close()
