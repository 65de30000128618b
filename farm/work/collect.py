"""Whatever happened, what is known of it is kept: journal, logs and artifacts go to the artifact store."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import select

from farm.adb import health
from farm.domain.journal import Kind, records
from farm.domain.manifests import is_safe_path
from farm.store import tables
from farm.store.artifacts import WrongContent
from farm.work.journal import JournalTail, Shipper
from farm.work.step import Step
from farm.work.supervisor import Supervisor

#: The farm's own files of an attempt → their media type.
OWN = {
    "journal.jsonl": "application/jsonl",
    "runner.log": "text/plain",
    "supervisor.log": "text/plain",
    "logcat.zst": "application/zstd",
    "attempt.json": "application/json",
}
MAX_FILE = 1 << 30
MAX_FILES = 500
MAX_JOURNAL = 256 << 20
#: Longest wait for the temperature after the work, seconds.
HEAT_S = 5.0


def collect(step: Step) -> None:
    """Stop the log stream, ship the rest of the journal, store every file. What cannot be stored is named."""
    Supervisor(step.folder).kill()
    stop_logcat(step)
    _note_heat(step)
    Shipper(step.work, step.id, step.attempt.token, JournalTail(step.folder / "journal.jsonl")).ship_all()
    missing: list[str] = []
    stored = 0
    for name, path, test, media_type in _files(step):
        try:
            stored += _keep(step, name, path, test, media_type)
        except FileNotFoundError:
            if name not in OWN:
                missing.append(name)
        except (OSError, WrongContent) as error:
            missing.append(f"{name} ({error})")
    step.detail["artifacts"] = stored
    if missing:
        step.detail["missing"] = missing[:50]


def stop_logcat(step: Step) -> None:
    stream = step.work.logcats.pop(step.id, None)
    if stream is not None:
        step.say("the log stream to end")
        stream.stop()


def _note_heat(step: Step) -> None:
    """How warm the work has made it; a device that is gone tells nothing."""
    step.note_temperature(health.check(step.device(), timeout_s=HEAT_S).temperature_c)


def _files(step: Step) -> list[tuple[str, Path, str | None, str]]:
    """Name, place, test, media type: the farm's own, what the journal names, what lies in the artifacts' folder."""
    found: dict[str, tuple[str, Path, str | None, str]] = {
        name: (name, step.folder / name, None, media_type) for name, media_type in OWN.items()
    }
    paths: set[str] = set()
    for record in _artifact_records(step.folder / "journal.jsonl"):
        path, name = str(record.get("path") or ""), str(record.get("name") or "")[:300]
        if not is_safe_path(path) or not name or name in OWN or len(found) >= MAX_FILES:
            continue
        test = str(record["test"])[:500] if record.get("test") else None
        found[name] = (
            name,
            step.folder / path,
            test,
            str(record.get("media_type") or "application/octet-stream")[:100],
        )
        paths.add(path)
    root = step.folder / "work" / "artifacts"
    for parent, folders, names in os.walk(root):
        folders.sort()
        for file in sorted(names):
            left = Path(parent, file)
            relative = left.relative_to(step.folder).as_posix()
            name = left.relative_to(root).as_posix()[:300]
            if relative not in paths and name not in found and len(found) < MAX_FILES:
                found[name] = (name, left, None, "application/octet-stream")
    return list(found.values())


def _artifact_records(journal: Path) -> list[dict[str, object]]:
    try:
        if journal.stat().st_size > MAX_JOURNAL:
            return []
        with journal.open("rb") as lines:
            return [r.fields for r in records(lines) if r.kind == Kind.ARTIFACT]
    except FileNotFoundError:
        return []


def _keep(step: Step, name: str, path: Path, test: str | None, media_type: str) -> int:
    """Store one file; 1 when there was something. A path that leads out of the folder is no file of this attempt."""
    if not path.resolve().is_relative_to(step.folder.resolve()):
        raise WrongContent("it leads out of the attempt's folder")
    sha256, size = step.work.artifacts.put_file(path, limit=MAX_FILE)
    if size == 0 and name in OWN:
        return 0
    with step.work.db.session() as session:
        row = session.scalar(
            select(tables.Artifact).where(tables.Artifact.attempt_id == step.id, tables.Artifact.name == name)
        )
        if row is None:
            row = tables.Artifact(attempt_id=step.id, name=name, test_id=test, media_type=media_type)
            session.add(row)
        row.bytes, row.sha256, row.at = size, sha256, step.work.db.now(session)
        step.touch(session)
    return 1
