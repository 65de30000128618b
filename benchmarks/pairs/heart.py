"""An agent's heart alone, in a process of its own: it keeps the places of a host fresh until it is stopped or killed.

python -m benchmarks.pairs.heart DATABASE_URL STATE HOST
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.pairs.server import heart
from farm.store.db import Database


def main(url: str, state: str, host: str) -> None:
    db = Database(url)
    beating = heart(db, Path(state), host)
    beating.start()
    print("beats", flush=True)
    sys.stdin.read()
    beating.stop()
    db.close()


if __name__ == "__main__":
    main(*sys.argv[1:4])
