"""Rows that tests of the work begin with: devices that look ready, a bundle, a suite pack."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from farm.store import bundles, tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database

BUNDLE = """
format: 1
name: reference
version: 0.1.0
adapter: events
entry: engine
files: {x86_64: {engine: bin/x86_64/engine}}
scripts: [engine]
models: {tiny: models/tiny.gguf}
"""
PACK = """
format: 1
name: builtin
suites:
  smoke: {path: smoke, settle: {max_temperature_c: 45, timeout_s: 5}, limits: {suite_s: 60, silence_s: 30}}
  gpu: {path: gpu, needs: "gpu=Mali*"}
"""


def add_device(db: Database, serial: str, *, host: str = "local", **labels: str) -> int:
    """A device that is online, fresh and of the ABI x86_64 unless the labels say otherwise."""
    now = datetime.now(UTC)
    with db.session() as session:
        if session.get(tables.Host, host) is None:
            session.add(tables.Host(name=host, drained=False, info={}))
            session.flush()
        row = tables.Device(
            serial=serial,
            name=serial,
            host=host,
            virtual=True,
            labels={"abi": "x86_64", **labels},
            address=f"127.0.0.1:{serial}",
            connection="device",
            connection_at=now,
            seen_at=now,
            boot_completed=True,
        )
        session.add(row)
        session.flush()
        return row.id


def see_again(db: Database) -> None:
    """Every device was seen just now: rows grow stale while a test runs without an agent."""
    with db.session() as session:
        for row in session.query(tables.Device):
            row.seen_at = datetime.now(UTC)


def add_bundle_and_pack(db: Database, store: ArtifactStore, folder: Path, *, pack: str = PACK) -> tuple[str, str]:
    """The hashes of a tiny bundle and a suite pack called builtin."""
    for path, data in (
        ("bundle/bin/x86_64/engine", "#!/system/bin/sh\necho engine\n"),
        ("bundle/models/tiny.gguf", "weights"),
        ("bundle/bundle.yaml", BUNDLE),
        ("pack/suite.yaml", pack),
        ("pack/smoke/test_smoke.py", "def test_starts():\n    pass\n\n\ndef test_ends():\n    pass\n"),
        ("pack/gpu/test_gpu.py", "def test_gpu():\n    pass\n"),
    ):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(data)
    (folder / "bundle/bin/x86_64/engine").chmod(0o755)
    now = datetime.now(UTC)
    with db.session() as session:
        bundle = bundles.import_bundle(session, store, folder / "bundle", now, "test")
        made = bundles.import_pack(session, store, folder / "pack", now, "test")
    return bundle.hash, made.hash


def start_run(db: Database, **more: object) -> int:
    """A submitted run of the suite smoke on every device."""
    from farm.work.submit import RunRequest, submit

    return submit(db, RunRequest(**{"bundle": "reference", "suites": ("smoke",), **more}))  # type: ignore[arg-type]


def start_attempt(db: Database, store: ArtifactStore, folder: Path) -> tuple[int, int]:
    """A device, a bundle, a pack, a run, and the attempt that the planner made of it: (run, attempt)."""
    from farm.work.planner import Planner
    from farm.work.settings import WorkSettings

    add_device(db, "d1")
    add_bundle_and_pack(db, store, folder)
    run = start_run(db)
    Planner(db, WorkSettings(), lambda _session, _attempt: None).once()
    return run, 1
