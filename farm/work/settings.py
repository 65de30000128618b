"""Every time and limit of the work, in one place; tests make them shorter."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class WorkSettings:
    """Seconds unless the name says otherwise."""

    host: str = "local"
    adb_port: int = 0  # 0: a free one, remembered in the state folder
    measure_slots: int = 1
    pushes: int = 4  # big pushes at a time
    heartbeat_every_s: float = 2.0  # host and device sightings
    min_free_bytes: int = 256 << 20  # with less room for its attempts a host is given no work
    renew_every_s: float = 8.0  # leases: a third of farm.domain.leases.FENCE
    health_every_s: float = 5.0  # a whole health check of an idle device
    busy_health_every_s: float = 20.0  # and of one that works: a look costs it some of its time
    online_wait_s: float = 30.0  # a step waits so long for a device that is briefly away
    clean_wait_s: float = 45.0  # and cleaning so long, before quarantine
    clean_limit_s: float = 60.0
    recovery_pace: float = 1.0  # the limits of the recovery ladder are divided by this
    planner_tick_s: float = 2.0
    lead_every_s: float = 2.0  # between two looks for the scheduler's role, and for lost hosts
    give_up_s: float = 120.0  # a retry waits so long for a device that does not come back
    settle_limit_s: float = 300.0  # where a suite names no limit
    suite_limit_s: float = 600.0
    silence_limit_s: float = 60.0
    runner_starts: int = 3  # how often a runner that died is started again in one attempt
    runner_exit_s: float = 30.0  # after its last record, or after a cancel, a runner has so long to go
    journal_poll_s: float = 0.15
    queue_poll_s: float = 0.25  # each look costs a millisecond or two of a core that measures


def from_environment(settings: WorkSettings, environ: Mapping[str, str] | None = None) -> WorkSettings:
    """With what FARM_WORK says (a JSON object of fields above): for benchmarks and tests, which cannot wait so long."""
    text = (os.environ if environ is None else environ).get("FARM_WORK")
    return replace(settings, **json.loads(text)) if text else settings
