"""What an attempt is told: `attempt.json`, written by the agent before the runner starts.

    {"attempt": 17, "run": 4, "token": 9,
     "devices": [{"id", "serial", "name", "address", "abi", "labels": {}, "virtual": bool, "temperature_c": null}],
     "adb": {"host", "port"}, "bundle": {"hash", "name", "adapter", "entry", "manifest": {…}, "device_dir"},
     "pack_dir": "/abs/path", "suites": ["smoke"], "tests": null | [ids], "finished": [ids], "env": {"SERIAL": {K: V}},
     "params": {}, "limits": {"attempt_s", "suite_s", "silence_s"}, "locks_dir", "state_dir": null | "/abs/path",
     "measure_slots": 1, "fence_s": 24}

Unknown keys are ignored, so that a newer agent can start an older runner.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAX_SPEC_BYTES = 8 << 20


class SpecError(ValueError):
    """attempt.json cannot be used; the message says which part and why."""


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A leased device. `serial` is its own (ro.serialno), `address` what adb calls it."""

    serial: str
    address: str
    name: str
    abi: str
    id: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    virtual: bool = False
    temperature_c: float | None = None

    def facts(self) -> dict[str, str]:
        """The flat view that selectors match."""
        flat = {str(key): str(value) for key, value in self.labels.items()}
        flat.update(serial=self.serial, name=self.name, abi=self.abi, virtual="true" if self.virtual else "false")
        return flat


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds. `attempt_s` bounds everything, `suite_s` one suite, `silence_s` the time without any sign of life."""

    attempt_s: float = 3600.0
    suite_s: float = 600.0
    silence_s: float = 60.0


@dataclass(frozen=True, slots=True)
class AttemptSpec:
    """The whole of attempt.json, checked."""

    attempt: int
    run: int
    token: int
    devices: tuple[DeviceSpec, ...]
    adb_host: str
    adb_port: int
    bundle: Mapping[str, Any]
    pack_dir: Path
    suites: tuple[str, ...]
    tests: tuple[str, ...] | None
    finished: tuple[str, ...]
    env: Mapping[str, Mapping[str, str]]
    params: Mapping[str, Any]
    limits: Limits
    locks_dir: Path
    state_dir: Path | None  # the farm's; None: this is nobody's farm
    measure_slots: int
    fence_s: float | None

    @property
    def serials(self) -> tuple[str, ...]:
        return tuple(device.serial for device in self.devices)


def load(path: Path) -> AttemptSpec:
    """Read and check attempt.json. Raises SpecError."""
    try:
        if path.stat().st_size > MAX_SPEC_BYTES:
            raise SpecError(f"{path}: larger than {MAX_SPEC_BYTES} bytes")
        data = json.loads(path.read_text())
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SpecError(f"{path}: is not JSON: {error}") from error
    return parse(data)


def parse(data: Mapping[str, Any]) -> AttemptSpec:
    """The checked form of attempt.json's object. Raises SpecError that names the key."""
    try:
        adb = data.get("adb") or {}
        tests = data.get("tests")
        fence = data.get("fence_s")
        spec = AttemptSpec(
            attempt=int(data["attempt"]),
            run=int(data.get("run") or 0),
            token=int(data.get("token") or 0),
            devices=tuple(_device(item) for item in data["devices"]),
            adb_host=str(adb.get("host") or "127.0.0.1"),
            adb_port=int(adb.get("port") or 5037),
            bundle=dict(data["bundle"]),
            pack_dir=Path(str(data["pack_dir"])),
            suites=tuple(str(name) for name in data["suites"]),
            tests=None if tests is None else tuple(str(test) for test in tests),
            finished=tuple(str(test) for test in data.get("finished") or ()),
            env={str(s): {str(k): str(v) for k, v in kv.items()} for s, kv in (data.get("env") or {}).items()},
            params=dict(data.get("params") or {}),
            limits=_limits(data.get("limits") or {}),
            locks_dir=Path(str(data["locks_dir"])),
            state_dir=Path(str(data["state_dir"])) if data.get("state_dir") else None,
            measure_slots=max(1, int(data.get("measure_slots") or 1)),
            fence_s=None if fence is None else float(fence),
        )
    except KeyError as error:
        raise SpecError(f"attempt.json: {error} is missing") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise SpecError(f"attempt.json: {error}") from error
    if not spec.devices:
        raise SpecError("attempt.json: devices is empty: an attempt needs at least one leased device")
    if not spec.suites:
        raise SpecError("attempt.json: suites is empty")
    return spec


def _device(item: Mapping[str, Any]) -> DeviceSpec:
    temperature = item.get("temperature_c")
    return DeviceSpec(
        serial=str(item["serial"]),
        address=str(item.get("address") or item["serial"]),
        name=str(item.get("name") or item["serial"]),
        abi=str(item.get("abi") or ""),
        id=int(item.get("id") or 0),
        labels={str(k): str(v) for k, v in (item.get("labels") or {}).items()},
        virtual=bool(item.get("virtual")),
        temperature_c=None if temperature is None else float(temperature),
    )


def _limits(item: Mapping[str, Any]) -> Limits:
    given = {name: float(item[name]) for name in ("attempt_s", "suite_s", "silence_s") if item.get(name) is not None}
    if any(not value > 0 for value in given.values()):
        raise SpecError("attempt.json: limits must be positive seconds")
    return Limits(**given)
