"""The pytest plugin of a suite pack.

Loaded through the `pytest11` entry point, so that a suite needs no `conftest.py` to know the farm's fixtures and
markers. It does nothing until there is a device: in the farm's sandbox (the variable FARM_ATTEMPT), or at a desk with

    pytest suites/latency --device auto [--bundle DIR]
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from runner import fixtures

if TYPE_CHECKING:
    from runner.desk import Desk

_DESK: pytest.StashKey[Desk] = pytest.StashKey()

DESCRIPTIONS = (
    'needs("selector", …): facts that the device must have for this test to mean anything; else it is skipped',
    "settle(max_temperature_c=…, min_battery_pct=…, timeout_s=120): what the device must be before the test starts",
    "budget(peak_pss_mb=…, ttft_ms=…): limits that the test's figures must keep: <figure>_<unit>",
    "measure(slot=True): holds a measure slot of the host while it executes, as asking for the fixture `measure` does; "
    "slot=False for a test that records facts and times nothing",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("device farm")
    group.addoption("--device", metavar="auto|SERIAL,…", help="run on this device, or on any free one (auto)")
    group.addoption(
        "--bundle", metavar="DIR", help="folder with bundle.yaml: the engine under test [the reference engine]"
    )
    group.addoption("--journal", metavar="FILE", help="where a run at a desk leaves its journal [below .farm/desk]")
    group.addoption(
        "--engine-env", metavar="K=V", action="append", default=[], help="environment of the engine on the device"
    )


def pytest_configure(config: pytest.Config) -> None:
    for marker in DESCRIPTIONS:
        config.addinivalue_line("markers", marker)
    config.pluginmanager.register(fixtures, "farm_fixtures")
    if os.environ.get("FARM_ATTEMPT"):
        from runner import inside

        inside.configure(config)
    elif config.getoption("--device"):
        from runner.desk import Desk

        config.stash[_DESK] = Desk(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    desk = config.stash.get(_DESK, None)
    if desk is not None:
        desk.close()


def pytest_report_header(config: pytest.Config) -> list[str]:
    desk = config.stash.get(_DESK, None)
    return desk.header() if desk is not None else []


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    desk = config.stash.get(_DESK, None)
    if desk is not None:
        desk.summary(terminalreporter)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist: tell a worker where to report."""
    desk = node.config.stash.get(_DESK, None)
    if desk is not None:
        node.workerinput["farm_ear"] = str(desk.ear)
        node.workerinput["farm_bundle"] = str(desk.bundle)
        node.workerinput["farm_artifacts"] = str(desk.artifacts)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """xdist's `-n auto`: a worker per device, not per processor."""
    if not config.getoption("--device"):
        return None
    from runner import pool

    return max(1, pool.count(str(config.getoption("--device"))))
