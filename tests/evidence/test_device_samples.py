"""Every parser against what devices print: the uniform keys of each sample, and hostile text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.evidence import battery, cpu, props, thermal, thermalservice
from farm.evidence.registry import KINDS, parse
from tests.evidence.samples import core_of, missing, one, samples, text_of


@pytest.mark.parametrize(("kind", "path"), samples(), ids=lambda v: v.stem if isinstance(v, Path) else v)
def test_a_sample_gives_its_uniform_keys(kind: str, path: Path) -> None:
    assert missing(parse(kind, text_of(path).split("\n")), core_of(path)) == []


def test_there_are_samples_of_every_kind() -> None:
    assert {kind for kind, _ in samples()} == set(KINDS)


@given(st.text(alphabet=st.sampled_from("[]: \n\tro.a1-{}=,TOTAL°CkB*%()") | st.characters(), max_size=400))
def test_no_text_makes_a_parser_fail(text: str) -> None:
    for kind in KINDS:
        json.dumps(parse(kind, text.split("\n")), allow_nan=False)


def test_two_dumps_in_one_file_stay_apart() -> None:
    first, second = props.parse_all(one("getprop", "14"))
    assert (first["ro.soc.model"], second["ro.soc.model"]) == ("s5e9945", "MT6989")


def test_an_empty_soc_model_is_no_model() -> None:
    found = props.parse(one("getprop", "13"))
    assert props.soc(found) == "kona"


@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9._\-]{0,20}", fullmatch=True), st.text("abc ,:/", max_size=20)))
def test_properties_survive_being_printed(properties: dict[str, str]) -> None:
    printed = "\n".join(f"[{key}]: [{value}]" for key, value in properties.items())
    assert props.parse(printed) == properties


def test_a_battery_with_two_wrong_units_is_not_believed() -> None:
    found = battery.parse(one("dumpsys_battery", "04"))
    assert found.has_battery is False
    assert found.believable_temperature_C is None


def test_a_forced_battery_state_is_not_a_temperature() -> None:
    found = battery.parse(one("dumpsys_battery", "10"))
    assert found.updates_stopped
    assert found.believable_temperature_C is None


@pytest.mark.parametrize("raw", [-127000, -274000, 0, -99.9, 500_000, float("nan"), float("inf")])
def test_an_impossible_reading_is_no_reading(raw: float) -> None:
    assert thermal.celsius(raw) is None


@pytest.mark.parametrize(("raw", "wanted"), [(37000, 37.0), (36, 36.0), (33999, 33.999)])
def test_thousandths_and_whole_degrees_are_told_apart(raw: float, wanted: float) -> None:
    assert thermal.celsius(raw) == wanted


def test_the_gpu_zone_of_a_board_does_not_count_as_its_cpu() -> None:
    assert thermal.summary({"soc-thermal": 44.0, "gpu-thermal": 60.0}).cpu_max_C is None
    assert thermal.device_temperature({"soc-thermal": 44.0, "gpu-thermal": 60.0}) == (44.0, "soc-thermal")


def test_a_thermal_service_without_hal_is_not_cool() -> None:
    found = thermalservice.parse(one("thermalservice", "11"))
    assert found.hal_ready is False
    assert found.live is None


def test_core_lists_are_counted() -> None:
    assert cpu.count("0-4,8") == 6
    assert cpu.count("nonsense") is None
