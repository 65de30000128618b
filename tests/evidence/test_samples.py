"""The sampler's stream: what becomes of each line, of each unit, and of what no device can say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.evidence.collect.samples import PATIENCE, Point, SampleStream, share

HEAD = "farm-samples 1 hz=1 page=4096 tick=100 via=tool"


def points(*lines: str) -> list[Point]:
    stream = SampleStream()
    found = [point for line in (HEAD, *lines) for point in stream.feed(line)]
    return found + stream.finish()


def values(*lines: str) -> dict[str, float]:
    return {point.name: point.value for point in points(*lines)}


@pytest.mark.parametrize(
    ("signal", "text", "expected"),
    [
        ("temp cpu-big", "41500", {"temperature": 41.5, "temperature/cpu-big": 41.5}),
        ("temp cpu-big", "-274000", {}),
        ("temp cpu-big", "0", {}),
        ("freq policy0", "1800000", {"cpu_clock/policy0": 1800.0}),
        ("freq policy0", "0", {}),
        ("cap policy4", "2208000", {"cpu_cap/policy4": 2208.0}),
        ("cooling cpufreq-0", "0", {"cooling/cpufreq-0": 0.0}),
        ("load 1min", "3.25", {"load": 3.25}),
        ("mem MemAvailable", "1000000", {"memory_available": 1024.0}),
        ("current battery", "-512000", {"battery_current/battery": -0.512}),
        ("current battery", "512000000", {}),  # 512 A is no phone
        ("power battery", "2100000", {"battery_power/battery": 2.1}),
        ("gpu kgsl", "12%", {"gpu_busy": 12.0}),
        ("gpu fde60000.gpu", "37@800000000Hz", {"gpu_busy": 37.0}),
        ("gpu mali", "250", {}),
        ("npu rknpu", "load:,Core0:,10%,Core1:,20%,Core2:,0%", {"npu_busy": 10.0}),
        ("gpu_freq gpu", "800000000", {"gpu_clock/gpu": 800.0}),
        ("temp cpu-big", "-", {}),
        ("temp cpu-big", "NaN", {}),
        ("freq policy0", "1e999", {}),
    ],
)
def test_a_file_s_number_becomes_a_value_in_a_named_unit_or_none(
    signal: str, text: str, expected: dict[str, float]
) -> None:
    assert values(f"signal {signal}", f"at 10.0 {text}") == expected


def test_battery_power_is_current_times_voltage_where_the_driver_does_not_say() -> None:
    found = values("signal current battery", "signal voltage battery", "at 1.0 -500000 4000000")
    assert found["battery_power/battery"] == 2.0


def test_the_busy_share_is_of_the_time_between_two_samples() -> None:
    lines = ("signal cpu all", "at 1.0 100,0,0,900,0,0,0,0", "at 2.0 130,0,20,950,0,0,0,0")
    assert [(p.at_s, p.value) for p in points(*lines)] == [(2.0, 50.0)]


def test_kills_count_from_the_stream_s_begin() -> None:
    lines = ("signal kills oom_kill", "at 1.0 7", "at 2.0 9")
    assert [p.value for p in points(*lines)] == [0.0, 2.0]


def test_two_zones_of_one_type_are_two_series() -> None:
    found = values("signal temp tsens", "signal temp tsens", "at 1.0 41000 43000")
    assert found == {"temperature": 43.0, "temperature/tsens": 41.0, "temperature/tsens#2": 43.0}


def test_the_memory_of_all_watched_processes_of_one_moment_is_one_value() -> None:
    lines = ("proc 1.0 70 1000", "rollup 1.0 70 4000 3000 2000 0", "proc 1.0 71 500", "proc 2.0 70 1000")
    found = [(p.name, p.at_s, p.value) for p in points(*lines)]
    assert found == [
        ("engine_rss", 1.0, 6.144),
        ("engine_pss", 1.0, 3.072),
        ("engine_pss_anon", 1.0, 2.048),
        ("engine_swap", 1.0, 0.0),
        ("engine_rss", 2.0, 4.096),
    ]


def test_without_a_known_page_size_there_is_no_resident_memory() -> None:
    stream = SampleStream()
    stream.feed("farm-samples 1 hz=1 page=0 tick=100 via=shell")
    assert [*stream.feed("proc 1.0 70 1000"), *stream.finish()] == []


def test_every_signal_that_never_had_a_value_is_absent_with_its_reason() -> None:
    stream = SampleStream()
    denied = "absent current /sys/class/power_supply/battery/current_now: Permission denied"
    for line in (HEAD, "signal temp cpu", "signal load 1min", denied, *["at 1.0 -274000 0.5"] * PATIENCE):
        stream.feed(line)
    assert "load" not in stream.absent
    assert stream.absent["temperature"] == "its file shows no value that can be"
    assert stream.absent["battery_current"] == denied.removeprefix("absent current ")
    assert stream.absent["gpu_busy"] == "no such file on this device"


def test_a_device_without_swap_says_so_and_uses_none() -> None:
    stream = SampleStream()
    for line in (HEAD, "signal mem SwapFree", "fact swap_total SwapTotal 0"):
        stream.feed(line)
    assert stream.feed("at 1.0 0") == []
    assert stream.absent["swap_used"] == "this device has no swap"


def test_a_share_above_a_hundred_is_none() -> None:
    assert share("101%") is None


WORDS = st.sampled_from(
    ["at", "signal", "proc", "rollup", "fact", "absent", "cost", "gone", "farm-samples", "temp", "cpu"]
)
TEXT = st.lists(st.one_of(WORDS, st.floats().map(str), st.text(max_size=8)), max_size=12).map(" ".join)


@given(st.lists(st.one_of(TEXT, st.text(max_size=200)), max_size=40))
def test_whatever_comes_is_finite_or_nothing(lines: list[str]) -> None:
    for point in points(*lines):
        assert abs(point.value) < 1e18
        assert point.name
        assert point.unit
