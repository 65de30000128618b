"""The journal on its way from the attempt's folder into the store."""

from __future__ import annotations

import logging
from pathlib import Path

from sqlalchemy.exc import OperationalError

from farm.domain.journal import MAX_LINE, Kind, Record, parse_line
from farm.store import leases, results, tables
from farm.work.context import Work

log = logging.getLogger(__name__)

#: Most bytes read at once: a batch is one transaction.
_STEP = 4 << 20


class JournalTail:
    """Follows a journal that somebody else writes. `end` is the last end record, unless the runner started anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self._skipping = False
        self.starts = 0
        self.end: Record | None = None

    def has_ended(self) -> bool:
        """Whether the runner wrote its last word."""
        return self.end is not None

    def read(self) -> list[Record]:
        """The whole records that came since the last call; a torn last line waits for its rest."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read(_STEP)
        except FileNotFoundError:
            return []
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        found: list[Record] = []
        for line in lines:
            record = None if self._skipping else parse_line(line)
            self._skipping = False
            if record is not None:
                found.append(record)
                self._notice(record)
        if len(self._rest) > MAX_LINE:  # no record is so long: wait for its end with empty hands
            self._rest, self._skipping = b"", True
        return found

    def _notice(self, record: Record) -> None:
        if record.kind == Kind.START:
            self.starts += 1
            self.end = None
        elif record.kind == Kind.END:
            self.end = record


class Shipper:
    """Brings what a tail reads into the store; while the database is away it keeps the records and goes on."""

    def __init__(self, work: Work, attempt_id: int, token: int, tail: JournalTail) -> None:
        self._work, self._attempt_id, self._token, self.tail = work, attempt_id, token, tail
        self._pending: list[Record] = []

    def ship(self) -> bool:
        """Read once and store; False when nothing came."""
        self._pending += self.tail.read()
        if not self._pending:
            return False
        try:
            with self._work.db.session() as session:
                attempt = session.get_one(tables.Attempt, self._attempt_id)
                late = leases.of_attempt(session, self._attempt_id, self._token) is None
                results.apply(session, attempt, self._pending, self._work.db.now(session), late=late)
        except OperationalError as error:
            log.warning("attempt %d: the journal waits for the database: %s", self._attempt_id, error)
            return False
        self._pending = []
        return True

    def ship_all(self) -> None:
        """Everything that the file holds now."""
        while self.ship():
            pass
