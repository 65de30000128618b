"""What an attempt left in its folder, on its way into the artifact store: the farm's own files and the suite's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from farm.domain.journal import Kind, Record, records
from farm.domain.manifests import is_safe_path
from farm.store import tables
from farm.store.artifacts import WrongContent
from farm.store.bus import touch
from farm.work.context import Work

JOURNAL, LOGCAT = "journal.jsonl", "logcat.zst"
#: The farm's own files of an attempt → their media type.
OWN = {
    JOURNAL: "application/jsonl",
    "runner.log": "text/plain",
    "supervisor.log": "text/plain",
    LOGCAT: "application/zstd",
    "attempt.json": "application/json",
}
MAX_FILE = 1 << 30
MAX_FILES = 500
MAX_JOURNAL = 256 << 20


@dataclass(frozen=True, slots=True)
class Left:
    """One file: its name among the attempt's artifacts, where it lies, whose test's it is."""

    name: str
    path: Path
    test: str | None
    media_type: str


@dataclass(frozen=True, slots=True)
class Kept:
    """How many files were stored, and which could not be, with why."""

    stored: int
    missing: tuple[str, ...]


def keep(work: Work, attempt: tables.Attempt, run_id: int) -> Kept:
    """Store every file of the attempt's folder; doing so twice is harmless. What cannot be stored is named."""
    stored, missing = 0, []
    for left in _files(work.attempt_dir(attempt.id)):
        try:
            stored += _store(work, attempt, run_id, left)
        except FileNotFoundError:
            if left.name not in OWN:
                missing.append(left.name)
        except (OSError, WrongContent) as error:
            missing.append(f"{left.name} ({error})")
    return Kept(stored, tuple(missing))


def journal_of(folder: Path) -> list[Record]:
    """The whole records of the folder's journal; none where there is no journal, or one of no sane size."""
    try:
        if (folder / JOURNAL).stat().st_size > MAX_JOURNAL:
            return []
        with (folder / JOURNAL).open("rb") as lines:
            return list(records(lines))
    except FileNotFoundError:
        return []


def _files(folder: Path) -> list[Left]:
    """The farm's own, what the journal names, what lies in the artifacts' folder."""
    found = {name: Left(name, folder / name, None, media_type) for name, media_type in OWN.items()}
    paths: set[str] = set()
    for record in journal_of(folder):
        if record.kind != Kind.ARTIFACT:
            continue
        path, name = str(record.fields.get("path") or ""), str(record.fields.get("name") or "")[:300]
        if not is_safe_path(path) or not name or name in OWN or len(found) >= MAX_FILES:
            continue
        test = str(record.fields["test"])[:500] if record.fields.get("test") else None
        media_type = str(record.fields.get("media_type") or "application/octet-stream")[:100]
        found[name] = Left(name, folder / path, test, media_type)
        paths.add(path)
    root = folder / "work" / "artifacts"
    for parent, folders, names in os.walk(root):
        folders.sort()
        for file in sorted(names):
            left = Path(parent, file)
            relative = left.relative_to(folder).as_posix()
            name = left.relative_to(root).as_posix()[:300]
            if relative not in paths and name not in found and len(found) < MAX_FILES:
                found[name] = Left(name, left, None, "application/octet-stream")
    return list(found.values())


def _store(work: Work, attempt: tables.Attempt, run_id: int, left: Left) -> int:
    """Store one file; 1 when there was something. A path that leads out of the folder is no file of this attempt."""
    if not left.path.resolve().is_relative_to(work.attempt_dir(attempt.id).resolve()):
        raise WrongContent("it leads out of the attempt's folder")
    sha256, size = work.artifacts.put_file(left.path, limit=MAX_FILE)
    if size == 0 and left.name in OWN:
        return 0
    with work.db.session() as session:
        a = tables.Artifact
        row = session.scalar(select(a).where(a.attempt_id == attempt.id, a.name == left.name))
        if row is None:
            row = a(attempt_id=attempt.id, name=left.name, test_id=left.test, media_type=left.media_type)
            session.add(row)
        now = work.db.now(session)
        row.bytes, row.sha256, row.at = size, sha256, now
        touch(session, "attempt", attempt.id, at=now, run_id=run_id, device_id=attempt.device_id)
    return 1
