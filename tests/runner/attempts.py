"""Attempts on a virtual device, run as the farm's agent runs them: a folder, and a supervisor started on it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.package import write_bundle
from farm.adb.device import Device
from farm.adb.push_cache import BUNDLES_DIR, FileSpec, deploy
from farm.domain.bundles import device_paths, read_bundle
from farm.domain.journal import Record
from runner.journal import read
from virtual import fleet

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 180.0


@dataclass
class Attempt:
    """One attempt's folder, and what its journal says."""

    folder: Path
    spec: dict[str, Any]
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self) -> subprocess.Popen[str]:
        """Start the supervisor and return at once."""
        (self.folder / "attempt.json").write_text(json.dumps(self.spec))
        process = subprocess.Popen(
            [sys.executable, "-m", "runner.session", str(self.folder)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def run(self) -> Record:
        """Run to the end; the `end` record."""
        process = self.start()
        said = process.communicate(timeout=LIMIT_S)[0]
        assert process.returncode == 0, said
        return self.end()

    def end(self) -> Record:
        records = self.records()
        assert records, "the journal is empty"
        assert records[-1].kind == "end", f"the last record is {records[-1]}"
        return records[-1]

    def records(self, kind: str | None = None, **fields: object) -> list[Record]:
        found = [r for r in read(self.folder / "journal.jsonl") if kind is None or r.kind == kind]
        return [r for r in found if all(r.fields.get(k) == v for k, v in fields.items())]

    def outcomes(self) -> dict[str, str]:
        """Short name of a test -> outcome."""
        return {r.fields["test"].split("::")[-1]: r.fields["outcome"] for r in self.records("test_end")}

    def incidents(self, klass: str) -> list[str]:
        return [str(r.fields["summary"]) for r in self.records("incident") if r.fields["class"] == klass]

    def log(self) -> str:
        return (self.folder / "runner.log").read_text(errors="replace")

    def stop(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait(30)
            if process.stdout is not None:
                process.stdout.close()


@dataclass(frozen=True)
class Bundle:
    """The reference engine with one of its models, laid out once."""

    folder: Path
    manifest: dict[str, Any]

    @classmethod
    def make(cls, folder: Path, engine: Path, devtool: Path, models: Path, model: str = "tiny-q4_0") -> Bundle:
        path = write_bundle(
            folder,
            name="reference",
            adapter="events",
            entry="farm-engine",
            abi="x86_64",
            programs={"farm-engine": engine, "farm-devtool": devtool},
            models={model: models / f"{model}.gguf"},
        )
        return cls(folder, read_bundle(path.read_text()))

    def deploy(self, device: Device) -> str:
        """Put it on the device; returns its folder there."""
        specs = []
        for name in device_paths(self.manifest, "x86_64"):
            local = self.folder / name
            data = local.read_bytes()
            mode = 0o755 if name.startswith("bin/") else 0o644
            specs.append(FileSpec(name, local, hashlib.sha256(data).hexdigest(), len(data), mode))
        target = f"{BUNDLES_DIR}/0123456789abcdef"
        deploy(device, specs, target, devtool=None)
        return target


class Attempts:
    """Makes attempts on one adb server."""

    def __init__(self, root: Path, adb_port: int, bundle: Bundle) -> None:
        self._root, self._port, self._bundle = root, adb_port, bundle
        self._deployed: dict[str, str] = {}
        self._made: list[Attempt] = []

    def device(self, running: fleet.Running) -> Device:
        return Device("127.0.0.1", self._port, running.address, serial=running.serial)

    def make(self, running: fleet.Running, pack: Path, *suites: str, **changes: Any) -> Attempt:
        """An attempt of these suites on a device. `changes` go into attempt.json."""
        if running.serial not in self._deployed:
            self._deployed[running.serial] = self._bundle.deploy(self.device(running))
        number = len(self._made) + 1
        folder = self._root / f"attempt-{number}"
        folder.mkdir()
        spec: dict[str, Any] = {
            "attempt": number,
            "run": 1,
            "token": 1,
            "devices": [self._told(running)],
            "adb": {"host": "127.0.0.1", "port": self._port},
            "bundle": {
                "hash": "0" * 64,
                "name": "reference",
                "adapter": "events",
                "entry": "farm-engine",
                "manifest": self._bundle.manifest,
                "device_dir": self._deployed[running.serial],
            },
            "pack_dir": str(pack),
            "suites": list(suites),
            "locks_dir": str(self._root / "locks"),
            "state_dir": str(self._root),
            "measure_slots": 1,
            "limits": {"attempt_s": 170, "suite_s": 160, "silence_s": 60},
            "params": {},
        }
        made = Attempt(folder, _merged(spec, changes))
        self._made.append(made)
        return made

    def close(self) -> None:
        for attempt in self._made:
            attempt.stop()

    @staticmethod
    def _told(running: fleet.Running) -> dict[str, Any]:
        return {
            "id": 1,
            "serial": running.serial,
            "name": f"{running.profile}-1",
            "address": running.address,
            "abi": "x86_64",
            "labels": {"soc": "Tensor G3"},
            "virtual": True,
            "temperature_c": None,
        }


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = {**merged[key], **value} if both else value
    return merged


def write_pack(folder: Path, files: Mapping[str, str], **suites: Mapping[str, Any]) -> Path:
    """A suite pack of these files; one suite per top folder unless told otherwise."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    declared = suites or {name.split("/")[0]: {"path": name.split("/")[0]} for name in files}
    (folder / "suite.yaml").write_text(json.dumps({"format": 1, "name": "test", "suites": declared}))
    return folder


def lines_of(records: list[Record]) -> Iterator[str]:
    """For assertion messages."""
    for record in records:
        yield f"{record.seq} {record.kind} {record.fields}"
