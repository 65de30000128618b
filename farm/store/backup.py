"""A farm in one file: every row of one moment, and which artifacts belong to them.

    <file>   a tar archive, zstd-compressed:
        farm.json              format, schema revision, when, rows per table, artifacts (SHA-256 → bytes)
        tables/NAME.jsonl      one JSON object per row
        artifacts/<SHA-256>    the files themselves, if they were asked for

All rows come from one snapshot (a read transaction on SQLite, REPEATABLE READ on PostgreSQL), so that they agree with
each other however busy the farm is; whatever file a row names was stored before the row was written. The format knows
no dialect: a farm of one machine can be restored into PostgreSQL. The workflow engine's own tables are left out:
attempts that were under way are entered again (`Workflows.repair`).

Numbers leap at a restore: what was handed out after the backup (lease tokens, change ids) must not come again.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import zstandard
from sqlalchemy import Connection, LargeBinary, Table, func, insert, select, text, update
from sqlalchemy.orm import Session

from farm.store import tables
from farm.store.artifacts import ArtifactStore
from farm.store.base import UtcDateTime
from farm.store.bus import touch
from farm.store.db import Database
from farm.store.migrations import revision_of

FORMAT = 1
#: Rows that one statement inserts.
BATCH = 500
#: More grants, or changes, than a farm makes between two backups.
LEAP = 1_000_000
#: Largest description and largest line that a restore reads, bytes.
MAX_HEAD = 256 << 20
MAX_LINE = 64 << 20


class BackupError(RuntimeError):
    """A backup that cannot be made, or a file that cannot be restored: says what to do."""


def save(db: Database, store: ArtifactStore, path: Path, *, files: bool = False) -> dict[str, Any]:
    """Write the backup (whole or not at all); returns what farm.json says. `files`: the artifacts too."""
    partial = path.with_name(path.name + ".part")
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".backup-") as folder:
            head = _dump(db, store, Path(folder))
            with zstandard.open(partial, "wb") as out, tarfile.open(fileobj=out, mode="w|") as archive:
                _add(archive, "farm.json", json.dumps(head, indent=1).encode())
                for name in head["tables"]:
                    archive.add(Path(folder, name), f"tables/{name}.jsonl")
                for sha256, size in head["artifacts"].items() if files else ():
                    with store.open(sha256) as source:
                        info = tarfile.TarInfo(f"artifacts/{sha256}")
                        info.size = size
                        archive.addfile(info, source)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return head


def restore(db: Database, store: ArtifactStore, path: Path) -> dict[str, Any]:
    """Fill an empty, migrated database; returns what farm.json says. Raises BackupError, and then nothing is kept."""
    try:
        with zstandard.open(path, "rb") as source, tarfile.open(fileobj=source, mode="r|") as archive:
            return _load(db, store, archive)
    except (zstandard.ZstdError, tarfile.TarError, ValueError, KeyError, EOFError) as error:
        raise BackupError(f"{path} is no backup of a farm, or is damaged: {error}") from None


def problems(session: Session, store: ArtifactStore) -> list[str]:
    """Where the rows do not agree with each other or with the artifact store; empty: they do."""
    found = [f"artifact {h} is not in the store" for h in artifacts(session) if not store.has(h)]
    a, j, lease_ = tables.Attempt, tables.Job, tables.Lease
    for row in session.scalars(select(a).where(a.phase != "done")):
        if session.scalar(select(lease_.id).where(lease_.attempt_id == row.id, lease_.token == row.token)) is None:
            found.append(f"attempt {row.id} is under way without a lease")
        if session.get_one(j, row.job_id).state != "running":
            found.append(f"attempt {row.id} is under way, its job is not")
    for job_id in session.scalars(select(j.id).where(j.state == "running")):
        if session.scalar(select(a.id).where(a.job_id == job_id, a.phase != "done")) is None:
            found.append(f"job {job_id} runs without an attempt")
    for lease in session.scalars(select(lease_).where(lease_.ended_at.is_(None))):
        device = session.get_one(tables.Device, lease.device_id)
        if lease.token > device.last_token:
            found.append(f"lease {lease.id} has a token that its device has not given")
    return found


def artifacts(session: Session) -> dict[str, int]:
    """Every file that a row names, with its size."""
    rows = session.execute(select(tables.Artifact.sha256, tables.Artifact.bytes))
    named = {row.sha256: row.bytes for row in rows}
    for table in (tables.Bundle, tables.SuitePack):
        for manifest in session.scalars(select(table.manifest)):
            named |= {entry["sha256"]: entry["size"] for entry in manifest["content"].values()}
    return named


def _dump(db: Database, store: ArtifactStore, folder: Path) -> dict[str, Any]:
    rows: dict[str, int] = {}
    with db.snapshot() as session:
        connection = session.connection()
        now = db.now(session)
        named = artifacts(session)
        for table in tables.Base.metadata.sorted_tables:
            with (folder / table.name).open("w") as out:
                rows[table.name] = _dump_table(connection, table, out)
        revision = revision_of(connection)
    lacking = [sha256 for sha256 in named if not store.has(sha256)]
    return {
        "format": FORMAT,
        "revision": revision,
        "at": now.isoformat(),
        "tables": rows,
        "artifacts": {sha256: size for sha256, size in named.items() if sha256 not in lacking},
        "lacking": lacking,  # files that were not in the store even then
    }


def _dump_table(connection: Connection, table: Table, out: IO[str]) -> int:
    count = 0
    for row in connection.execute(select(table)).mappings():
        out.write(json.dumps({k: _plain(v) for k, v in row.items()}, separators=(",", ":")) + "\n")
        count += 1
    return count


def _plain(value: Any) -> Any:
    """A column's value as JSON has it: times in ISO 8601, bytes in base 64."""
    if isinstance(value, datetime):
        return value.isoformat()
    return b64encode(value).decode() if isinstance(value, bytes) else value


def _readers(table: Table) -> dict[str, Callable[[str], Any]]:
    """How the columns of a table that JSON has no type for are read back."""
    found: dict[str, Callable[[str], Any]] = {}
    for column in table.columns:
        if isinstance(column.type, UtcDateTime):
            found[column.name] = datetime.fromisoformat
        elif isinstance(column.type, LargeBinary):
            found[column.name] = b64decode
    return found


def _load(db: Database, store: ArtifactStore, archive: tarfile.TarFile) -> dict[str, Any]:
    by_name = {table.name: table for table in tables.Base.metadata.sorted_tables}
    head: dict[str, Any] | None = None
    with db.session() as session:
        connection = session.connection()
        for member in archive:
            source = archive.extractfile(member)
            if source is None:
                raise BackupError(f"{member.name} is no file")
            kind, _, name = member.name.partition("/")
            if member.name == "farm.json":
                head = _checked(json.loads(source.read(MAX_HEAD)), connection)
            elif head is None:
                raise BackupError("it does not begin with farm.json")
            elif kind == "tables":
                _load_table(connection, by_name[name.removesuffix(".jsonl")], source)
            elif kind == "artifacts":
                store.put(source, expected=name)
        if head is None:
            raise BackupError("it has no farm.json")
        _leap(session, db.now(session))
        wrong = problems(session, store)
        if wrong:
            more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
            raise BackupError(
                f"what was restored does not agree with itself: {'; '.join(wrong[:5])}{more}. Point FARM_ARTIFACTS at "
                "the store of the farm that was backed up, or make the backup with --files"
            )
    return head


def _checked(head: Mapping[str, Any], connection: Connection) -> dict[str, Any]:
    if head["format"] != FORMAT:
        raise BackupError(f"it has format {head['format']}, this version reads {FORMAT}")
    here = revision_of(connection)
    if head["revision"] != here:
        raise BackupError(
            f"it was made with schema {head['revision']}, here is {here}: restore it with the version that made it, "
            "then upgrade"
        )
    for table in (tables.Run, tables.Device, tables.Bundle):
        if connection.execute(select(func.count()).select_from(table)).scalar():
            raise BackupError(f"the database is not empty (it has {table.__tablename__}): restore into a new one")
    for table_ in reversed(tables.Base.metadata.sorted_tables):  # what a first start wrote
        connection.execute(table_.delete())
    return dict(head)


def _load_table(connection: Connection, table: Table, source: IO[bytes]) -> None:
    readers = _readers(table)
    batch: list[dict[str, Any]] = []
    for row in _rows(source):
        for name, read in readers.items():
            if row.get(name) is not None:
                row[name] = read(row[name])
        batch.append(row)
        if len(batch) == BATCH:
            connection.execute(insert(table), batch)
            batch = []
    if batch:
        connection.execute(insert(table), batch)
    key = table.primary_key.columns.values()
    if connection.dialect.name == "postgresql" and len(key) == 1 and key[0].autoincrement and key[0].name == "id":
        connection.execute(
            text(f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), coalesce(max(id), 0) + 1, false) "
                 f"FROM \"{table.name}\"")
        )  # fmt: skip


def _rows(source: IO[bytes]) -> Iterator[dict[str, Any]]:
    while line := source.readline(MAX_LINE):
        yield json.loads(line)


def _leap(session: Session, now: datetime) -> None:
    """Numbers that were given away after the backup are not given away again."""
    session.execute(update(tables.Device).values(last_token=tables.Device.last_token + LEAP))
    newest: int = session.scalar(select(func.max(tables.Change.id))) or 0
    session.add(tables.Change(id=newest + LEAP, at=now, topic="farm", ref="restored", run_id=None, device_id=None))
    session.flush()
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text("SELECT setval(pg_get_serial_sequence('changes', 'id'), :id)"), {"id": newest + LEAP})
    touch(session, "farm", "restored", at=now)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))
