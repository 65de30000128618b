"""Cancel, at whatever moment: what was seen is kept, and the device is given back clean."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.domain.outcomes import Phase
from farm.store import tables
from farm.work.submit import cancel
from tests.waiting import eventually
from tests.work.real_farm import LONG_S, RealFarm


@pytest.fixture(scope="module")
def farm(bundle_folder: Path) -> Iterator[RealFarm]:
    """One farm with one device for every test here: each must leave it as it was."""
    made = RealFarm()
    try:
        made.add_bundle(bundle_folder)
        made.add_pack(Path(__file__).with_name("pack"))
        made.add_device("rk3568", "V1")
        made.start()
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("phase", [Phase.PRECHECK, Phase.DEPLOY, Phase.EXECUTE, Phase.COLLECT, Phase.CLEAN])
def test_cancel_in_every_step_leaves_evidence_and_a_clean_device(farm: RealFarm, phase: Phase) -> None:
    farm.ready(1)
    suites = ("steady",) if phase is Phase.EXECUTE else ("smoke",)
    run = farm.submit(suites=suites)
    order = [p.value for p in Phase]

    def reached() -> bool:
        return order.index(farm.phase(run) or "planned") >= order.index(phase.value)

    eventually(reached, LONG_S, interval=0.005)
    cancel(farm.db, run, "ada")
    outcome = farm.ended(run)
    assert outcome in ("cancelled", "passed") if phase is not Phase.EXECUTE else outcome == "cancelled"
    [attempt] = farm.attempts(run)
    assert {"logcat.zst"} <= set(farm.artifacts_of(attempt.id)) or phase is Phase.PRECHECK
    with farm.db.read() as session:
        clean = session.get_one(tables.AttemptPhase, (attempt.id, "clean"))
    assert clean.detail["clean"] == "verified"
    assert farm.open_leases() == 0


def test_a_cancel_while_the_device_cools_ends_the_wait(farm: RealFarm) -> None:
    farm.ready(1)
    farm.fault("V1", "heat", to_c=80)
    run = farm.submit()

    def cooling() -> bool:
        return any("to cool to" in (a.waiting_for or "") for a in farm.attempts(run))

    eventually(cooling, LONG_S)
    cancel(farm.db, run, "ada")
    assert farm.ended(run) == "cancelled"
    assert farm.open_leases() == 0
    farm.fault("V1", "heat", watts=0)
