"""The demo, for real: engine, three virtual devices, server, run; and nothing of it is left afterwards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.cli import processes
from farm.settings import load, port_is_free
from tests import leftovers
from tests.cli.conftest import Done, farm
from tests.waiting import eventually

#: The demo has limits of its own on every step; this one only ends a test that hangs.
LIMIT_S = 900
pytestmark = pytest.mark.usefixtures("engine_bin")  # built once for all tests


@pytest.fixture
def state() -> Iterator[Path]:
    """The demo's state folder; whatever a failed test left running there is stopped."""
    folder = leftovers.folder("farm-")  # short: sockets lie in it
    yield folder
    farm("down", "--all", state=folder)
    shutil.rmtree(folder, ignore_errors=True)


def demo(state: Path, *arguments: str) -> Done:
    return farm("demo", "--once", "--json", *arguments, state=state, timeout=LIMIT_S)


def attempts_of(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {attempt["serial"]: attempt for attempt in result["run"]["attempts"]}


def nothing_is_left(state: Path) -> None:
    assert processes.running_server(load({}, state=state)) is None
    listed = subprocess.run(
        [sys.executable, "-m", "virtual", "list", "--dir", str(state / "virtual"), "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(listed.stdout) == []
    port = state / "adb" / "port"
    assert not port.exists() or port_is_free(int(port.read_text()))


def test_a_crash_on_one_device_is_that_devices_alone_and_nothing_is_left_running(state: Path) -> None:
    done = demo(state, "--fault", "crash=decode", "--fault-device", "rk3568-v1")
    assert done.code == 1, done.err
    result = done.json()
    assert {device["serial"] for device in result["devices"]} == {
        "virtual-pixel-8-pro", "virtual-rk3568", "virtual-dimensity-9300",
    }  # fmt: skip
    assert all(device["virtual"] for device in result["devices"])
    assert result["run"]["outcome"] == "crashed"
    attempts = attempts_of(result)
    assert {serial: attempt["outcome"] for serial, attempt in attempts.items()} == {
        "virtual-pixel-8-pro": "passed",
        "virtual-rk3568": "crashed",
        "virtual-dimensity-9300": "passed",
    }
    assert any("SIG" in incident["summary"] for incident in attempts["virtual-rk3568"]["incidents"])
    for serial in ("virtual-pixel-8-pro", "virtual-dimensity-9300"):
        assert attempts[serial]["tests"]["passed"] > 5
        assert attempts[serial]["tests"]["failed"] == 0
        assert attempts[serial]["measurements"] > 3
        assert attempts[serial]["decode_rate"] > 1
    nothing_is_left(state)


@pytest.mark.slow
def test_a_second_demo_queues_its_run_on_the_first_and_leaves_it_up(state: Path) -> None:
    first = demo(state, "--keep")
    assert first.code == 0, first
    server = processes.running_server(load({}, state=state))
    second = demo(state)
    assert second.code == 0, second
    assert (first.json()["run"]["id"], second.json()["run"]["id"]) == (1, 2)
    assert "The demo is up already at" in second.err
    assert server is not None
    assert processes.running_server(load({}, state=state)) == server


def test_an_interrupted_demo_leaves_nothing_running(state: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FARM_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "farm.cli.main", "demo", "--once", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean | {"FARM_STATE": str(state), "FARM_LOCKS": os.environ["FARM_LOCKS"]},
    )
    try:
        eventually(lambda: processes.running_server(load({}, state=state)), 300, what="the server to run")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
    assert process.returncode == 5, err
    assert json.loads(out)["error"]["code"] == "cancelled"
    nothing_is_left(state)


#: The speed of a shared host's cores drifts by tens of percent within seconds; neighbours in time share most of it.
PAIRS = 5


@pytest.mark.slow
def test_a_slowed_stage_halves_the_rate_of_its_device_alone(state: Path) -> None:
    ratios: dict[str, list[float]] = {}
    for pair in range(PAIRS):
        plain, slowed = [], ["--fault", "slow-stage=decode:2.0"]
        order = (plain, slowed) if pair % 2 == 0 else (slowed, plain)
        rates = {bool(flags): attempts_of(demo(state, *flags).json()) for flags in order}
        for serial, before in rates[False].items():
            ratios.setdefault(serial, []).append(rates[True][serial]["decode_rate"] / before["decode_rate"])
    medians = {serial: statistics.median(values) for serial, values in ratios.items()}
    assert medians.pop("virtual-pixel-8-pro") == pytest.approx(0.5, rel=0.1), ratios
    assert all(ratio == pytest.approx(1.0, rel=0.1) for ratio in medians.values()), ratios
