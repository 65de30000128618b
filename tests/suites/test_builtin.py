"""The built-in pack on virtual devices: every suite says something, and the skips say why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from farm.domain.packs import read_pack
from tests.devices import AdbServer, StartVirtualDevice
from tests.runner.attempts import ROOT, Attempt, Attempts, Bundle

PACK = ROOT / "suites"


@pytest.fixture(scope="module")
def small_bundle(
    engine_bin: Path, devtool_bin: Path, models_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Bundle:
    return Bundle.make(tmp_path_factory.mktemp("bundle"), engine_bin, devtool_bin, models_dir, model="small-q4_0")


@pytest.fixture
def attempts(tmp_path: Path, adb_server: AdbServer, small_bundle: Bundle) -> Iterator[Attempts]:
    made = Attempts(tmp_path, adb_server.port, small_bundle)
    yield made
    made.close()


def test_the_manifest_is_a_pack_and_names_folders_with_tests() -> None:
    suites = read_pack((PACK / "suite.yaml").read_text())["suites"]
    assert set(suites) == {"smoke", "fingerprint", "latency"}
    for suite in suites.values():
        assert list((PACK / suite["path"]).glob("test_*.py"))


@pytest.mark.parametrize("profile", ["pixel-8-pro", "rk3568"])
def test_the_whole_pack_passes_on_a_device(
    attempts: Attempts, virtual_device: StartVirtualDevice, profile: str
) -> None:
    attempt = attempts.make(virtual_device(profile), PACK, "smoke", "fingerprint", "latency")
    end = attempt.run()
    assert end.fields["outcome"] == "passed", f"{end.fields}\n{attempt.log()}"
    assert set(attempt.outcomes().values()) == {"passed"}, attempt.log()
    assert not attempt.records("incident")
    names = {r.fields["name"] for r in attempt.records("measurement")}
    assert names >= {"ttft", "prefill_rate", "decode_rate", "start_up", "memory_bandwidth", "page_size", "memory_total"}
    for record in attempt.records("measurement", name="decode_rate"):
        assert len(record.fields["values"]) == 5
        assert record.fields["unit"] == "tok/s"
    (whole,) = (r for r in attempt.records("fingerprint") if not r.fields.get("partial"))
    assert whole.fields["facts"]["properties"]["ro.farm.virtual"] == "1"
    assert whole.fields["facts"]["cpu"]["features"]
    assert whole.fields["facts"]["thermal_zones"]


def test_a_crashing_engine_makes_the_attempt_crashed(attempts: Attempts, virtual_device: StartVirtualDevice) -> None:
    device = virtual_device("pixel-8-pro")
    env = {device.serial: {"FARM_ENGINE_FAULT": "crash=decode"}}
    attempt = attempts.make(device, PACK, "smoke", env=env)
    end = attempt.run()
    assert end.fields["outcome"] == "crashed"
    assert attempt.outcomes()["test_says_what_it_is"] == "passed"
    assert attempt.outcomes()["test_generates_the_same_text_twice"] == "failed"
    incident = attempt.records("incident", **{"class": "engine-crashed"})[0]
    assert "*** ***" in incident.fields["evidence"]


def rate(attempt: Attempt) -> float:
    (record,) = attempt.records("measurement", name="decode_rate")
    return median(record.fields["values"])


@pytest.mark.slow
def test_a_decoder_that_works_twice_as_hard_is_half_as_fast(
    attempts: Attempts, virtual_device: StartVirtualDevice
) -> None:
    """Interleaved, so that a loaded machine slows both alike; wide bounds, since this is no benchmark."""
    device = virtual_device("pixel-8-pro")
    test = ["latency/test_latency.py::test_generation"]
    env = {device.serial: {"FARM_ENGINE_FAULT": "slow-stage=decode:2.0"}}
    plain, slow = [], []
    for _ in range(4):
        for found, changes in ((plain, {}), (slow, {"env": env})):
            attempt = attempts.make(device, PACK, "latency", tests=test, **changes)
            attempt.run()
            found.append(rate(attempt))
    assert 1.6 < median(plain) / median(slow) < 2.5


@pytest.mark.slow
def test_a_foreign_engine_runs_the_same_pack(
    tmp_path: Path, adb_server: AdbServer, virtual_device: StartVirtualDevice
) -> None:
    """llama.cpp's own llama-bench, which knows nothing of the farm."""
    import yaml

    from engine import llama_bench

    folder = tmp_path / "llama-bench"
    llama_bench.package_llama_bench(folder, 2, print)
    manifest = yaml.safe_load((folder / "bundle.yaml").read_text())
    made = Attempts(tmp_path, adb_server.port, Bundle(folder, manifest))
    bundle = {"adapter": "llama-bench", "entry": manifest["entry"]}
    try:
        attempt = made.make(virtual_device("pixel-8-pro"), PACK, "smoke", "latency", bundle=bundle)
        end = attempt.run()
    finally:
        made.close()
    assert end.fields["outcome"] == "passed", f"{end.fields}\n{attempt.log()}"
    rates = {r.fields["name"]: r.fields["values"] for r in attempt.records("measurement")}
    assert len(rates["decode_rate"]) == 5
    skipped = {
        r.fields["test"].split("::")[-1]: r.fields["message"] for r in attempt.records("test_end", outcome="skipped")
    }
    assert "llama-bench reports no text" in skipped["test_generates_the_same_text_twice"]
