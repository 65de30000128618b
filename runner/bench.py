"""What one pytest process works with: one leased device, the bundle that lies on it, and an ear for what happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from farm.adb.device import Device
from farm.domain.measurements import Measurement
from runner.engines.base import BundleOnDevice
from runner.reporter import Reporter
from runner.spec import DeviceSpec, SpecError

#: How long an engine may say nothing; engines that write events say something at least every second.
ENGINE_SILENCE_S = 20.0


class Measuring(Protocol):
    """What engine and hooks need of the measuring of a test (`runner.measure`)."""

    @property
    def recorded(self) -> list[Measurement]: ...
    def begin(self) -> None: ...
    def iteration(self, number: int) -> None: ...
    def end(self) -> None: ...
    def finish(self) -> None: ...


@dataclass(slots=True)
class Bench:
    """Shared by fixtures and hooks of one process. `test` is the test that runs now, `measure` its measuring."""

    reporter: Reporter
    spec: DeviceSpec
    device: Device
    bundle: BundleOnDevice
    env: Mapping[str, str]
    params: Mapping[str, Any]
    work: Path
    engine_silence_s: float = ENGINE_SILENCE_S
    sandboxed: bool = True
    test: str | None = None
    measure: Measuring | None = None
    peaks: dict[str, tuple[str, float]] = field(default_factory=dict)  # figure of this test -> unit, worst value

    @property
    def serial(self) -> str:
        return self.spec.serial

    def record(self, kind: str, **fields: Any) -> None:
        """Put a record about this device, and the running test, into the journal."""
        test = {} if self.test is None else {"test": self.test}
        self.reporter.record(kind, **{**test, "device": self.serial, **fields})

    def note(self, text: str, level: str = "info") -> None:
        self.reporter.record("note", level=level, text=f"{self.spec.name}: {text}")


def bundle_on_device(bundle: Mapping[str, Any], abi: str, parameters: Mapping[str, Any]) -> BundleOnDevice:
    """The bundle of attempt.json as it lies on a device of this ABI. `parameters` go before the bundle's own.

    Raises SpecError when the bundle has no files for the ABI.
    """
    manifest = bundle.get("manifest") or {}
    directory = PurePosixPath(str(bundle.get("device_dir") or "/data/local/tmp/farm/b"))
    files = (manifest.get("files") or {}).get(abi)
    entry = str(bundle.get("entry") or manifest.get("entry") or "")
    if not files or entry not in files:
        known = ", ".join(sorted(manifest.get("files") or {})) or "none"
        raise SpecError(
            f"the bundle has no {entry or 'entry'!r} for {abi or 'an unknown ABI'}; it has files for: {known}"
        )
    budgets = {str(k): float(v) for k, v in (manifest.get("budgets") or {}).items() if isinstance(v, int | float)}
    return BundleOnDevice(
        name=str(bundle.get("name") or manifest.get("name") or ""),
        version=str(manifest.get("version") or ""),
        adapter=str(bundle.get("adapter") or manifest.get("adapter") or "events"),
        entry=entry,
        directory=directory,
        files={str(name): directory / str(path) for name, path in files.items()},
        models={str(name): directory / str(path) for name, path in (manifest.get("models") or {}).items()},
        default_model=manifest.get("default_model"),
        parameters={**(manifest.get("parameters") or {}), **parameters},
        budgets=budgets,
        generic=manifest.get("generic"),
        app=manifest.get("app"),
    )
