from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.store.artifacts import ArtifactStore
from farm.store.db import Database, sqlite_url

collect_ignore = ["pack"]  # suites that the tests here run on devices


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    """An empty farm database of its own."""
    database = Database(sqlite_url(tmp_path / "farm.sqlite"))
    database.migrate()
    yield database
    database.close()


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "artifacts")


@pytest.fixture(scope="module")
def bundle_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reference engine with its smallest model, built once."""
    from engine.package import package

    folder = tmp_path_factory.mktemp("bundle") / "reference"
    package(folder, 2, lambda _text: None, ["tiny-q4_0"])
    return folder


@pytest.fixture
def real_farm(bundle_folder: Path) -> Iterator[object]:
    """A farm process that is not started yet, with the reference bundle and the tests' own suite pack."""
    from tests.work.real_farm import RealFarm

    made = RealFarm()
    try:
        made.add_bundle(bundle_folder)
        made.add_pack(Path(__file__).with_name("pack"))
        yield made
    finally:
        made.close()
