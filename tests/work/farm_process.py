"""A farm of its own in a process of its own, for tests that kill it. No web server: agent, planner and workflows.

    python tests/work/farm_process.py STATE ADB_PORT [SETTINGS]

SETTINGS is a JSON object: fields of `WorkSettings` that differ from the ones here. It prints `up` and ends when its
standard input does (or when it is killed).
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

#: Shorter than in real life, long enough for three devices on two loaded cores.
SETTINGS: dict[str, Any] = {
    "health_every_s": 1.0,
    "planner_tick_s": 0.5,
    "online_wait_s": 8.0,
    "clean_wait_s": 8.0,
    "give_up_s": 30.0,
}


def main(state: Path, adb_port: int, different: dict[str, Any]) -> None:
    from farm.store.artifacts import ArtifactStore
    from farm.store.db import Database, sqlite_url
    from farm.work.host import HostWork
    from farm.work.settings import WorkSettings

    logging.basicConfig(filename=state / "farm.log", level=logging.INFO)
    settings = WorkSettings(adb_port=adb_port, **{**SETTINGS, **different})
    db = Database(sqlite_url(state / "farm.sqlite"))
    host = HostWork(db, ArtifactStore(state / "artifacts"), state, settings, state / "devices.yaml")
    host.start()
    print("up", flush=True)
    sys.stdin.read()
    host.stop()
    db.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]) if len(sys.argv) > 3 else {})
