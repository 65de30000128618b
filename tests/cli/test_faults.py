"""A fault is looked at before anything starts, by the same rules as the engine's own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from farm.cli import faults
from farm.cli.errors import CliError
from farm.domain.outcomes import ExitCode
from tests.cli.conftest import farm

LEGAL = [
    "crash=decode", "crash=prefill:ABRT", "crash=load.map:SIGBUS", "hang=warmup", "leak=0.5", "slow-stage=decode:2.0",
    "exit=3", "exit=0:load.open",
]  # fmt: skip
WRONG = [
    "nonsense", "=", "crash", "crash=SEGV", "crash=decode:NOPE", "hang=decode:2", "hang=", "leak=0", "leak=x",
    "leak=nan",
    "slow-stage=decode", "slow-stage=decode:0.5", "slow-stage=nowhere:2", "exit=256", "exit=x", "exit=1:nowhere",
    "crash =decode", "CRASH=decode",
]  # fmt: skip


@pytest.mark.parametrize("spec", LEGAL)
def test_a_fault_that_there_is_passes(spec: str) -> None:
    assert faults.check([spec, f"{spec},leak=1"]) == [spec, spec, "leak=1"]


@pytest.mark.parametrize("spec", WRONG)
def test_a_fault_that_there_is_not_is_refused_with_the_list(spec: str) -> None:
    with pytest.raises(CliError) as refused:
        faults.check(["leak=1", spec])
    assert refused.value.code is ExitCode.REFUSED
    assert repr(spec) in refused.value.message
    assert all(form in refused.value.hint for form in faults.FORMS.values())


@pytest.mark.parametrize(("spec", "meant"), [("crsh=decode", "crash"), ("slow-stage=decod:2", "decode")])
def test_a_mistyped_fault_is_refused_with_the_one_that_was_meant(spec: str, meant: str) -> None:
    with pytest.raises(CliError, match=f"did you mean {meant}"):
        faults.check([spec])


def test_the_engine_has_the_same_faults_and_stages(engine_bin: Path) -> None:
    described = subprocess.run([engine_bin, "--describe"], capture_output=True, text=True, timeout=60, check=True)
    assert tuple(json.loads(described.stdout)["stages"]) == faults.STAGES
    for spec in (*LEGAL, *WRONG):
        done = subprocess.run(
            [engine_bin, "--model", "/nonexistent", "--prompt", "x"],
            capture_output=True, text=True, timeout=60, env=os.environ | {"FARM_ENGINE_FAULT": spec},
        )  # fmt: skip
        assert ("fault '" in done.stderr) is (spec in WRONG), f"{spec}: {done.stderr}"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--fault", "nonsense"], "there is no fault 'nonsense'"),
        (["--fault", "crash=decode", "--fault-device", "rk3568-v2"], "did you mean rk3568-v1"),
        (["--fault-device", "rk3568-v1"], "has no fault to get"),
    ],
)
def test_a_demo_that_cannot_do_what_is_asked_starts_nothing(tmp_path: Path, arguments: list[str], words: str) -> None:
    state = tmp_path / "state"
    done = farm("demo", "--once", "--json", *arguments, state=state)
    assert (done.code, done.json()["error"]["code"]) == (3, "refused")
    assert words in done.err
    assert len(done.err.splitlines()) == 2
    assert not state.exists()
