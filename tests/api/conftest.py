from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.served import Served, serve


@pytest.fixture(scope="module")
def farm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One farm for the tests of a module."""
    with serve(tmp_path_factory.mktemp("farm")) as farm:
        yield farm


@pytest.fixture
def served(farm_server: Served) -> Iterator[Served]:
    """The module's farm and a browser that nobody has logged in."""
    farm_server.client.cookies.clear()
    yield farm_server
    farm_server.client.cookies.clear()
