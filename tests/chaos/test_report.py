"""The table of what came of the faults: of each pair the last row, and nothing wrong is hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.domain.causes import CAUSES
from farm.domain.outcomes import Blame
from tests.chaos import report
from tests.chaos.faults import FAULTS, blames
from tests.chaos.gates import STEPS
from tests.chaos.waves import FARM, Row

PASSED = ("passed", None, "nobody")
LOST = ("device-lost", "gone", "device")


def row(step: str, *attempts: tuple[str | None, str | None, str | None], wrong: tuple[str, ...] = ()) -> Row:
    return Row("unplugged", step, "before", "1", "passed", attempts, wrong)


def test_the_last_row_of_a_pair_counts_and_what_is_wrong_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAOS_RESULTS", str(tmp_path / "chaos.jsonl"))
    assert report.read() == {}
    report.keep([row("deploy", LOST, LOST, wrong=("it was not tried again",)), row("clean", PASSED)])
    report.keep([row("deploy", LOST, PASSED), row("settle", LOST, PASSED, wrong=("a test passed twice",))])
    found = report.read()
    assert report.cell(found["unplugged", "deploy"]) == "device-lost (gone; device) → ✓"
    assert report.cell(found["unplugged", "clean"]) == "✓"
    assert report.cell(found["unplugged", "settle"]).startswith("✗ ")
    assert report.cell(found.get(("unplugged", "verdict"))) == "not run"
    assert report.text(found).count("\n| `") == len(FAULTS)


def test_what_is_wrong_with_the_whole_farm_is_told_until_a_later_wave_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAOS_RESULTS", str(tmp_path / "chaos.jsonl"))
    report.keep([row("deploy", PASSED), row(FARM, wrong=("leases 1 and 2 overlap on one device",))])
    assert report.text(report.read()).endswith("\n✗ `unplugged`: leases 1 and 2 overlap on one device\n")
    report.keep([row("deploy", PASSED), row(FARM)])
    assert "✗ `unplugged`" not in report.text(report.read())


def test_there_are_at_least_twenty_faults_for_each_of_the_seven_steps() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 20
    assert len(STEPS) == 7


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: str(fault.name))
def test_what_a_fault_spoils_is_never_blamed_on_engine_suite_or_user(fault: object) -> None:
    [found] = [one for one in FAULTS if one is fault]
    assert not blames(found) & {Blame.ENGINE, Blame.SUITE, Blame.USER}
    assert found.spoils <= set(CAUSES)
    if found.per_device:
        assert blames(found) <= {Blame.DEVICE}
