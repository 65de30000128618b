"""The pytest plugin of a suite pack: for now it declares the markers that suites use.

Loaded through the `pytest11` entry point, so that a suite needs no `conftest.py` to know the farm's markers.
"""

from __future__ import annotations

import pytest

MARKERS = (
    "needs(*capabilities): what the device must have for this test to mean anything",
    "settle(**conditions): state that the device must reach before the test starts",
    "budget(**limits): limits that a measurement of this test must keep",
    "measure: holds a measure slot of the host while it executes",
)


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
