"""Clusters are formed anew when incidents of a new kind came: by the server that plans, in a process of its own.

Grouping takes seconds of a processor and a hundred megabytes (scikit-learn): `python -m farm.work.grouping` reads texts
as JSON and writes a number per text; the server goes on answering meanwhile.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time

from farm.evidence import clusters as rules
from farm.store import clusters
from farm.store.db import Database

log = logging.getLogger(__name__)

#: Longest wait for one grouping; between two looks for new signatures.
LIMIT_S = 300.0
EVERY_S = 30.0


class Grouping:
    """A thread that looks for new signatures while this server has the scheduler's role."""

    def __init__(self, db: Database, every_s: float = EVERY_S) -> None:
        self._db, self._every_s = db, every_s
        self._grouped: frozenset[str] = frozenset()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._stop.clear()
        self._thread = threading.Thread(target=self._loop, name="grouping", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(10)

    def _loop(self) -> None:
        while not self._stop.wait(self._every_s):
            try:
                self.once()
            except Exception:
                log.exception("incidents could not be grouped; trying again")

    def once(self) -> int:
        """Sign what has no signature yet, and group if there are new ones; how many signatures moved."""
        signed = clusters.BATCH
        while signed == clusters.BATCH and not self._stop.is_set():
            with self._db.session() as session:
                signed = clusters.sign_old(session)
        with self._db.read() as session:
            found = clusters.candidates(session)
        keys = list(found.texts)
        if not frozenset(keys) - self._grouped:
            return 0
        labels = self._labels(list(found.texts.values()))
        if labels is None:
            return 0
        moves = rules.settle(keys, labels, found.clusters, found.kept)
        with self._db.session() as session:
            moved = clusters.gather(session, moves, self._db.now(session))
        self._grouped = frozenset(keys)
        return moved

    def _labels(self, texts: list[str]) -> list[int] | None:
        """What the other process says; None when the farm stops meanwhile."""
        process = subprocess.Popen(
            [sys.executable, "-m", "farm.work.grouping"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        question: bytes | None = json.dumps(texts).encode()
        end = time.monotonic() + LIMIT_S
        try:
            while True:
                try:
                    answer, errors = process.communicate(question, timeout=0.5)
                    break
                except subprocess.TimeoutExpired:
                    question = None  # it was taken: only the answer is waited for
                    if self._stop.is_set():
                        return None
                    if time.monotonic() > end:
                        raise TimeoutError(f"grouping {len(texts)} signatures took more than {LIMIT_S:g} s") from None
        finally:
            process.kill()
            process.wait()
        if process.returncode != 0:
            raise RuntimeError(f"grouping ended with {process.returncode}: {errors.decode(errors='replace')[-1000:]}")
        return [int(label) for label in json.loads(answer)]


def main() -> int:
    """The other process: nobody waits for it, so everybody else goes first."""
    os.nice(10)
    print(json.dumps(rules.group(json.load(sys.stdin))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
