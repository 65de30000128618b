"""The temperature of a leased device while its tests run: the hottest zone about once a second, as a series.

One shell loop on the device for the whole attempt, of the shell's own `read` and one `sleep` a second: a program per
zone and second would itself be a load. What the device does not tell is no point, never 0.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

from farm.adb.device import Device, Process
from farm.adb.errors import AdbError
from farm.evidence import thermal

NAME, UNIT = "temperature", "°C"
#: Points per journal record: a page that watches is so many seconds behind.
CHUNK = 5
#: Silence of the loop after which it is started anew, and the rest before that.
SILENCE_S, REST_S = 30.0, 5.0
#: The loop ends by itself after this, whoever forgot it.
LIMIT_S = 24 * 3600

_LOOP = f"""{{ for z in /sys/class/thermal/thermal_zone*; do
read -r t <$z/type && echo "zone ${{z##*_zone}} $t"
done
n=0; while [ $n -lt {LIMIT_S} ]; do
s=at; for z in /sys/class/thermal/thermal_zone*; do t=; read -r t <$z/temp; s="$s ${{z##*_zone}}:$t"; done
echo "$s" || exit; n=$((n+1)); sleep 1
done; }} 2>/dev/null"""


def hottest(types: dict[str, str], line: str) -> float | None:
    """°C of the hottest zone in a line `at 0:41000 1:38500`, of those whose type means something; None: none does."""
    pairs = (word.split(":", 1) for word in line.split()[1:] if ":" in word)
    told = "\n".join(f"{types[zone]} {raw}" for zone, raw in pairs if zone in types)
    zones = thermal.zones(told)
    known = [value for value in astuple(thermal.summary(zones)) if value is not None] or list(zones.values())
    return max(known, default=None)


class Heat:
    """Samples one device from `start` to `stop`; `record(kind, **fields)` gets the journal's series records."""

    def __init__(self, device: Device, serial: str, record: Callable[..., Any]) -> None:
        self._device, self._serial, self._record = device, serial, record
        self._stopping = threading.Event()
        self._process: Process | None = None
        self._lock = threading.Lock()  # of what is pending, and of whether records are still taken
        self._open = True
        self._times: list[float] = []
        self._values: list[float] = []
        self._thread = threading.Thread(target=self._run, name=f"heat-{serial}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the loop on the device and write what is pending; nothing is recorded afterwards."""
        self._stopping.set()
        process = self._process
        if process is not None:
            process.kill()
        self._thread.join(10)
        self._flush()
        with self._lock:
            self._open = False

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except (AdbError, OSError):
                pass  # the device is away for a moment; whether it is lost is for others to say
            self._stopping.wait(REST_S)

    def _follow(self) -> None:
        self._process = process = self._device.spawn(_LOOP)
        types: dict[str, str] = {}
        try:
            for line in process.lines(SILENCE_S):
                if self._stopping.is_set():
                    return
                first, _, rest = line.text[:4000].partition(" ")
                if line.stream == "stdout" and first == "zone" and len(types) < 1000:
                    number, _, kind = rest.partition(" ")
                    types[number] = kind.strip()
                elif line.stream == "stdout" and first == "at":
                    self._take(hottest(types, line.text[:4000]))
        finally:
            process.kill()

    def _take(self, celsius: float | None) -> None:
        if celsius is None:
            return
        with self._lock:
            self._times.append(time.monotonic())
            self._values.append(celsius)
            full = len(self._values) >= CHUNK
        if full:
            self._flush()

    def _flush(self) -> None:
        with self._lock:
            times, values = self._times, self._values
            self._times, self._values = [], []
            if values and self._open:
                self._record("series", device=self._serial, name=NAME, unit=UNIT, t=times, values=values)
