"""Verdicts: noise is not called a regression, a regression is, and the same runs always say the same."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.domain.verdicts import PrVerdict, Run, Series, Verdict, judge, pairs_needed
from farm.domain.verdicts.judge import adjusted
from farm.domain.verdicts.sequential import LOOKS, boundary, height_for, p_value


def series(
    effect: float = 0.0,
    *,
    pairs: int = 40,
    scatter: float = 0.02,
    seed: int = 1,
    unit: str = "ms",
    better: str = "lower",
) -> Series:
    """ABBA runs around 100 with normal scatter; B is larger by `effect`."""
    rng = np.random.default_rng(seed)
    arms = ["A", "B", "B", "A"] * (pairs // 2 + 1)
    runs = tuple(
        Run(arm, float(100 * np.exp(rng.normal(0, scatter)) * (1 + effect * (arm == "B")))) for arm in arms[: 2 * pairs]
    )
    return Series(id=f"s{seed}", runs=runs, unit=unit, better=better)


def verdict(one: Series) -> Verdict:
    return judge([one]).series[0].verdict


def test_a_clear_regression_is_found_with_its_size() -> None:
    found = judge([series(0.05)]).series[0]
    assert found.verdict is Verdict.REGRESSED
    assert found.effect == pytest.approx(0.05, abs=0.015)
    assert found.ci is not None
    assert found.ci[0] < 0.05 < found.ci[1]
    assert found.needs == 0


def test_what_is_better_when_higher_regresses_when_it_falls() -> None:
    assert verdict(series(-0.05, better="higher")) is Verdict.REGRESSED
    assert verdict(series(0.05, better="higher")) is Verdict.IMPROVED


def test_runs_of_one_build_are_unchanged() -> None:
    assert verdict(series(0.0)) is Verdict.UNCHANGED
    assert judge([series(seed=n) for n in range(30)]).pr is PrVerdict.PASSED


def test_a_difference_below_the_least_effect_is_no_regression_however_sure() -> None:
    sure = series(0.005, scatter=0.001)
    assert verdict(sure) is Verdict.UNCHANGED
    assert verdict(replace(sure, min_effect=0.002)) is Verdict.REGRESSED


def test_noise_says_how_many_more_pairs_it_needs() -> None:
    noisy = judge([series(0.0, pairs=10, scatter=0.05)]).series[0]
    assert noisy.verdict is Verdict.INCONCLUSIVE
    assert noisy.needs is not None
    assert noisy.needs % 10 == 0
    hopeless = judge([series(0.0, pairs=80, scatter=0.3)]).series[0]
    assert (hopeless.verdict, hopeless.needs) == (Verdict.INCONCLUSIVE, None)


def test_fewer_than_ten_pairs_decide_nothing() -> None:
    assert verdict(series(0.5, pairs=9)) is Verdict.INCONCLUSIVE
    assert verdict(Series(id="empty", runs=())) is Verdict.INCONCLUSIVE


def test_drift_and_heat_that_both_runs_of_a_pair_share_cancel() -> None:
    calm = series(0.0, scatter=0.005)
    drifting = replace(
        calm, runs=tuple(replace(r, value=(r.value or 0) * (1 + 0.01 * i)) for i, r in enumerate(calm.runs))
    )
    throttled = replace(
        calm, runs=tuple(replace(r, value=(r.value or 0) * (1.4 if i >= 40 else 1)) for i, r in enumerate(calm.runs))
    )
    assert verdict(drifting) is Verdict.UNCHANGED
    assert verdict(throttled) is Verdict.UNCHANGED


def test_wild_runs_on_one_side_turn_no_verdict() -> None:
    calm = series(0.0, scatter=0.01)
    wild = tuple(
        replace(r, value=(r.value or 0) * 3) if r.arm == "B" and i % 16 == 1 else r for i, r in enumerate(calm.runs)
    )
    assert verdict(replace(calm, runs=wild)) is Verdict.UNCHANGED


@pytest.mark.parametrize("value", [None, 0.0, -1.0, math.inf, math.nan])
def test_figures_that_are_missing_break_the_series_when_they_are_many(value: float | None) -> None:
    whole = series(0.2)
    holes = replace(whole, runs=tuple(replace(r, value=value) if i % 5 == 0 else r for i, r in enumerate(whole.runs)))
    judged = judge([holes])
    assert judged.pr is PrVerdict.BROKEN
    assert "missing samples" in judged.series[0].reason


def test_runs_that_may_not_be_believed_decide_nothing() -> None:
    whole = series(0.2)
    marked = replace(
        whole, runs=tuple(replace(r, marks=("throttled",)) if i >= 30 else r for i, r in enumerate(whole.runs))
    )
    judged = judge([marked]).series[0]
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert "throttled" in judged.reason


def test_a_clock_of_whole_milliseconds_cannot_judge_twelve_of_them() -> None:
    ticking = series(0.05, scatter=0.03)
    coarse = replace(ticking, runs=tuple(replace(r, value=float(round((r.value or 0) * 0.12))) for r in ticking.runs))
    judged = judge([coarse]).series[0]
    assert judged.verdict is Verdict.BROKEN
    assert "clock resolution" in judged.reason


def test_a_count_that_is_always_the_same_may_still_regress() -> None:
    counted = Series(
        id="peak", unit="B", runs=tuple(Run(arm, 1100.0 if arm == "B" else 1000.0) for arm in ["A", "B", "B", "A"] * 20)
    )
    assert verdict(counted) is Verdict.REGRESSED
    same = replace(counted, runs=tuple(replace(r, value=1000.0) for r in counted.runs))
    assert verdict(same) is Verdict.UNCHANGED


def test_a_gate_that_failed_before_is_broken_whatever_the_figures_say() -> None:
    judged = judge([replace(series(0.5), broken="stale binary: the hash on the device is another")])
    assert judged.pr is PrVerdict.BROKEN
    assert "stale binary" in judged.series[0].reason


def test_red_outranks_broken_and_broken_outranks_undecided() -> None:
    red, broken, undecided = series(0.2), replace(series(), id="b", broken="x"), replace(series(pairs=2), id="u")
    assert judge([red, broken, undecided]).pr is PrVerdict.REGRESSED
    assert judge([broken, undecided]).pr is PrVerdict.BROKEN
    assert judge([undecided]).pr is PrVerdict.INCONCLUSIVE
    assert judge([]).pr is PrVerdict.INCONCLUSIVE


@given(st.integers(0, 10_000), st.floats(-0.1, 0.1), st.integers(5, 80))
@settings(max_examples=40, deadline=None)
def test_swapping_the_order_in_pairs_or_the_builds_mirrors_the_verdict(seed: int, effect: float, pairs: int) -> None:
    one = series(effect, pairs=pairs, seed=seed, scatter=0.04)
    turned = tuple(r for i in range(0, 2 * pairs, 2) for r in (one.runs[i + 1], one.runs[i]))
    assert judge([replace(one, runs=turned)]) == judge([one])
    mirror = replace(one, runs=tuple(replace(r, arm="B" if r.arm == "A" else "A") for r in one.runs))
    opposite = {Verdict.REGRESSED: Verdict.IMPROVED, Verdict.IMPROVED: Verdict.REGRESSED}
    assert verdict(mirror) is opposite.get(verdict(one), verdict(one))


@given(st.lists(st.tuples(st.sampled_from("AB"), st.one_of(st.none(), st.floats())), max_size=60))
@settings(max_examples=80, deadline=None)
def test_any_runs_at_all_get_a_verdict(runs: list[tuple[str, float | None]]) -> None:
    judged = judge([Series(id="x", unit="ms", runs=tuple(Run(a, v) for a, v in runs))]).series[0]
    assert judged.effect is None or math.isfinite(judged.effect)
    assert judged.p is None or 0 <= judged.p <= 1


def test_adjusting_for_many_series_is_benjamini_and_hochberg() -> None:
    assert adjusted([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert adjusted([]) == []


def test_noise_crosses_the_boundary_as_often_as_its_p_says() -> None:
    rng = np.random.default_rng(7)
    walks = rng.normal(size=(40_000, LOOKS)).cumsum(axis=1) / np.sqrt(np.arange(1, LOOKS + 1))
    heights = (walks / np.array([boundary(k) for k in range(1, LOOKS + 1)])).max(axis=1)
    for p in (0.1, 0.05, 0.01):
        assert np.mean(heights >= height_for(p)) == pytest.approx(p, rel=0.15)
        assert np.mean([p_value(list(walk)) <= p for walk in walks[:8000]]) == pytest.approx(p, rel=0.25)
    assert p_value([0.0]) > 0.5
    assert p_value([]) == 1.0


def test_a_p_value_never_grows_with_further_looks() -> None:
    looks = [1.0, 2.5, 0.3, -1.0]
    values = [p_value(looks[:n]) for n in range(1, 5)]
    assert values == sorted(values, reverse=True)


def test_planning_asks_for_more_pairs_where_there_is_more_noise() -> None:
    assert pairs_needed(0.02, 0.05) == 10
    few, many = pairs_needed(0.05, 0.05, alpha=0.05 / 30), pairs_needed(0.08, 0.05, alpha=0.05 / 30)
    assert few is not None
    assert many is not None
    assert few < many
    assert pairs_needed(0.5, 0.01) is None
