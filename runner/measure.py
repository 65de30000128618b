"""Measuring so that it can be believed: warm-up, repetitions, every raw value kept, each with what disturbed it.

A test asks for the fixture `measure`. It holds a measure slot of the host for the whole test (so that tests do not
disturb each other) and marks each value: `warmup`; `throttled` when the device slows itself down; `disturbed` when
others on the host made somebody wait for the CPU. A marked value is kept and shown; it does not enter the median.

    def test_rate(engine, measure):
        result = engine.run(prompt_tokens=64, n_predict=24, warmup=1, repeat=5)
        measure.figures(result, "ttft", "decode_rate")

    def test_start_up(engine, measure):
        for turn in measure.repeat(5, warmup=1):
            result = engine.run(prompt="x", n_predict=1)
            turn.value("start_up", result.seconds * 1000, unit="ms", better="lower")
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from farm.adb.errors import AdbError, DeviceUnavailable
from farm.domain.measurements import Better, Mark, Measurement
from farm.evidence import pressure, throttling
from runner.bench import Bench
from runner.engines.base import EngineResult, Figure

#: Share of the time in which somebody on the host waited for a CPU, from which a sample counts as disturbed.
DISTURBED_SHARE = 0.25
#: ... when less than this share of the host's CPU time was idle meanwhile.
SPARE_SHARE = 0.15
#: Units of figures that do not depend on how fast the device or its host is just now.
_TIMELESS = frozenset({"B", "KB", "MB", "GB", "KiB", "MiB", "GiB", "°C", "%", "tokens", "1"})
#: A span shorter than this says too little about pressure.
_SHORT_S = 0.02
_PRESSURE, _STAT = Path("/proc/pressure/cpu"), Path("/proc/stat")


class NotReported(Exception):
    """The engine does not report this figure; the plugin turns it into a skip that says so."""


@dataclass(slots=True)
class Turn:
    """One repetition."""

    index: int
    warmup: bool
    values: list[tuple[str, str, Better, float, tuple[tuple[str, str], ...]]] = field(default_factory=list)

    def value(
        self, name: str, value: float, *, unit: str, better: Better | str = Better.NEITHER, **labels: object
    ) -> None:
        """Take a value of this repetition. A value that was not measured is left out, not given as zero."""
        kept = tuple(sorted((key, str(label)) for key, label in labels.items()))
        self.values.append((name, unit, Better(better), float(value), kept))


class Measure:
    """Measuring in one test on one device."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._host = _HostPressure()
        self._marks: list[Mark | None] = []
        self._throttled_before: list[str] = []
        self._turn: Turn | None = None  # the repetition that runs now
        self._turns: list[tuple[Turn, Mark | None]] = []
        self.recorded: list[Measurement] = []

    # ---- iterations inside one engine process, told by the adapter ----

    def begin(self) -> None:
        """An engine starts: from here its iterations are marked."""
        self._marks = []
        self._throttled_before = [] if self._turn else self._throttling()
        self._host.restart()

    def iteration(self, number: int) -> None:
        """Called by the adapter when iteration `number` ended (-1: when one begins)."""
        if number < 0:
            self._host.restart()
        else:
            self._marks.append(Mark.DISTURBED if self._host.disturbed() else None)

    def end(self) -> None:
        """The engine has ended: when it throttled meanwhile, nobody knows since which iteration."""
        if self._turn:
            return  # the turn looks at the device, before and after
        if self._throttled_before or self._throttling():
            self._marks = [Mark.THROTTLED] * len(self._marks)

    # ---- what a test calls ----

    def figures(self, result: EngineResult, *names: str, **labels: object) -> list[Measurement]:
        """Record figures that the engine reported in `result`: all of them, or those named. NotReported for none.

        Inside a repetition they are values of that repetition, as `Turn.value` takes them: warm-up is not counted.
        """
        wanted = [f for f in result.figures if not names or f.name in names]
        missing = [name for name in names if all(f.name != name for f in wanted)]
        if missing:
            raise NotReported(f"this engine does not report {', '.join(missing)}")
        return [self._figure(figure, labels) for figure in wanted]

    def record(
        self,
        name: str,
        values: float | Sequence[float],
        *,
        unit: str,
        better: Better | str = Better.NEITHER,
        marks: Sequence[Mark | str | None] = (),
        **labels: object,
    ) -> Measurement:
        """Record values that the test took itself, in their order; those of a warm-up repetition are marked so."""
        taken = tuple(float(v) for v in values) if isinstance(values, Iterable) else (float(values),)
        found = Measurement(
            name=name,
            unit=unit,
            better=Better(better),
            values=taken,
            marks=self._warmup(len(taken)) or tuple(None if mark is None else Mark(mark) for mark in marks),
            labels={key: str(label) for key, label in labels.items()},
        )
        return self._put(found)

    def repeat(self, repetitions: int = 5, *, warmup: int = 1) -> Iterator[Turn]:
        """Turns to measure in: `warmup` unmeasured ones first. Recorded after the last one, or when the test fails."""
        throttled = self._throttling()
        for index in range(-warmup, repetitions):
            turn = Turn(index, index < 0)
            host = _HostPressure()
            self._turn = turn
            yield turn
            self._turn = None
            disturbed = host.disturbed()
            before, throttled = throttled, self._throttling()
            mark = Mark.WARMUP if turn.warmup else Mark.THROTTLED if before or throttled else None
            self._turns.append((turn, mark or (Mark.DISTURBED if disturbed else None)))
        self.finish()

    def finish(self) -> None:
        """Record the turns that are not recorded yet: raw values are kept, also those of a test that failed."""
        turns, self._turns, self._turn = self._turns, [], None
        rows: dict[tuple[str, str, Better, tuple[tuple[str, str], ...]], list[tuple[float, Mark | None]]] = {}
        for turn, mark in turns:
            for name, unit, better, value, labels in turn.values:
                rows.setdefault((name, unit, better, labels), []).append((value, mark))
        for (name, unit, better, labels), taken in rows.items():
            values, marks = zip(*taken, strict=True)
            self._put(Measurement(name, unit, better, values, _fitting(unit, marks), dict(labels)))

    def _figure(self, figure: Figure, labels: Mapping[str, object]) -> Measurement:
        own = {**figure.labels, **{key: str(label) for key, label in labels.items()}}
        if self._turn is not None:
            for value in figure.values:
                self._turn.value(figure.name, value, unit=figure.unit, better=figure.better, **own)
            warmup = self._warmup(len(figure.values))
            return Measurement(figure.name, figure.unit, figure.better, figure.values, warmup, own)
        marks = tuple(self._marks) if len(self._marks) == len(figure.values) else self._whole_run(len(figure.values))
        fitting = _fitting(figure.unit, marks)
        return self._put(Measurement(figure.name, figure.unit, figure.better, figure.values, fitting, own))

    def _warmup(self, count: int) -> tuple[Mark | None, ...]:
        """Marks of so many values of a warm-up repetition; none for any other."""
        return (Mark.WARMUP,) * count if self._turn is not None and self._turn.warmup else ()

    def _whole_run(self, count: int) -> tuple[Mark | None, ...]:
        """Marks for figures that are not one per iteration: what is true of any of them is true of all."""
        present = [mark for mark in self._marks if mark is not None]
        return (present[0] if present else None,) * count

    def _put(self, found: Measurement) -> Measurement:
        self._bench.record(
            "measurement",
            name=found.name,
            unit=found.unit,
            better=found.better.value,
            values=list(found.values),
            marks=[mark.value if mark else None for mark in found.marks],
            labels=found.labels,
        )
        self.recorded.append(found)
        return found

    def _throttling(self) -> list[str]:
        """Why the device is slowed down now. A signal that cannot be read says nothing."""
        try:
            text = self._bench.device.shell(throttling.COMMAND, timeout_s=20, max_output=256 * 1024).stdout
        except DeviceUnavailable:
            raise
        except AdbError:
            text = ""
        return throttling.signals(text)


def _fitting(unit: str, marks: Sequence[Mark | None]) -> tuple[Mark | None, ...]:
    """The marks that mean something for a unit: a peak of memory is none the worse for a slow CPU."""
    return tuple(mark if unit not in _TIMELESS or mark is Mark.WARMUP else None for mark in marks)


class _HostPressure:
    """Whether others on this host were in the way since the last restart.

    Somebody waited for a CPU, and the CPUs had no time to spare: waiting alone may be a quota at work, which a virtual
    device has on purpose. What cannot be read is no disturbance that could be claimed.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._at = time.monotonic()
        self._stalled, self._ticks = pressure.stalled_us(_read(_PRESSURE)), pressure.ticks(_read(_STAT))

    def disturbed(self) -> bool:
        """Whether the span since the last call was disturbed; begins the next span."""
        began, stalled, ticks = self._at, self._stalled, self._ticks
        self.restart()
        waited = pressure.share(stalled, self._stalled, self._at - began)
        idle = pressure.idle_share(ticks, self._ticks)
        if waited is None or idle is None or self._at - began < _SHORT_S:
            return False
        return waited > DISTURBED_SHARE and idle < SPARE_SHARE


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
