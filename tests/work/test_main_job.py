"""The main job, for real: virtual devices under the stock adb, the reference engine, the built-in suites."""

from __future__ import annotations

import zstandard
from sqlalchemy import select

from farm.store import tables
from tests.work.real_farm import RealFarm


def test_a_run_over_two_devices_passes_and_leaves_everything_behind_but_dirt(real_farm: RealFarm) -> None:
    farm = real_farm
    farm.add_device("rk3568", "V1")
    farm.add_device("pixel-8-pro", "V2")
    farm.start()
    farm.ready(2)
    run = farm.submit()
    assert farm.ended(run) == "passed", farm.story(run)
    attempts = farm.attempts(run)
    assert len(attempts) == 2
    for attempt in attempts:
        outcomes = farm.tests(attempt.id)
        assert outcomes
        assert set(outcomes.values()) <= {"passed", "skipped"}
        kept = farm.artifacts_of(attempt.id)
        assert {"journal.jsonl", "runner.log", "logcat.zst", "left.txt"} <= set(kept)
        log = farm.artifacts.local_path(kept["logcat.zst"]).read_bytes()
        assert zstandard.ZstdDecompressor().decompressobj().decompress(log)
        assert not (farm.state / "attempts" / str(attempt.id)).exists()
        with farm.db.read() as session:
            phases = session.scalars(select(tables.AttemptPhase).where(tables.AttemptPhase.attempt_id == attempt.id))
            detail = {p.phase: p.detail for p in phases}
            assert detail["clean"]["clean"] == "verified"
            assert any("rubbish" in path for path in detail["clean"]["removed"])
            assert any("sleep 1000" in process for process in detail["clean"]["killed"])
            assert detail["deploy"]["bytes_sent"] > 0
            assert session.get_one(tables.Device, attempt.device_id).health == "good"
    assert farm.open_leases() == 0
    again = farm.submit(selector="serial=V1")
    assert farm.ended(again) == "passed", farm.story(again)
    with farm.db.read() as session:
        [attempt] = farm.attempts(again)
        deploy = session.get_one(tables.AttemptPhase, (attempt.id, "deploy"))
    assert deploy.detail["bytes_sent"] == 0  # unchanged content is not sent twice
