"""Session fixtures with the built reference engine, the device-side tool and the models.

Import them in a conftest: `from tests.engine_build import devtool_bin, engine_bin, models_dir`. The build is
incremental and guarded by a file lock, so that workers of a parallel test run share one build.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine import build
from engine.models import make_model
from engine.models.shape import RECEIPT_SHAPES


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _program(name: str) -> Path:
    return build.build("static-x86_64", build.DEFAULT_OUT, 2, _say).programs[name]


@pytest.fixture(scope="session")
def engine_bin() -> Path:
    """`farm-engine`, static x86-64."""
    return _program("farm-engine")


@pytest.fixture(scope="session")
def devtool_bin() -> Path:
    """`farm-devtool`, static x86-64."""
    return _program("farm-devtool")


@pytest.fixture(scope="session")
def receipt_models() -> dict[str, Path]:
    """The receipt models in every weight type: `receipt-f16` → file and so on."""
    return make_model.make_models(make_model.cache_folder(), names=RECEIPT_SHAPES)


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """A folder with tiny-f32.gguf, tiny-q4_0.gguf, small-f32.gguf and small-q4_0.gguf."""
    folder = make_model.cache_folder()
    make_model.make_models(folder)
    return folder


@pytest.fixture(scope="session")
def app_bin() -> Path:
    """`farm-app`, static x86-64: what stands for an app's process on a virtual device."""
    return _program("farm-app")
