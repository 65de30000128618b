"""The journal on its way from the attempt's folder into the store."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from farm.domain.journal import MAX_LINE, Kind, Record, parse_line
from farm.store import leases, results, tables
from farm.work.context import Work
from farm.work.step import AWAY, Stopping

log = logging.getLogger(__name__)

#: Most bytes read at once: a batch is one transaction.
_STEP = 4 << 20
#: `ship_all` goes on so long while the database is away, with this pause between two tries.
_PATIENCE_S, _PAUSE_S = 30.0, 0.5


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
        """Read once and store; False when nothing came, or could be stored: that kept for the next."""
        try:
            return self._ship()
        except AWAY as error:
            self._note(error)
            return False

    def ship_all(self) -> None:
        """Everything that the file holds now: nobody comes after this. Raises Stopping, and when the database is away
        for too long."""
        end = time.monotonic() + _PATIENCE_S
        while True:
            try:
                if not self._ship():
                    return
            except AWAY as error:
                self._note(error)
                if time.monotonic() >= end:
                    raise
                if self._work.stopping.wait(_PAUSE_S):
                    raise Stopping from None

    def _ship(self) -> bool:
        self._pending += self.tail.read()
        if not self._pending:
            return False
        with self._work.db.session() as session:
            attempt = session.get_one(tables.Attempt, self._attempt_id)
            late = leases.of_attempt(session, self._attempt_id, self._token) is None
            results.apply(session, attempt, self._pending, self._work.db.now(session), late=late)
        self._pending = []
        return True

    def _note(self, error: Exception) -> None:
        log.warning("attempt %d: the journal waits for the database: %s", self._attempt_id, error)
