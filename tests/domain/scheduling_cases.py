"""Devices and jobs for the tests of scheduling, and the strategies that draw them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from farm.domain.devices import Availability
from farm.domain.jobs import HANDICAP_S
from farm.domain.scheduling import Decisions, PlannedDevice, Shares, WaitingJob
from farm.domain.selectors import parse

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def device(
    id: int,
    soc: str = "A",
    state: Availability = Availability.READY,
    *,
    holder: str | None = None,
    why: str = "",
    **more: object,
) -> PlannedDevice:
    state = Availability.RUNNING if holder else state
    facts = {"soc": soc, "name": f"d{id}"}
    return PlannedDevice(id, f"d{id}", facts, state, why or holder or state.value, holder=holder, **more)  # type: ignore[arg-type]


def job(id: int, wants: str = "*", *, klass: str = "manual", age_s: float = 0, **more: object) -> WaitingJob:
    return WaitingJob(id, klass, NOW - timedelta(seconds=age_s), (parse(wants),), **more)  # type: ignore[arg-type]


def granted(found: Decisions) -> dict[int, int]:
    return {g.id: g.device_id for g in found.grants}


devices = st.builds(
    device,
    st.integers(1, 7),
    st.sampled_from("AB"),
    st.sampled_from([Availability.READY, Availability.READY, Availability.GONE, Availability.NOT_READY]),
    holder=st.sampled_from([None, None, None, "attempt:1", "reservation:2"]),
    hold=st.sampled_from([None, None, None, "paused"]),
    accounts=st.sampled_from([(), ("team:x",)]),
    temperature_c=st.sampled_from([None, 25.0, 40.0]),
    bundle=st.sampled_from([None, "b"]),
    type=st.sampled_from(["phone", "board"]),
)
jobs = st.builds(
    job,
    st.integers(1, 30),
    st.sampled_from(["*", "*", "*", "soc=A", "soc=B", "soc=Z", "not soc=A"]),
    klass=st.sampled_from(list(HANDICAP_S)),
    kind=st.sampled_from(["job", "job", "reservation"]),
    team=st.sampled_from(["x", "y"]),
    accounts=st.sampled_from([(), ("team:x",)]),
    age_s=st.integers(0, 20000).map(float),
    pinned=st.sampled_from([None, None, None, 1, 9]),
    avoid=st.one_of(st.just(frozenset[int]()), st.frozensets(st.integers(1, 4), max_size=3)),
    not_before=st.sampled_from([None, None, NOW + timedelta(seconds=9), NOW - timedelta(seconds=9)]),
    lost_at=st.sampled_from([None, None, None, None, NOW, NOW - timedelta(hours=1)]),
    estimate_s=st.sampled_from([None, 10.0, 900.0]),
    bundle=st.sampled_from([None, "b"]),
)
shares = st.builds(
    Shares,
    weights=st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from([0.5, 1.0, 3.0])),
    limits=st.sampled_from([{}, {"team:x": 1}, {"team:x": 2}]),
)
fleets = st.lists(devices, unique_by=lambda d: d.id, max_size=6)
queues = st.lists(jobs, unique_by=lambda j: j.key, max_size=10)
