"""What every test shares: the `--slow` switch and the fixtures of the shared modules beside this file."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

# Fixtures of these modules are there for every test: do not import them again, a second import is a second fixture.
_SHARED_FIXTURES = ("tests.devices", "tests.engine_build", "tests.postgres")
pytest_plugins = [name for name in _SHARED_FIXTURES if find_spec(name) is not None]


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
