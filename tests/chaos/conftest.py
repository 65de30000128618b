from __future__ import annotations

from pathlib import Path

import pytest

collect_ignore = ["pack"]  # suites that the tests here run on devices


@pytest.fixture(scope="session")
def bundle_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reference engine with its smallest model, built once."""
    from engine.package import package

    folder = tmp_path_factory.mktemp("bundle") / "reference"
    package(folder, 2, lambda _text: None, ["tiny-q4_0"])
    return folder
