"""The device becomes what the suites ask for before they start: cool enough, for a bounded time, in plain sight."""

from __future__ import annotations

import time

from farm.adb import health
from farm.domain.causes import Cause
from farm.domain.jobs import settle_of
from farm.domain.outcomes import Outcome
from farm.work.precheck import ensure_logcat
from farm.work.step import Cut, Step


def settle(step: Step) -> None:
    """Wait for the lowest temperature that a suite of this attempt asks for. Too hot for too long is farm trouble."""
    ensure_logcat(step)
    wish = settle_of(step.pack.manifest, step.job.suites)
    limit = wish.get("max_temperature_c")
    if limit is None:
        return
    wait_s = wish.get("timeout_s", step.work.settings.settle_limit_s)
    began = time.monotonic()
    while True:
        step.wait_online(step.work.settings.online_wait_s)
        heat = health.check(step.device()).temperature_c
        step.note_temperature(heat)
        step.detail.update(max_temperature_c=limit, temperature_c=heat, waited_s=round(time.monotonic() - began, 1))
        if heat is None:
            step.detail["note"] = "temperature not measured: the device does not tell"
            return
        if heat <= limit:
            return
        if time.monotonic() - began >= wait_s:
            words = f"{step.device_row.name} did not cool to {limit:g} °C within {wait_s:g} s (it has {heat:.1f} °C)"
            raise Cut(Outcome.INFRA_ERROR, words, Cause.NOT_SETTLED)
        step.say(f"{step.device_row.name} to cool to {limit:g} °C (now {heat:.1f} °C)")
        step.check()
        step.pause(1.0)
