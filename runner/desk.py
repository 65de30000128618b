"""A suite at somebody's desk: no server, no sandbox, a device that adb lists, and a journal file that stays behind.

    pytest suites/latency --device auto --bundle build/bundle [-n auto [--dist each|worksteal]]

Under xdist the controller writes the journal and serves the ear; each worker takes a device of its own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from farm.adb.device import Device
from farm.adb.errors import AdbError
from farm.adb.push_cache import BUNDLES_DIR, FileSpec, deploy
from farm.domain.bundles import device_paths, read_bundle
from farm.domain.executables import HEAD, misfits
from farm.domain.journal import Kind
from farm.domain.manifests import ManifestError, normal_mode
from farm.domain.names import safe
from farm.settings import SettingsError, locks_dir
from runner import pool, summary
from runner.bench import Bench, bundle_on_device
from runner.fixtures import BENCH
from runner.gate import Gate
from runner.journal import FileJournal
from runner.records import Records
from runner.reporter import DeskReporter, Reporter, SocketReporter, desk_journal
from runner.sampler import DEVTOOL, Sampler, tool_path
from runner.service import Service
from runner.spec import SpecError
from runner.turns import Turns


class AnyDevice(Gate):
    """The gate of a desk: which devices will come is not known before they do."""

    def admit(self, kind: str, fields: Any) -> dict[str, Any]:
        if isinstance(device := fields.get("device"), str) and device not in self.devices:
            self.devices = self.devices | {device}
        if kind == Kind.SAMPLER:  # here it is the plugin's own, in the process of the suite
            return dict(fields)
        return super().admit(kind, fields)


class Desk:
    """One pytest process of a run at a desk: the only one, xdist's controller, or one of its workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._folder = Path(tempfile.mkdtemp(prefix="farm-desk-"))
        self._service: Service | None = None
        self._journal: FileJournal | None = None
        self._taken: pool.Taken | None = None
        self._sampler: Sampler | None = None
        self.ear = self._folder / "runner.sock"
        self.path = self.artifacts = Path()
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        config = self._config
        worker = getattr(config, "workerinput", None)
        self.bundle = Path(worker["farm_bundle"]) if worker is not None else _bundle_folder(config)
        if worker is not None:
            self.artifacts = Path(worker["farm_artifacts"]) / str(worker["workerid"])
            self._work_on_device(SocketReporter(str(worker["farm_ear"]), role="worker"), f"worker {worker['workerid']}")
            return
        asked = config.getoption("--journal")
        self.path = Path(str(asked)).absolute() if asked else desk_journal(pool.state_dir())
        self.artifacts = summary.artifacts_of(self.path)
        self._journal = FileJournal(self.path)
        try:
            turns = Turns(locks_dir())
        except SettingsError as error:
            raise pytest.UsageError(str(error)) from error
        gate = AnyDevice({"a device"})
        self._journal.record("start", attempt=0, token=0, pid=os.getpid(), devices=[], runner="desk")
        if config.getoption("numprocesses", None) or config.getoption("tx", None):
            self._service = Service(self.ear, self._journal, gate, turns, self._folder, name="a run at a desk")
            self._service.start()
        else:
            self._work_on_device(DeskReporter(self._journal, gate, turns, self._say), "a run at a desk")

    def _work_on_device(self, reporter: Reporter, holder: str) -> None:
        self._taken = taken = pool.take(str(self._config.getoption("--device")), holder)
        try:
            bundle = self._deploy(taken)
        except (SpecError, ManifestError, AdbError, OSError) as error:
            self.close()
            raise pytest.UsageError(f"--bundle: {error}") from error
        bench = Bench(
            reporter=reporter,
            spec=taken.spec,
            device=taken.device,
            bundle=bundle_on_device(bundle, taken.spec.abi, {}),
            env=_environment(self._config.getoption("--engine-env")),
            params={},
            work=self._folder,
            sandboxed=False,
        )
        self._config.stash[BENCH] = bench
        own = Device(pool.HOST, pool.adb_port(), taken.spec.address, serial=taken.spec.serial)
        self._sampler = Sampler(own, taken.spec.serial, reporter.record, tool_path(bundle, taken.spec.abi))
        if isinstance(reporter, DeskReporter):
            reporter.on_engine = self._sampler.watch
        self._sampler.start()
        arguments = [Path(argument.split("::")[0]).absolute() for argument in self._config.args]
        pack = next((found for path in arguments if (found := _pack_of(path))), self._config.rootpath)
        self._config.pluginmanager.register(Records(bench, pack, None, ()), "farm_records")

    def _say(self, words: str) -> None:
        """One line on the terminal, past pytest's capture."""
        capture = self._config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture is not None else nullcontext():
            print(f"\n{words}", file=sys.stderr, flush=True)

    def _deploy(self, taken: pool.Taken) -> dict[str, Any]:
        """Put the bundle's files on the device; returns the bundle in the form of attempt.json."""
        folder = self.bundle
        manifest = read_bundle((folder / "bundle.yaml").read_text())
        if taken.spec.abi not in manifest["files"]:
            known = ", ".join(manifest["files"])
            raise SpecError(f"{folder.name} has files for {known}, and {taken.spec.name} is {taken.spec.abi}")
        specs = {path: _spec(folder, path) for path in device_paths(manifest, taken.spec.abi)}
        _check_programs(folder, manifest, taken.spec.abi, specs)
        address = hashlib.sha256("".join(f"{s.remote}\0{s.sha256}\n" for s in specs.values()).encode()).hexdigest()
        target = f"{BUNDLES_DIR}/{address[:16]}"
        tool = manifest["files"][taken.spec.abi].get(DEVTOOL)
        stamps = pool.state_dir() / "stamps" / f"{safe(taken.spec.serial)}.json"
        stamps.parent.mkdir(parents=True, exist_ok=True)
        deploy(taken.device, list(specs.values()), target, devtool=specs.get(tool), stamps=stamps)
        return {"manifest": manifest, "device_dir": target}

    def header(self) -> list[str]:
        """Lines at the top of pytest's output."""
        bench = self._config.stash.get(BENCH, None)
        lines = [f"journal: {self.path}"] if self._journal is not None else []
        if bench is not None:
            lines.insert(0, f"device: {bench.spec.name} ({bench.serial}){', virtual' if bench.spec.virtual else ''}")
        return [*lines, "NO SANDBOX: at a desk the suite runs with your own rights and reaches whatever you reach"]

    def summary(self, terminal: Any) -> None:
        """What was measured, at the end of pytest's output."""
        if self._journal is not None:
            summary.write(terminal, self.path)

    def close(self) -> None:
        """Give back what this process holds."""
        bench = self._config.stash.get(BENCH, None)
        if self._sampler is not None:
            self._sampler.stop()
        if self._service is not None:
            self._service.stop()
        if bench is not None and not isinstance(bench.reporter, DeskReporter):
            bench.reporter.close()
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        if self._taken is not None:
            self._taken.lock.release()
        kept = self._folder / "artifacts"
        if kept.is_dir():
            shutil.copytree(kept, self.artifacts, dirs_exist_ok=True)
        shutil.rmtree(self._folder, ignore_errors=True)


def _pack_of(start: Path) -> Path | None:
    """The nearest folder above (or at) `start` that holds suite.yaml."""
    for folder in (start, *start.parents):
        if (folder / "suite.yaml").is_file():
            return folder
    return None


def _bundle_folder(config: pytest.Config) -> Path:
    """The bundle that was named; without one the reference engine, built now if it is not there yet."""
    asked = config.getoption("--bundle")
    if asked:
        return Path(str(asked)).absolute()
    if find_spec("engine") is None:
        raise pytest.UsageError("name the engine to test: --bundle DIR (a folder with bundle.yaml)")
    folder = pool.state_dir() / "reference"
    print(f"no --bundle: testing the reference engine, laid out in {folder}", file=sys.stderr)
    built = subprocess.run(
        [sys.executable, "-m", "engine.package", "--out", str(folder)], stdout=subprocess.DEVNULL, check=False
    )
    if built.returncode != 0:
        raise pytest.UsageError("the reference engine could not be built (see above); name another one with --bundle")
    return folder


def _spec(folder: Path, path: str) -> FileSpec:
    local = folder / path
    with local.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    status = local.stat()
    return FileSpec(path, local, digest, status.st_size, normal_mode(status.st_mode))


def _check_programs(folder: Path, manifest: dict[str, Any], abi: str, specs: dict[str, FileSpec]) -> None:
    """What a farm would refuse is refused at a desk too. Raises SpecError."""

    def head(path: str) -> bytes:
        with (folder / path).open("rb") as file:
            return file.read(HEAD)

    content = {path: {"mode": spec.mode} for path, spec in specs.items()}
    here = {**manifest, "files": {abi: manifest["files"][abi]}, "content": content}
    if wrong := misfits(here, head):
        raise SpecError(f"{folder.name}: {'; '.join(wrong)}")


def _environment(pairs: list[str]) -> dict[str, str]:
    bad = [pair for pair in pairs if "=" not in pair]
    if bad:
        raise pytest.UsageError(f"--engine-env {bad[0]!r}: write NAME=VALUE")
    return dict(pair.split("=", 1) for pair in pairs)
