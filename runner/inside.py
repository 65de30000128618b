"""The plugin in the farm's sandbox: the bench from attempt.json, the reporter that the relay has connected."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from farm.adb.device import Device
from runner import state
from runner.bench import ENGINE_SILENCE_S, Bench, bundle_on_device
from runner.fixtures import BENCH
from runner.records import Records
from runner.sandbox import WORK
from runner.spec import load


def configure(config: pytest.Config) -> None:
    """Set the bench up and register the hooks. Raises SpecError."""
    if state.reporter is None:
        raise pytest.UsageError("FARM_ATTEMPT is set, but this is no sandbox of the farm: unset it")
    os.chdir(WORK)
    spec = load(Path(os.environ["FARM_ATTEMPT"]))
    device = spec.devices[0]
    asked = spec.params.get("engine_silence_s")
    silence_s = float(asked) if isinstance(asked, int | float) else ENGINE_SILENCE_S
    bench = Bench(
        reporter=state.reporter,
        spec=device,
        device=Device(spec.adb_host, spec.adb_port, device.address, serial=device.serial),
        bundle=bundle_on_device(spec.bundle, device.abi, spec.params.get("engine") or {}),
        env={**spec.env.get("*", {}), **spec.env.get(device.serial, {})},
        params=spec.params,
        work=Path(WORK),
        engine_silence_s=min(silence_s, spec.limits.silence_s / 2),
    )
    config.stash[BENCH] = bench
    config.pluginmanager.register(Records(bench, spec.pack_dir, spec.tests, spec.finished), "farm_records")
