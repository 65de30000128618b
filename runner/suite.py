"""What a suite imports: types for its annotations, and the parsers of what devices print.

    from runner.suite import Device, Engine, Measure, cpu, memory, thermal

Everything else comes as a fixture. A suite that imports nothing works as well.
"""

from __future__ import annotations

from farm.adb.device import Device
from farm.adb.errors import AdbError
from farm.evidence import battery, cpu, memory, props, thermal
from runner.engine import Engine
from runner.engines.base import EngineFailure, EngineResult
from runner.handles import Logcat, Series
from runner.measure import Measure

__all__ = [
    "AdbError",
    "Device",
    "Engine",
    "EngineFailure",
    "EngineResult",
    "Logcat",
    "Measure",
    "Series",
    "battery",
    "cpu",
    "memory",
    "props",
    "thermal",
]
