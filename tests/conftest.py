"""What every test shares: the `--slow` switch and the fixtures of the shared modules beside this file."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

import pytest

from tests import leftovers

# Fixtures of these modules are there for every test: do not import them again, a second import is a second fixture.
_SHARED_FIXTURES = ("tests.devices", "tests.engine_build", "tests.postgres")
pytest_plugins = [name for name in _SHARED_FIXTURES if find_spec(name) is not None]


#: The locks of this machine protect its devices and CPUs from each other's farms; tests have devices of their own.
LOCKS = pytest.StashKey[str]()
_SWEPT = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.stash[_SWEPT] = leftovers.sweep()
    config.stash[LOCKS] = os.environ["FARM_LOCKS"] = str(leftovers.folder("farm-test-locks-"))


def pytest_report_header(config: pytest.Config) -> list[str]:
    swept = config.stash.get(_SWEPT, [])
    return [f"ended, left by a session that was killed: {line}" for line in swept]


def pytest_sessionstart(session: pytest.Session) -> None:
    factory = session.config._tmp_path_factory  # type: ignore[attr-defined]
    leftovers.own(factory.getbasetemp(), keep=True)  # pytest removes it by itself


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash.get(LOCKS, ""), ignore_errors=True)
    leftovers.forget()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked `slow` too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect (not skip: a skip means that something is missing) the slow tests unless they were asked for."""
    if config.getoption("--slow") or "slow" in config.option.markexpr:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
