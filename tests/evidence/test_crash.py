"""How a process died: known tombstones and log lines, and no text that breaks the parser."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.evidence import crash, pressure, throttling
from tests.evidence.samples import FOLDER

SAMPLES = FOLDER / "crash"
CRASHES = ["01", "02", "06", "07", "08", "10", "12", "13", "14", "43"]


@pytest.mark.parametrize("number", CRASHES)
def test_a_tombstone_is_read_as_by_hand(number: str) -> None:
    (path,) = SAMPLES.glob(f"{number}_*.txt")
    found = crash.crashes(path.read_text())
    assert len(found) == 1
    expected = json.loads(path.with_suffix(".json").read_text())["core"]
    assert {key: found[0].core().get(key) for key in expected} == expected
    assert found[0].signal_name in found[0].words()


@pytest.mark.parametrize("number", ["19", "20", "21", "22"])
def test_the_low_memory_killers_line_names_its_victim(number: str) -> None:
    (path,) = SAMPLES.glob(f"{number}_*.txt")
    expected = json.loads(path.with_suffix(".json").read_text())["core"]
    assert [kill.pid for kill in crash.low_memory_kills(path.read_text())] == [expected["pid"]]


def test_lines_about_one_process_are_told_from_those_about_longer_numbers() -> None:
    lines = ["pid: 12, tid: 12", "in tid 1234", "Kill 'x' (12), uid", "at 0x12ab"]
    assert crash.about(lines, 12) == [lines[0], lines[2]]


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([p.read_text() for p in sorted(SAMPLES.glob("*.txt"))]) | st.text(max_size=300),
    st.integers(0, 5000),
    st.text(max_size=30),
)
def test_no_text_breaks_the_crash_parsers(text: str, at: int, inserted: str) -> None:
    changed = text[:at] + inserted + text[at:]
    json.dumps([found.core() for found in crash.crashes(changed)])
    crash.low_memory_kills(changed)
    throttling.signals(changed)
    pressure.stalled_us(changed)
    pressure.ticks(changed)


def test_pressure_is_the_share_of_time_in_which_somebody_waited() -> None:
    text = "some avg10=0.00 avg60=0.12 avg300=0.05 total=9159455\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"
    before = pressure.stalled_us(text)
    assert before == 9159455
    assert pressure.share(before, before + 250_000, 1.0) == 0.25
    assert pressure.share(None, before, 1.0) is None
    assert pressure.share(before, before - 1, 1.0) is None


def test_idle_time_is_what_all_cpus_did_not_use() -> None:
    before = pressure.ticks("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3 4\n")
    after = pressure.ticks("cpu  190 0 100 705 105 0 0 0 0 0\n")
    assert pressure.idle_share(before, after) == 0.1
    assert pressure.idle_share(before, before) is None


def test_a_cooling_cpu_a_capped_frequency_and_a_moderate_status_are_throttling() -> None:
    quiet = (
        "/sys/class/thermal/cooling_device0/type:thermal-cpufreq-0\n/sys/class/thermal/cooling_device0/cur_state:0\n"
        "/sys/class/thermal/cooling_device1/type:battery-charger\n/sys/class/thermal/cooling_device1/cur_state:3\n"
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq:1704000\n"
        "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq:1704000\nThermal Status: 1\n"
    )
    assert throttling.signals(quiet) == []
    hot = quiet.replace("cooling_device0/cur_state:0", "cooling_device0/cur_state:2")
    assert throttling.signals(hot) == ["thermal-cpufreq-0 cools at step 2"]
    capped = quiet.replace("scaling_max_freq:1704000", "scaling_max_freq:1100000")
    assert throttling.signals(capped) == ["cpu0 is held at 1100 of 1704 MHz"]
    assert throttling.signals(quiet.replace("Status: 1", "Status: 3")) == ["thermal status 3"]
