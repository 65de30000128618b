"""What a leased device does while its tests run: heat, clocks, caps, load, memory, power, as series in the journal.

One program on the device for the whole attempt: the bundle's `farm-devtool sample`, or a loop of the device's shell
where that cannot run. What the device does not show is a reason in the journal's `sampler` record, never a 0.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from farm.adb.device import Device, Process
from farm.adb.errors import AdbError
from farm.evidence.collect.samples import PATIENCE, Point, SampleStream
from runner import sample_loop

DEVTOOL = "farm-devtool"
#: The series that pages show as it grows, and how many of its points make a record; of every other series.
LIVE, LIVE_POINTS, POINTS = "temperature", 5, 30
HZ = 1.0
#: Silence of the sampler after which it is started anew, and the rest before that.
SILENCE_S, REST_S = 30.0, 5.0
#: It ends by itself after this, whoever forgot it.
LIMIT_S = 24 * 3600
#: Series of one device that are kept; a phone has some 150.
MAX_SERIES = 1000


def tool_path(bundle: Mapping[str, Any], abi: str) -> str | None:
    """Where the bundle of attempt.json lies on a device of this ABI with its device-side tool; None: it has none."""
    files = (bundle.get("manifest") or {}).get("files") or {}
    name = (files.get(abi) or {}).get(DEVTOOL)
    return f"{bundle.get('device_dir')}/{name}" if name and bundle.get("device_dir") else None


class Sampler:
    """Samples one device from `start` to `stop`; `record(kind, **fields)` gets the journal's records.

    `tool`: the device-side tool on the device; None: the shell's loop is used from the start.
    """

    def __init__(
        self, device: Device, serial: str, record: Callable[..., Any], tool: str | None, *, hz: float = HZ
    ) -> None:
        self._device, self._serial, self._record, self._tool, self._hz = device, serial, record, tool, hz
        self._why_shell = None if tool else f"the bundle carries no {DEVTOOL}"
        self._stopping = threading.Event()
        self._process: Process | None = None
        self._watched: dict[int, None] = {}
        self._lock = threading.Lock()  # of what is pending, what is watched, and of whether records are still taken
        self._open = True
        self._pending: dict[tuple[str, str], list[Point]] = {}
        self._newest: dict[tuple[str, str], float] = {}
        self._offset = 0.0
        self._told: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._run, name=f"sampler-{serial}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def watch(self, pid: int | None, alive: bool) -> None:
        """An engine's process on the device has begun, or ended."""
        if pid is None:
            return
        with self._lock:
            if alive and pid in self._watched:
                return
            self._watched.update({pid: None}) if alive else self._watched.pop(pid, None)
            process = self._process
        if alive and process is not None:
            self._ask(process, pid)

    def stop(self) -> None:
        """End the program on the device and write what is pending; nothing is recorded afterwards."""
        self._stopping.set()
        process = self._process
        if process is not None:
            process.kill()
        self._thread.join(10)
        with self._lock:
            for key in list(self._pending):
                self._flush(key)
            self._open = False

    def _ask(self, process: Process, pid: int) -> None:
        try:
            process.write(f"watch {pid}\n".encode(), 2.0)
        except (AdbError, OSError):
            pass  # its stream ends with it, and the next one is told anew

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except (AdbError, OSError):
                pass  # the device is away for a moment; whether it is lost is for others to say
            self._stopping.wait(REST_S)

    def _command(self) -> str:
        if self._tool is None:
            return sample_loop.command(self._hz, LIMIT_S)
        return f"exec {shlex.quote(self._tool)} sample --hz {self._hz:g} --seconds {LIMIT_S}"

    def _follow(self) -> None:
        stream, samples, errors = SampleStream(), 0, ""
        process = self._device.spawn(self._command())
        with self._lock:
            self._process, watched = process, list(self._watched)
        self._offset = float("inf")
        try:
            for pid in watched:
                self._ask(process, pid)
            for line in process.lines(SILENCE_S):
                if self._stopping.is_set():
                    return
                if line.stream != "stdout":
                    errors = errors or line.text[:200]
                    continue
                self._take(stream.feed(line.text))
                samples += line.text.startswith("at ")
                if samples == PATIENCE:
                    self._tell(stream)
        finally:
            with self._lock:
                self._process = None
            process.kill()
        if stream.via is None and self._tool is not None and not self._stopping.is_set():
            self._tool, self._why_shell = None, f"{DEVTOOL} does not run here: {errors or process.exit_code}"
            self._follow()

    def _tell(self, stream: SampleStream) -> None:
        """How it samples and what the device does not show, once and after every change."""
        told: dict[str, Any] = {"via": stream.via, "hz": stream.hz, "absent": dict(stream.absent)}
        if self._why_shell is not None:
            told["why"] = self._why_shell
        with self._lock:
            if self._open and told != self._told:
                self._told = told
                self._record("sampler", device=self._serial, **told)

    def _take(self, points: list[Point]) -> None:
        """The device's clock becomes the host's: the promptest line tells best how far they are apart."""
        now = time.monotonic()
        with self._lock:
            for point in points:
                self._offset = min(self._offset, now - point.at_s)
                key = (point.name, point.unit)
                if key in self._pending or len(self._pending) < MAX_SERIES:
                    self._pending.setdefault(key, []).append(point)
                    if len(self._pending[key]) >= (LIVE_POINTS if point.name == LIVE else POINTS):
                        self._flush(key)

    def _flush(self, key: tuple[str, str]) -> None:
        points = self._pending[key]
        self._pending[key] = []
        if not points or not self._open:
            return
        times = []
        for point in points:  # a better estimate of the offset must not turn time back
            moment = max(point.at_s + self._offset, self._newest.get(key, 0.0) + 1e-3)
            self._newest[key] = moment
            times.append(round(moment, 3))
        name, unit = key
        self._record(
            "series", device=self._serial, name=name, unit=unit, t=times, values=[point.value for point in points]
        )
