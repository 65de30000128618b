"""Apps as engines on a virtual device: figures through status lines, and each way to end badly by its cause."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from engine.app_package import PACKAGE, write_apk, write_app_bundle
from farm.adb.push_cache import BUNDLES_DIR, FileSpec, deploy
from farm.domain.bundles import device_paths, read_bundle
from farm.domain.executables import HEAD, misfits
from farm.domain.outcomes import Outcome
from runner.bench import bundle_on_device
from runner.engines.app import AppAdapter
from runner.engines.base import AppNotResponding, EngineCrashed, EngineExit, EngineRequest
from runner.engines.process import Runner
from tests.runner.attempts import Attempts, write_pack
from tests.runner.test_engines import Ear
from virtual import fleet

TARGET = f"{BUNDLES_DIR}/0123456789abcdee"
ASKED = EngineRequest(prompt="once upon a time", n_predict=6, repeat=2)
Make = Callable[..., tuple[AppAdapter, Ear]]


@pytest.fixture(scope="session")
def app_manifest(
    app_bin: Path, devtool_bin: Path, models_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("app-bundle")
    path = write_app_bundle(folder, app_bin, devtool_bin, {"tiny-q4_0": models_dir / "tiny-q4_0.gguf"})
    return folder, read_bundle(path.read_text())


@pytest.fixture
def app(attempts: Attempts, phone: fleet.Running, app_manifest: tuple[Path, dict[str, Any]]) -> Any:
    """`app(**changes of the part app)` gives the adapter on the shared device."""
    folder, manifest = app_manifest
    device = attempts.device(phone)
    specs = []
    for name in device_paths(manifest, "x86_64"):
        data = (folder / name).read_bytes()
        specs.append(FileSpec(name, folder / name, hashlib.sha256(data).hexdigest(), len(data), 0o644))
    deploy(device, specs, TARGET, devtool=None)
    made: list[AppAdapter] = []

    def make(**changes: Any) -> tuple[AppAdapter, Ear]:
        ear = Ear()
        told = {**manifest, "app": {**manifest["app"], **changes}}
        bundle = bundle_on_device({"manifest": told, "device_dir": TARGET}, "x86_64", {})
        made.append(AppAdapter(Runner(device, phone.serial, ear, TARGET, {}), bundle))
        return made[-1], ear

    yield make
    for adapter in made:
        adapter.close()
    assert PACKAGE not in device.shell("pm list packages -3").stdout
    assert device.shell(["pidof", PACKAGE]).stdout == ""


def extra(**values: str) -> tuple[str, ...]:
    return tuple(word for key, value in values.items() for word in ("-e", key, value))


def test_an_app_reports_figures_stages_and_text_like_a_program(
    app: Make, attempts: Attempts, phone: fleet.Running
) -> None:
    adapter, _ = app()
    iterations: list[int] = []
    result = adapter.run(ASKED, 30.0, iterations.append)
    assert len(result.texts) == 2
    assert {figure.name for figure in result.figures} >= {"decode_rate", "ttft"}
    assert all(len(figure.values) == 2 for figure in result.figures if figure.name == "decode_rate")
    assert any(stage.name == "prefill" for stage in result.stages)
    assert iterations.count(0) == iterations.count(1) == 1
    again = adapter.run(ASKED, 30.0)
    assert again.texts == result.texts
    installed = attempts.device(phone).shell(["pm", "list", "packages", "-3"]).stdout
    assert installed == f"package:{PACKAGE}\n"


def test_its_memory_is_that_of_the_app_s_own_process(app: Make) -> None:
    adapter, ear = app()
    adapter.run(
        EngineRequest(prompt="x", n_predict=400, repeat=40, ignore_eos=True, extra=extra(ignore_eos="true")), 30.0
    )
    pids = {pid for pid, alive in ear.engines if alive and pid is not None}
    assert len(pids) == 1


def test_an_app_whose_main_thread_waits_for_a_lock_is_an_anr_with_its_trace(app: Make) -> None:
    adapter, _ = app()
    with pytest.raises(AppNotResponding) as failure:
        adapter.run(EngineRequest(prompt="x", n_predict=6, extra=extra(block="lock")), 60.0)
    assert failure.value.cause == Outcome.HUNG
    assert failure.value.details["cause"] == "lock"
    evidence = failure.value.evidence
    assert "am_anr" in evidence
    assert "waiting to lock" in evidence
    assert "held by thread" in evidence
    assert "com.farm.bench.Session.run" in evidence


@pytest.mark.slow
@pytest.mark.parametrize(
    ("block", "cause"), [("binder", "binder"), ("inference", "inference"), ("disk", "disk"), ("idle", "idle")]
)
def test_each_other_way_to_keep_the_main_thread_is_named(app: Make, block: str, cause: str) -> None:
    adapter, _ = app()
    long = {"n_predict": 400, "repeat": 400, "ignore_eos": True} if block == "inference" else {"n_predict": 6}
    asked = EngineRequest(prompt="x", extra=extra(block=block, ignore_eos="true"), **long)  # type: ignore[arg-type]
    with pytest.raises(AppNotResponding) as failure:
        adapter.run(asked, 60.0)
    assert cause in failure.value.details["cause"], failure.value.evidence


def test_an_app_that_crashes_is_a_crash_with_the_device_s_account(app: Make) -> None:
    adapter, _ = app()
    with pytest.raises(EngineCrashed) as failure:
        adapter.run(EngineRequest(prompt="x", n_predict=6, extra=extra(fault="crash=decode")), 30.0)
    assert "in stage decode" in str(failure.value)
    assert "Fatal signal 11" in failure.value.evidence


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"instrumentation": "com.farm.bench/.Missing"}, "not started: Unable to find instrumentation info"),
        ({"permissions": ["android.permission.CAMERA"]}, "has not requested permission"),
    ],
)
def test_what_cannot_be_started_says_why(app: Make, changes: dict[str, Any], words: str) -> None:
    adapter, _ = app(**changes)
    with pytest.raises(EngineExit, match=words):
        adapter.run(ASKED, 30.0)


def test_an_apk_for_another_abi_is_refused_by_the_device_with_its_words(
    app: Make, attempts: Attempts, phone: fleet.Running, tmp_path: Path, app_bin: Path
) -> None:
    adapter, _ = app()
    device = attempts.device(phone)
    device.push(write_apk(tmp_path / "other.apk", app_bin, "arm64-v8a"), f"{TARGET}/bin/x86_64/other.apk")
    other = {"app.apk": PurePosixPath(TARGET) / "bin/x86_64/other.apk"}
    adapter = AppAdapter(adapter._runner, replace(adapter._bundle, files=other))
    with pytest.raises(EngineExit, match="INSTALL_FAILED_NO_MATCHING_ABIS"):
        adapter.run(ASKED, 30.0)


SUITE = """
def test_app(engine):
    result = engine.run(prompt_tokens=8, n_predict=400, repeat=60, extra=("-e", "ignore_eos", "true"))
    assert engine.adapter == "app"
    assert result.figure("decode_rate")
"""


def test_an_attempt_with_an_app_has_its_memory_and_leaves_no_package(
    app: Make, attempts: Attempts, phone: fleet.Running, app_manifest: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    manifest = app_manifest[1]
    bundle = {"adapter": "app", "entry": "app.apk", "manifest": manifest, "device_dir": TARGET}
    pack = write_pack(tmp_path / "pack", {"s/test_app.py": SUITE})
    attempt = attempts.make(phone, pack, "s", bundle=bundle)
    assert attempt.run().fields["outcome"] == "passed"
    assert max(v for record in attempt.records("series", name="engine_rss") for v in record.fields["values"]) > 1
    assert any(record.fields["name"] == "decode" for record in attempt.records("stage"))
    assert attempts.device(phone).shell("pm list packages -3").stdout == ""


def test_an_entry_that_is_no_archive_is_refused_before_anything_is_sent(
    app_manifest: tuple[Path, dict[str, Any]],
) -> None:
    folder, manifest = app_manifest

    def head(path: str) -> bytes:
        return (folder / path).read_bytes()[:HEAD]

    assert misfits(manifest, head) == []
    assert misfits(manifest, lambda path: b"\x7fELF" if path.endswith(".apk") else head(path)) == [
        "bin/x86_64/app.apk is no APK: it is no zip archive"
    ]
