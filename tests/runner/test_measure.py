"""Marks: which samples are believed, and why the others are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner import measure as module
from runner.engines.base import EngineResult, Figure
from runner.measure import Better, Measure, NotReported
from tests.devices import StartVirtualDevice
from tests.runner.attempts import Attempts, write_pack
from virtual import fleet

HOT = "/sys/class/thermal/cooling_device0/type:cpufreq-cpu0\n/sys/class/thermal/cooling_device0/cur_state:2\n"


class Bench:
    """A device that says what it is told to say, and a journal in memory."""

    def __init__(self) -> None:
        self.says = ""
        self.asked = 0
        self.records: list[dict[str, Any]] = []
        self.device = self

    def shell(self, command: str, **limits: Any) -> Any:
        self.asked += 1
        return type("Result", (), {"stdout": self.says})

    def record(self, kind: str, **fields: Any) -> None:
        self.records.append(fields)


class Host:
    """Files of a host that is as busy as the test wants: one second passes at each look."""

    def __init__(self, folder: Path) -> None:
        self.pressure, self.stat = folder / "cpu", folder / "stat"
        self.stalled = self.idle = self.busy = 0
        self.now = 0.0
        self.write()

    def write(self) -> None:
        self.pressure.write_text(f"some avg10=0 avg60=0 avg300=0 total={self.stalled}\n")
        self.stat.write_text(f"cpu  {self.busy} 0 0 {self.idle} 0 0 0 0\n")

    def second(self, *, waited: float, idle: float) -> None:
        """A second in which somebody waited for that share of it, and CPUs were idle for that share."""
        self.now += 1.0
        self.stalled += int(waited * 1e6)
        self.idle += int(idle * 200)
        self.busy += int((1 - idle) * 200)
        self.write()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    found = Host(tmp_path)
    monkeypatch.setattr(module, "_PRESSURE", found.pressure)
    monkeypatch.setattr(module, "_STAT", found.stat)
    monkeypatch.setattr(module.time, "monotonic", lambda: found.now)
    yield found
    monkeypatch.undo()


def measuring(bench: Bench) -> Measure:
    return Measure(bench)  # type: ignore[arg-type]


def test_a_turn_is_disturbed_when_somebody_waited_and_no_cpu_was_idle(host: Host) -> None:
    bench = Bench()
    for turn in measuring(bench).repeat(4, warmup=1):
        turn.value("x", 5, unit="s", better="lower")
        turn.value("peak", 7, unit="MB", better="lower")
        waited, idle = {-1: (0.0, 0.9), 0: (0.0, 0.9), 1: (0.9, 0.0), 2: (0.9, 0.5), 3: (0.1, 0.0)}[turn.index]
        host.second(waited=waited, idle=idle)
    time_taken, memory = bench.records
    assert time_taken["marks"] == ["warmup", None, "disturbed", None, None]
    assert time_taken["values"] == [5.0] * 5
    assert memory["marks"] == ["warmup", None, None, None, None], "memory does not depend on how busy the host is"


def test_a_turn_is_throttled_when_the_device_says_so_before_or_after_it(host: Host) -> None:
    bench = Bench()
    for turn in measuring(bench).repeat(4, warmup=0):
        turn.value("x", 5, unit="s")
        bench.says = HOT if turn.index == 1 else ""
        host.second(waited=0, idle=1)
    assert bench.records[0]["marks"] == [None, "throttled", "throttled", None]
    assert bench.asked == 5


def result(*values: float) -> EngineResult:
    return EngineResult("engine", 0, 1.0, figures=(Figure("rate", "tok/s", Better.HIGHER, values),))


def test_each_iteration_inside_an_engine_has_its_own_mark(host: Host) -> None:
    bench = Bench()
    found = measuring(bench)
    found.begin()
    for number, (waited, idle) in enumerate([(0.0, 1.0), (1.0, 0.0), (0.0, 1.0)]):
        found.iteration(-1)
        host.second(waited=waited, idle=idle)
        found.iteration(number)
        host.second(waited=1.0, idle=0.0)  # between two iterations: nobody's business
    found.end()
    found.figures(result(1, 2, 3), "rate")
    assert bench.records[0]["marks"] == [None, "disturbed", None]


def test_figures_of_a_warm_up_repetition_are_marked_and_not_counted(host: Host) -> None:
    bench = Bench()
    found = measuring(bench)
    for turn in found.repeat(2, warmup=1):
        found.begin()
        found.iteration(0)
        host.second(waited=0, idle=1)
        found.end()
        told = found.figures(result(10 + turn.index))
        assert told[0].clean == (() if turn.warmup else (10.0 + turn.index,))
        found.record("own", 1, unit="s")
    (figures,) = (row for row in bench.records if row["name"] == "rate")
    assert (figures["values"], figures["marks"]) == ([9.0, 10.0, 11.0], ["warmup", None, None])
    assert [row["marks"] for row in bench.records if row["name"] == "own"] == [["warmup"], [None], [None]]
    assert next(one for one in found.recorded if one.name == "rate").clean == (10.0, 11.0)


def test_an_engine_during_which_the_device_began_to_throttle_is_throttled_as_a_whole(host: Host) -> None:
    bench = Bench()
    found = measuring(bench)
    found.begin()
    found.iteration(0)
    found.iteration(1)
    bench.says = HOT
    found.end()
    found.figures(result(1, 2))
    assert bench.records[0]["marks"] == ["throttled", "throttled"]


def test_a_figure_that_is_not_there_is_not_reported(host: Host) -> None:
    with pytest.raises(NotReported, match="does not report ttft"):
        measuring(Bench()).figures(result(1), "rate", "ttft")


def test_turns_of_a_test_that_fails_are_kept(host: Host) -> None:
    bench = Bench()
    found = measuring(bench)
    for turn in found.repeat(3, warmup=0):
        if turn.index == 2:
            break  # as an assertion would
        turn.value("x", 1 + turn.index, unit="s")
    found.finish()
    assert bench.records[0]["values"] == [1.0, 2.0]


def test_a_host_that_tells_nothing_disturbs_nobody(host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "_PRESSURE", tmp_path / "none")
    bench = Bench()
    for turn in measuring(bench).repeat(1, warmup=0):
        turn.value("x", 1, unit="s")
        host.second(waited=1, idle=0)
    assert bench.records[0]["marks"] == [None]


def test_samples_of_a_device_that_is_too_hot_are_marked(
    attempts: Attempts, virtual_device: StartVirtualDevice, tmp_path: Path
) -> None:
    text = (
        "def test_hot(engine, measure):\n"
        "    measure.figures(engine.run(prompt_tokens=4, n_predict=4, repeat=2, ignore_eos=True), 'decode_rate')\n"
    )
    device = virtual_device("rk3568", fresh=True)
    pack = write_pack(tmp_path / "pack", {"s/test_hot.py": text})
    fleet.fault(device.dir.parent, device.serial, "heat", to_c=105)
    attempt = attempts.make(device, pack, "s")
    assert attempt.run().fields["outcome"] == "passed"
    (record,) = attempt.records("measurement", name="decode_rate")
    assert record.fields["marks"] == ["throttled", "throttled"]
