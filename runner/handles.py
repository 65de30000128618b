"""What the fixtures `series` and `logcat` give to a test."""

from __future__ import annotations

import re
import shlex
import time

from farm.adb.device import Device
from runner.bench import Bench

#: Values per journal record of a series.
_CHUNK = 500


class Series:
    """Values over time (a temperature, a clock frequency): `series("soc temperature", "°C").add(41.5)`."""

    def __init__(self, bench: Bench, name: str, unit: str) -> None:
        self._bench, self._name, self._unit = bench, name, unit
        self._times: list[float] = []
        self._values: list[float] = []

    def add(self, value: float, at: float | None = None) -> None:
        """Take a value; `at`: time on the host's monotonic clock, now by default."""
        self._times.append(time.monotonic() if at is None else at)
        self._values.append(float(value))
        if len(self._values) >= _CHUNK:
            self.flush()

    def flush(self) -> None:
        """Send what is pending."""
        if self._values:
            self._bench.record("series", name=self._name, unit=self._unit, t=self._times, values=self._values)
            self._times, self._values = [], []


class Logcat:
    """The device's log since the test began. The whole log of the lease is kept by the farm in any case."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._since = device.shell("date +%s.000").stdout.strip() or "0"

    def lines(self, buffers: str = "main,system,crash") -> list[str]:
        """Every line since the test began, threadtime format."""
        command = f"logcat -d -v threadtime -b {shlex.quote(buffers)} -T {shlex.quote(self._since)}"
        return self._device.shell(command, timeout_s=60).stdout.splitlines()

    def wait_for(self, pattern: str, timeout_s: float = 10.0, buffers: str = "main,system,crash") -> str:
        """The first line that matches the regular expression; AssertionError after `timeout_s`."""
        wanted = re.compile(pattern)
        deadline = time.monotonic() + timeout_s
        while True:
            lines = self.lines(buffers)
            found = next((line for line in lines if wanted.search(line)), None)
            if found is not None:
                return found
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"no line of the log matches {pattern!r} within {timeout_s:g} s ({len(lines)} lines)"
                )
            time.sleep(0.2)
