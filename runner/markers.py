"""The markers of a suite: what a test needs, what the device must be before it, what it may use."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import pytest

from farm.adb import health
from farm.domain.measurements import Better, Measurement
from farm.domain.selectors import SelectorError, parse
from runner.bench import Bench

_SETTLE_KEYS = {"max_temperature_c", "min_battery_pct", "timeout_s"}
_LOOK_S = 2.0


class NotSettled(Exception):
    """The device did not become what the test declares, within its bounded wait. The farm's trouble, not the test's."""


def check_needs(item: pytest.Item, bench: Bench) -> None:
    """Skip the test on a device that lacks what it needs, with what is missing."""
    facts = bench.spec.facts()
    for marker in item.iter_markers("needs"):
        for text in marker.args:
            try:
                failed = parse(str(text)).failed(facts)
            except SelectorError as error:
                raise pytest.UsageError(f"{item.nodeid}: needs({text!r}): {error}") from error
            if failed:
                pytest.skip(f"not available on {bench.spec.name}: {'; '.join(term.words() for term in failed)}")


@dataclass(frozen=True, slots=True)
class Settle:
    """What `settle` asks for. None: does not matter."""

    max_temperature_c: float | None = None
    min_battery_pct: float | None = None
    timeout_s: float = 120.0

    def lacking(self, found: health.HealthReport) -> str | None:
        """What is still missing, in words. A thing that cannot be read does not hold a test up."""
        hot, level = found.temperature_c, found.battery_pct
        if self.max_temperature_c is not None and hot is not None and hot > self.max_temperature_c:
            return f"{hot:.1f} °C ({found.temperature_source}), wanted at most {self.max_temperature_c:g} °C"
        if self.min_battery_pct is not None and level is not None and level < self.min_battery_pct:
            return f"battery at {level} %, wanted at least {self.min_battery_pct:g} %"
        return None


def settle_of(item: pytest.Item) -> Settle | None:
    """The nearest `settle` marker of a test."""
    marker = item.get_closest_marker("settle")
    if marker is None:
        return None
    unknown = set(marker.kwargs) - _SETTLE_KEYS
    if unknown or marker.args:
        raise pytest.UsageError(f"{item.nodeid}: settle takes {', '.join(sorted(_SETTLE_KEYS))} by name")
    return Settle(**{key: float(value) for key, value in marker.kwargs.items()})


def wait_settled(wanted: Settle, bench: Bench) -> float:
    """Wait until the device is what the test wants; returns the seconds waited. Raises NotSettled."""
    began = time.monotonic()
    said = 0.0
    while True:
        found = health.check(bench.device)
        lacking = wanted.lacking(found)
        waited = time.monotonic() - began
        if lacking is None:
            if waited > _LOOK_S:
                bench.note(f"settled after {waited:.0f} s")
            return waited
        if waited >= wanted.timeout_s:
            raise NotSettled(f"{bench.spec.name} did not settle within {wanted.timeout_s:g} s: {lacking}")
        if waited >= said:
            bench.note(f"waiting for the device to settle: {lacking}")
            said = waited + 10
        time.sleep(min(_LOOK_S, wanted.timeout_s - waited))


def check_budgets(item: pytest.Item, bench: Bench, measured: Iterable[Measurement]) -> None:
    """Fail the test whose figures break its budgets, or the bundle's, with the figures."""
    own: dict[str, float] = {}
    for marker in item.iter_markers("budget"):
        own = {**{key: float(value) for key, value in marker.kwargs.items()}, **own}
    figures = figures_of(measured, bench.peaks)
    broken = [
        words
        for key, limit in {**bench.bundle.budgets, **own}.items()
        if key in figures and (words := _broken(key, limit, *figures[key]))
    ]
    absent = sorted(key for key in own if key not in figures)
    if absent:
        known = ", ".join(sorted(figures)) or "none"
        broken.append(f"{', '.join(absent)}: not measured by this test (figures here: {known})")
    if broken:
        pytest.fail("over budget: " + "; ".join(broken), pytrace=False)


def figures_of(
    measured: Iterable[Measurement], peaks: Mapping[str, tuple[str, float]]
) -> dict[str, tuple[float, str, Better]]:
    """`ttft_ms` -> (median of the values that count, unit, direction). The worst, where a figure was measured twice."""
    found: dict[str, tuple[float, str, Better]] = {}
    for name, (unit, value) in peaks.items():
        found[_key(name, unit)] = (value, unit, Better.LOWER)
    for m in measured:
        value = m.median if m.median is not None else median(m.values)
        key = _key(m.name, m.unit)
        if key in found:
            worst: Any = min if m.better is Better.HIGHER else max
            value = worst(value, found[key][0])
        found[key] = (value, m.unit, m.better)
    return found


def _broken(key: str, limit: float, value: float, unit: str, better: Better) -> str | None:
    if better is Better.HIGHER:
        return f"{key} is {value:.4g} {unit}, at least {limit:g} wanted" if value < limit else None
    return f"{key} is {value:.4g} {unit}, at most {limit:g} allowed" if value > limit else None


def _key(name: str, unit: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", f"{name}_{unit}".lower()).strip("_")
