"""Backup and restore as a process: `python -m farm.backup save|restore FILE [--state DIR] [--files]`."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from farm.domain.words import count
from farm.server import AlreadyRunning, lock
from farm.settings import Settings, SettingsError, load
from farm.store import backup
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database


def main(argv: list[str] | None = None) -> int:
    """0 done, 2 not done."""
    parser = argparse.ArgumentParser(prog="python -m farm.backup", description="A farm in one file.")
    parser.add_argument("what", choices=("save", "restore"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--files", action="store_true", help="the artifacts too, not only their list")
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        settings = load(state=options.state)
        file = options.file.expanduser().absolute()
        words = _save(settings, file, options.files) if options.what == "save" else _restore(settings, file)
    except (SettingsError, AlreadyRunning, backup.BackupError, OSError) as error:
        print(f"farm: {error}", file=sys.stderr)
        return 2
    except SQLAlchemyError as error:
        print(f"farm: the database: {str(error).splitlines()[0]}", file=sys.stderr)
        return 2
    print(words)
    return 0


def _save(settings: Settings, file: Path, files: bool) -> str:
    if settings.is_sqlite and not Path(settings.database.removeprefix("sqlite:///")).exists():
        raise SettingsError(f"there is no farm in {settings.state}: name its folder with --state")
    db = Database(settings.database)
    try:
        head = backup.save(db, ArtifactStore(settings.artifacts), file, files=files)
    finally:
        db.close()
    lacking = f" {len(head['lacking'])} of them were not in the store." if head["lacking"] else ""
    what = "with their files" if files else "as a list: back up the artifact store too"
    return f"{file}: {_counted(head)}, {count(len(head['artifacts']), 'artifact')} {what}.{lacking}"


def _restore(settings: Settings, file: Path) -> str:
    settings.state.mkdir(parents=True, exist_ok=True)
    with lock(settings.state / "server.lock"):
        db = Database(settings.database)
        try:
            db.migrate()
            head = backup.restore(db, ArtifactStore(settings.artifacts), file)
        finally:
            db.close()
    return f"restored {_counted(head)} of {head['at']}. Tokens are those of then; start the farm."


def _counted(head: dict[str, object]) -> str:
    rows = head["tables"]
    assert isinstance(rows, dict)
    return (
        f"{count(rows['runs'], 'run')}, {count(rows['devices'], 'device')}, {count(sum(rows.values()), 'row')} in all"
    )


if __name__ == "__main__":
    sys.exit(main())
