"""Faults in every step of an attempt: one outcome each, the right blame, no lease doubled, no result missing or twice.

The sample here runs with every `make test`; all faults in all steps are slow (CHAOS_SEED chooses others).
`python -m tests.chaos.report` shows what came of the last ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from farm.domain.outcomes import Phase
from tests.chaos import report
from tests.chaos.farm import ChaosLab
from tests.chaos.faults import BY_NAME, FAULTS
from tests.chaos.waves import Row, cases_of, wave, waves
from tests.postgres import PostgresServer

#: Kinds of labs: each is built once, and its faults follow one another.
KINDS = ("plain", "hard")
SEED = os.environ.get("CHAOS_SEED", "1")


def good(rows: Sequence[Row]) -> None:
    report.keep(rows)
    wrong = [
        f"{row.fault} at {row.step} ({row.where}, seed {row.seed}): {words}" for row in rows for words in row.wrong
    ]
    assert not wrong, "\n".join(wrong)


class Labs:
    """A lab per kind, for as long as the kind is wanted: building one takes longer than most faults."""

    def __init__(self, bundle: Path) -> None:
        self._bundle = bundle
        self._kind: str | None = None
        self._stack = ExitStack()
        self._lab: ChaosLab | None = None

    @contextmanager
    def of(self, kind: str) -> Iterator[ChaosLab]:
        """The lab; it is given up when the block fails, for nobody knows what is broken then."""
        if self._lab is None or kind != self._kind:
            self.close()
            postgres = PostgresServer(listen="*")
            self._stack.callback(postgres.close)
            lab = self._stack.enter_context(ChaosLab(postgres, bundle=self._bundle, hard=kind == "hard"))
            self._lab, self._kind = lab, kind
        try:
            assert self._lab is not None
            yield self._lab
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._lab = None
        self._stack.close()


@pytest.fixture(scope="module")
def labs(bundle_folder: Path) -> Iterator[Labs]:
    made = Labs(bundle_folder)
    yield made
    made.close()


def test_a_sample_of_faults_spoils_no_result(bundle_folder: Path) -> None:
    postgres = PostgresServer()
    try:
        with ChaosLab(postgres, 3, bystander=False, servers=1, bundle=bundle_folder) as lab:
            chosen = [("unplugged", Phase.DEPLOY), ("hot", Phase.SETTLE), ("rebooted", Phase.EXECUTE)]
            faults = [(replace(BY_NAME[name], hold_s=(3.0, 5.0)), step) for name, step in chosen]
            parts = [(fault, cases_of(fault, [step], SEED, n + 1)) for n, (fault, step) in enumerate(faults)]
            good(waves(lab, parts, SEED, step_s=1.0))
            good(wave(lab, BY_NAME["agent-killed"], SEED, [Phase.PRECHECK, Phase.COLLECT, Phase.CLEAN]))
    finally:
        postgres.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", [fault.name for kind in KINDS for fault in FAULTS if fault.lab == kind])
def test_a_fault_in_every_step_of_an_attempt(name: str, labs: Labs) -> None:
    fault = BY_NAME[name]
    with labs.of(fault.lab) as lab:
        good(wave(lab, fault, SEED))
