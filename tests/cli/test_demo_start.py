"""What the demo says when a part of it does not come up."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from farm.cli.demo import Demo
from farm.cli.demo_parts import Parts
from farm.cli.errors import CliError
from farm.settings import load


class NoDevices:
    """A farm that has not seen any device yet."""

    def get(self, _path: str) -> Any:
        return {"devices": []}


def test_an_engine_that_cannot_be_built_is_told_as_that_and_not_as_devices_that_are_late(tmp_path: Path) -> None:
    settings = load({}, state=tmp_path)
    built: Future[Path] = Future()
    built.set_exception(CliError("the engine could not be built", "see build.log"))
    with pytest.raises(CliError, match="could not be built"):
        Demo(settings, Parts(settings))._wait_for_devices(NoDevices(), built)  # type: ignore[arg-type]
