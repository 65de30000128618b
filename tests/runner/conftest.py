"""Fixtures of the runner's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.devices import AdbServer, StartVirtualDevice
from tests.runner.attempts import Attempts, Bundle
from virtual import fleet

collect_ignore = ["hostile"]  # packs that are run in the sandbox, never here


@pytest.fixture(scope="session")
def tiny_bundle(
    engine_bin: Path, devtool_bin: Path, models_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Bundle:
    return Bundle.make(tmp_path_factory.mktemp("bundle"), engine_bin, devtool_bin, models_dir)


@pytest.fixture
def attempts(tmp_path: Path, adb_server: AdbServer, tiny_bundle: Bundle) -> Iterator[Attempts]:
    """Makes attempts; what they started is ended with the test."""
    made = Attempts(tmp_path, adb_server.port, tiny_bundle)
    yield made
    made.close()


@pytest.fixture
def phone(virtual_device: StartVirtualDevice) -> fleet.Running:
    """A virtual device shared by the session's tests."""
    return virtual_device("pixel-8-pro")
