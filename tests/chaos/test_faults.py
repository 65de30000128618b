"""Faults in every step of an attempt: one outcome each, the right blame, no lease doubled, no result missing or twice.

The sample here runs with every `make test`; all faults in all steps are slow (CHAOS_SEED chooses others).
`python -m tests.chaos.report` shows what came of the last ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from farm.domain.outcomes import Phase
from tests.chaos import report
from tests.chaos.farm import ChaosLab
from tests.chaos.faults import BY_NAME, FAULTS, Fault
from tests.chaos.waves import Row, cases_of, wave, waves
from tests.postgres import PostgresServer

SEED = os.environ.get("CHAOS_SEED", "1")


def good(rows: Sequence[Row]) -> None:
    report.keep(rows)
    wrong = [
        f"{row.fault} at {row.step} ({row.where}, seed {row.seed}): {words}" for row in rows for words in row.wrong
    ]
    assert not wrong, "\n".join(wrong)


@contextmanager
def lab_for(fault: Fault, bundle: Path) -> Iterator[ChaosLab]:
    postgres = PostgresServer(listen="*")
    try:
        with ChaosLab(
            postgres,
            bundle=bundle,
            net=fault.lab == "net",
            small_disk=fault.lab == "disk",
            clock=fault.lab == "clock",
        ) as lab:
            yield lab
    finally:
        postgres.close()


def test_a_sample_of_faults_spoils_no_result(bundle_folder: Path) -> None:
    postgres = PostgresServer()
    try:
        with ChaosLab(postgres, 3, bystander=False, servers=1, bundle=bundle_folder) as lab:
            devices = [("rebooted", Phase.DEPLOY), ("offline", Phase.EXECUTE), ("battery-low", Phase.PRECHECK)]
            parts = [(BY_NAME[f], cases_of(BY_NAME[f], [step], SEED, n + 1)) for n, (f, step) in enumerate(devices)]
            good(waves(lab, parts, SEED))
            good(wave(lab, BY_NAME["agent-killed"], SEED, [Phase.PRECHECK, Phase.EXECUTE, Phase.CLEAN]))
    finally:
        postgres.close()


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_in_every_step_of_an_attempt(fault: Fault, bundle_folder: Path) -> None:
    with lab_for(fault, bundle_folder) as lab:
        good(wave(lab, fault, SEED))
