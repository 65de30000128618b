"""The physics: heat flows, settles and throttles as it must, whatever the figures."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from virtual import profiles
from virtual.battery import STATUS_CHARGING, STATUS_DISCHARGING, STATUS_FULL, BatteryModel
from virtual.profiles import Battery, Governor, Node, Trip
from virtual.thermal import T_MAX_C, Network, ThermalModel, Throttle

resistances = st.floats(0.5, 20)
capacities = st.floats(1, 200)
powers = st.floats(0, 15)


@given(capacities, resistances, powers, st.floats(-10, 40))
def test_one_node_settles_at_ambient_plus_power_times_resistance(c: float, r: float, p: float, ambient: float) -> None:
    network = Network([Node("soc", c, {"ambient": r})], ambient)
    network.step({"soc": p}, 12 * c * r)
    assert network.temperatures["soc"] == pytest.approx(min(ambient + p * r, T_MAX_C), abs=0.05)


@given(capacities, capacities, resistances, resistances, powers)
@settings(max_examples=40, deadline=None)
def test_heat_rises_steadily_to_its_bound_and_never_above(c1: float, c2: float, r1: float, r2: float, p: float) -> None:
    network = Network([Node("soc", c1, {"skin": r1}), Node("skin", c2, {"ambient": r2})], 25)
    seen = [25.0]
    for _ in range(40):
        network.step({"soc": p}, 5.0)
        seen.append(network.temperatures["soc"])
        assert 25 - 1e-6 <= network.temperatures["skin"] <= network.temperatures["soc"] + 1e-6
    assert all(later >= earlier - 1e-6 for earlier, later in pairwise(seen))
    assert seen[-1] <= 25 + p * (r1 + r2) + 1e-6


@given(st.sampled_from(profiles.names()), st.floats(0, 2), st.floats(0, 2))
@settings(max_examples=20, deadline=None)
def test_more_work_is_never_cooler(name: str, less: float, more: float) -> None:
    less, more = sorted((less, more))
    thermal = profiles.load(name).thermal
    cool, hot = ThermalModel(thermal), ThermalModel(thermal)
    cool.advance(less, 300)
    hot.advance(more, 300)
    for (_, one), (_, other) in zip(cool.zones(), hot.zones(), strict=True):
        assert other >= one - 1e-6
    assert hot.capacity_factor <= cool.capacity_factor


@given(st.lists(st.tuples(st.floats(20, 120), st.floats(0.01, 5)), max_size=60))
def test_the_governor_moves_one_step_per_interval_and_not_inside_its_hysteresis(
    path: list[tuple[float, float]],
) -> None:
    governor = Governor("soc", [Trip(70, 0.8), Trip(80, 0.5)], hysteresis_k=5, step_s=1)
    throttle, elapsed, changes = Throttle(governor), 0.0, 0
    for temperature, dt in path:
        before, elapsed = throttle.level, elapsed + dt
        throttle.advance(temperature, dt)
        changes += abs(throttle.level - before)
        if before and governor.trips[before - 1].temperature_c - 5 <= temperature < 80 and before < 2:
            assert throttle.level == before
        assert throttle.capacity_factor == (1.0, 0.8, 0.5)[throttle.level]
    assert changes <= elapsed / governor.step_s + 1e-6


@pytest.mark.parametrize("name", profiles.names())
def test_full_load_throttles_a_device_in_the_end_and_rest_frees_it(name: str) -> None:
    profile = profiles.load(name)
    model = ThermalModel(profile.thermal)
    idle = model.zones()
    for _ in range(3600):
        model.advance(profile.cpu.capacity * model.capacity_factor, 1)
    assert model.capacity_factor < 1
    for _ in range(4 * 3600):
        model.advance(0, 1)
    assert model.capacity_factor == 1
    assert [value for _, value in model.zones()] == pytest.approx([value for _, value in idle], abs=0.5)


@given(st.floats(2, 200))
@settings(max_examples=20, deadline=None)
def test_fast_time_is_the_same_curve_in_less_time(scale: float) -> None:
    thermal = profiles.load("rk3568").thermal
    plain, fast = ThermalModel(thermal), ThermalModel(thermal, scale)
    plain.advance(0.8, 600)
    fast.advance(0.8, 600 / scale)
    assert fast.zones()[0][1] == pytest.approx(plain.zones()[0][1], abs=0.2)


def test_a_heat_gun_holds_its_temperature_until_it_is_taken_away() -> None:
    model = ThermalModel(profiles.load("rk3568").thermal)
    model.hold_c = 90
    model.advance(0, 60)
    assert dict(model.zones())["soc-thermal"] == pytest.approx(90)
    model.hold_c = None
    model.advance(0, 3600)
    assert dict(model.zones())["soc-thermal"] < 60


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0, 3600)), max_size=30))
def test_a_battery_stays_between_empty_and_full_and_says_which_way_it_goes(loads: list[tuple[float, float]]) -> None:
    model = BatteryModel.of(Battery(5000, 80, 4000, "battery"))
    for load, dt in loads:
        before = model.charge_mah
        model.advance(load, dt)
        assert 0 <= model.level_pct <= 100
        assert (model.charge_mah >= before) or model.current_ma < 0
        assert model.status in (STATUS_CHARGING, STATUS_DISCHARGING, STATUS_FULL)
