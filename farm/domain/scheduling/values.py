"""What goes into a plan and what comes out: small frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from farm.domain.devices import Availability, DeviceFacts, availability, usable_once
from farm.domain.selectors import Selector

#: A device in one of these states is not worth waiting for when another one matches.
AWAY = frozenset({Availability.GONE, Availability.STALE, Availability.QUARANTINED, Availability.MAINTENANCE})

#: What waits is named by its kind and its id: ("job", 17), ("reservation", 4).
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """Something that waits for a device: a job, or a person's reservation (`kind`).

    `wants`: selectors that must all match. `pinned`: the one device of a matrix. `accounts`: the quotas that it counts
    against once it holds a device ("team:vision", "token:7").
    """

    id: int
    klass: str
    queued_at: datetime
    wants: tuple[Selector, ...]
    kind: str = "job"
    team: str = "default"
    pinned: int | None = None
    avoid: frozenset[int] = frozenset()  # devices that it keeps away from while another usable one matches
    not_before: datetime | None = None
    bundle: str | None = None
    lost_at: datetime | None = None  # a retry: when its last attempt ended
    estimate_s: float | None = None  # None: never seen before
    accounts: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        return self.kind, self.id

    def matches(self, device: PlannedDevice) -> bool:
        if self.pinned is not None:
            return device.id == self.pinned
        return all(selector.matches(device.facts) for selector in self.wants)


@dataclass(frozen=True, slots=True)
class PlannedDevice:
    """A device as the plan sees it at one moment. Open leases show in `state` and `holder`."""

    id: int
    name: str
    facts: Mapping[str, str]
    state: Availability
    why: str
    type: str | None = None
    bundle: str | None = None  # on it already
    temperature_c: float | None = None
    infra_errors: int = 0
    used_s: float = 0.0  # wear: time under leases, ever
    holder: str | None = None
    held_by: str | None = None  # its holder as people know it: run, user, team
    accounts: tuple[str, ...] = ()  # quotas that its holder counts against
    until: datetime | None = None  # when its holder is expected to be done; None: not known
    hold: str | None = None  # why nothing may be granted on it now (pause, drain); what runs goes on
    once: str | None = None  # what must happen before it is used again; None: it is not away

    @classmethod
    def of(cls, device: DeviceFacts, now: datetime, **more: object) -> PlannedDevice:
        """The device's facts judged at `now`; `more` names further fields."""
        state, why = availability(device, now)
        return cls(
            id=device.id,
            name=device.name,
            facts=device.facts(),
            state=state,
            why=why,
            type=device.type,
            bundle=device.last_bundle,
            temperature_c=device.readiness.temperature_c,
            infra_errors=device.infra_errors,
            holder=device.lease_holder,
            held_by=device.held_by,
            once=usable_once(device, now) if state in AWAY else None,
            **more,  # type: ignore[arg-type]
        )

    @property
    def away(self) -> bool:
        """A retry waits for it no longer than a while. A host that is away comes back, and its devices with it."""
        return self.state in AWAY and self.state is not Availability.STALE

    @property
    def usable(self) -> bool:
        """It works, or could, or will once its holder is done."""
        return self.state not in AWAY and self.hold is None

    @property
    def idle(self) -> bool:
        """It can be granted now."""
        return self.state is Availability.READY and self.hold is None


@dataclass(frozen=True, slots=True)
class Shares:
    """Who is entitled to what. A team that is not named weighs 1; an account that is not named has no limit."""

    weights: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)  # account -> devices held at once


@dataclass(frozen=True, slots=True)
class Grant:
    kind: str
    id: int
    device_id: int
    estimate_s: float | None = None  # what was known of its duration

    @property
    def key(self) -> Key:
        return self.kind, self.id


@dataclass(frozen=True, slots=True)
class GiveUp:
    """A retry whose device did not come back in time."""

    kind: str
    id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Decisions:
    """What follows from an event: who starts where, and which retries are given up."""

    grants: tuple[Grant, ...] = ()
    give_ups: tuple[GiveUp, ...] = ()


# Events: what changes between two plans.


@dataclass(frozen=True, slots=True)
class Arrived:
    """It waits now; or what waits under the same key has changed."""

    job: WaitingJob


@dataclass(frozen=True, slots=True)
class Left:
    """It waits no more: cancelled, or started by somebody else."""

    key: Key


@dataclass(frozen=True, slots=True)
class DeviceSeen:
    """A device is new, or something about it has changed."""

    device: PlannedDevice


@dataclass(frozen=True, slots=True)
class DeviceForgotten:
    device_id: int


@dataclass(frozen=True, slots=True)
class SharesChanged:
    shares: Shares


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Nothing but the time has changed."""


Event = Arrived | Left | DeviceSeen | DeviceForgotten | SharesChanged | TimePassed
