"""The bundle goes to the device: only what it lacks, by content."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from farm.adb.push_cache import BUNDLES_DIR, FileSpec, deploy
from farm.domain.bundles import device_paths
from farm.domain.causes import Cause
from farm.domain.devices import Health
from farm.domain.outcomes import Outcome
from farm.domain.words import size
from farm.work.hold import held
from farm.work.precheck import ensure_logcat
from farm.work.step import Cut, Step

#: The name under which bundles carry the farm's device-side tool; without it the device's own tools do, slower.
DEVTOOL = "farm-devtool"


def device_dir(bundle_hash: str) -> str:
    """Where a bundle lies on a device."""
    return f"{BUNDLES_DIR}/{bundle_hash[:16]}"


def deploy_bundle(step: Step) -> None:
    """Wait for one of the host's places to push from, then push."""
    ensure_logcat(step)
    step.wait_online(step.work.settings.online_wait_s)
    files, devtool = file_specs(step)
    while not step.work.pushes.acquire(timeout=0.2):
        step.say("a place to push from: other devices of this host are being sent to")
        step.check()
    try:
        with held(step):
            report = deploy(
                step.device(),
                files,
                device_dir(step.bundle.hash),
                devtool=devtool,
                stamps=step.work.stamps(step.device_row.serial),
                doubt=step.device_row.health != Health.GOOD.value,
                progress=lambda sent, total: step.say(f"the push: {size(sent)} of {size(total)}"),
                cancelled=_asker(step),
            )
    finally:
        step.work.pushes.release()
    step.detail.update(
        bytes_sent=report.bytes_sent,
        bytes_kept=report.bytes_kept,
        files_sent=report.files_sent,
        verified=report.verified,
        seconds_push=round(report.seconds_push, 3),
        seconds_verify=round(report.seconds_verify, 3),
    )


def _local(step: Step, path: str, sha256: str) -> Path:
    """The file on this host. One that the farm's store has lost fails on every device alike: Cut."""
    try:
        return step.work.artifacts.local_path(sha256)
    except FileNotFoundError:
        words = f"the farm's store has no {path} of the bundle any more: send the bundle again"
        raise Cut(Outcome.DEPLOY_FAILED, words, Cause.MISSING_FILE) from None


def file_specs(step: Step) -> tuple[list[FileSpec], FileSpec | None]:
    """Every file that the device gets, and which of them is the device-side tool."""
    manifest, abi = step.bundle.manifest, step.device_row.labels["abi"]
    specs = {
        path: FileSpec(
            remote=path,
            local=_local(step, path, entry["sha256"]),
            sha256=entry["sha256"],
            size=entry["size"],
            mode=entry["mode"],
        )
        for path in device_paths(manifest, abi)
        for entry in (manifest["content"][path],)
    }
    tool = manifest["files"][abi].get(DEVTOOL)
    return list(specs.values()), specs.get(tool) if tool else None


def _asker(step: Step) -> Callable[[], bool]:
    """Asked between pieces: a cancel, a lost lease or a stop of the farm raises from here; 5 looks a second."""
    asked = 0.0

    def cancelled() -> bool:
        nonlocal asked
        if time.monotonic() - asked > 0.2:
            asked = time.monotonic()
            step.check()
        return False

    return cancelled
