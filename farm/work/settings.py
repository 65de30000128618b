"""Every time and limit of the work, in one place; tests make them shorter."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkSettings:
    """Seconds unless the name says otherwise."""

    host: str = "local"
    adb_port: int = 0  # 0: a free one, kept in the state folder
    measure_slots: int = 1
    pushes: int = 4  # big pushes at a time
    heartbeat_every_s: float = 2.0  # host and device sightings
    renew_every_s: float = 8.0  # leases: about a third of farm.domain.leases.FENCE
    health_every_s: float = 15.0
    readiness_every_s: float = 5.0
    online_wait_s: float = 30.0  # a step waits so long for a device that is briefly away
    clean_wait_s: float = 45.0  # and cleaning so long, before quarantine
    clean_limit_s: float = 60.0
    planner_tick_s: float = 2.0
    give_up_s: float = 120.0  # a retry waits so long for a device that does not come back
    attempt_limit_s: float = 3600.0
    suite_limit_s: float = 600.0
    silence_limit_s: float = 60.0
    queue_poll_s: float = 0.05
