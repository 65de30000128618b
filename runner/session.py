"""The supervisor of one attempt: `python -m runner.session FOLDER`.

It stands outside the sandbox, in a session of its own, and outlives whoever started it. It takes the devices' locks,
serves lens and ear, starts pytest in the sandbox, watches limits, fence and cancel, takes stacks before it kills, and
writes the journal, whose last record is `end`. Started again on the folder of a runner that was killed, it goes on: no
finished test runs twice, the journal's numbers continue.

Exit codes: 0 the journal has its end; 2 the folder cannot be used; 3 another runner has it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from farm.adb.device import Device
from farm.adb.lens import LensServer, Refusal
from farm.adb.locks import FileLock, LockBusy, device_lock
from farm.domain.causes import disk_cause
from farm.domain.journal import Kind, Record, clip
from farm.domain.manifests import ManifestError
from farm.domain.outcomes import Outcome
from farm.domain.packs import read_pack
from runner import sandbox
from runner.gate import Gate
from runner.journal import FileJournal, read
from runner.sampler import Sampler, tool_path
from runner.service import Service
from runner.spec import AttemptSpec, Limits, SpecError, load
from runner.supervise import Inside
from runner.turns import Turns
from runner.verdict import Verdict, conclude, finished_tests
from runner.watch import Stop, Watch
from runner.witness import View, Witness

#: An earlier holder of a device (a runner that is being killed, a cleaning) gets this long to let go.
LOCK_WAIT_S = 60.0
#: pytest starts after this even while somebody measures.
START_WAIT_S = 60.0
#: The attempt's last records wait so long for room on a full disk.
DISK_WAIT_S = 10.0


class NoSuite(Exception):
    """The pack does not have what the attempt asks for."""


class Terminated(Exception):
    """Somebody ended this process with a signal."""


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m runner.session FOLDER", file=sys.stderr)
        return 2
    folder = Path(arguments[0]).resolve()
    with contextlib.suppress(PermissionError):
        os.setsid()  # it may lead a session already
    try:
        spec = load(folder / "attempt.json")
    except SpecError as error:
        print(f"runner: {error}", file=sys.stderr)
        return 2
    own = FileLock(folder / "runner.lock")
    if not own.try_acquire("a runner"):
        print(f"runner: {folder} is held by {own.holder()}", file=sys.stderr)
        return 3
    if any(record.kind == Kind.END for record in read(folder / "journal.jsonl")):
        return 0
    signal.signal(signal.SIGTERM, _terminate)
    signal.signal(signal.SIGINT, _terminate)
    Session(folder, spec).run()
    return 0


def _terminate(number: int, frame: object) -> None:
    raise Terminated(signal.Signals(number).name)


class Session:
    """One start of the runner on one attempt's folder."""

    def __init__(self, folder: Path, spec: AttemptSpec) -> None:
        self.folder, self.spec = folder, spec
        self.journal = FileJournal(folder / "journal.jsonl")
        self.finished = set(spec.finished) | finished_tests(read(self.journal.path)).keys()
        self._name = f"attempt {spec.attempt} of the farm in {spec.state_dir or folder.parent}"

    def run(self) -> None:
        """From locks to the last record; whatever goes wrong ends in an `end` that says so."""
        lost: dict[str, str] = {}
        exit_code: int | None = None
        stop: Stop | None = None
        try:
            with self._devices():
                self._introduce()
                exit_code, stop, lost = self._execute()
        except Terminated as error:
            stop = Stop(Outcome.INFRA_ERROR, f"the runner was ended by {error}")
        except OSError as error:
            stop = Stop(Outcome.INFRA_ERROR, str(error), cause=disk_cause(error))
        except (LockBusy, sandbox.SandboxMissing) as error:
            stop = Stop(Outcome.INFRA_ERROR, str(error))
        except (NoSuite, ManifestError) as error:
            stop = Stop(Outcome.FAILED, str(error))
        verdict = conclude(read(self.journal.path), stop, lost, exit_code, self.spec.finished)
        if verdict.outcome is not Outcome.PASSED:
            self._log(f"runner: {verdict.outcome.value}: {verdict.reason}")
        self._end(verdict)

    def _log(self, words: str) -> None:
        """A line below what the suite printed: who reads the log looks for the reason at its end."""
        with contextlib.suppress(OSError), (self.folder / "runner.log").open("ab") as log:  # a full disk
            log.write(f"\n{words}\n".encode())

    @contextmanager
    def _devices(self) -> Iterator[None]:
        """Hold the lock of every leased device."""
        with ExitStack() as held:
            for device in sorted(self.spec.devices, key=lambda device: device.serial):
                lock = device_lock(self.spec.locks_dir, device.serial, device.address)
                lock.acquire(LOCK_WAIT_S, self._name)
                held.callback(lock.release)
            yield

    def _introduce(self) -> None:
        """Who runs here: for the agent that adopts a live runner, and in the journal."""
        identity = {"pid": os.getpid(), "start_time": start_time(os.getpid()), "boot_id": host_boot_id()}
        part = self.folder / "runner.json.part"
        part.write_text(json.dumps(identity))
        part.replace(self.folder / "runner.json")
        self._waits(None)  # of a runner before this one
        self.journal.record(
            Kind.START,
            attempt=self.spec.attempt,
            token=self.spec.token,
            pid=os.getpid(),
            devices=list(self.spec.serials),
            runner=version("device-farm"),
        )

    def _execute(self) -> tuple[int | None, Stop | None, dict[str, str]]:
        with _short_folder(self.folder) as sockets:
            return self._execute_with(sockets)

    def _execute_with(self, sockets: Path) -> tuple[int | None, Stop | None, dict[str, str]]:
        spec = self.spec
        suites = self._suites()
        where = sandbox.layout(self.folder, sockets, spec.pack_dir)
        sandbox.write_inside(where, self._told(suites))
        gate = Gate(spec.serials, self.finished)
        guarded = tuple(map(str, (spec.state_dir or self.folder, spec.locks_dir, self.folder, spec.pack_dir)))
        witnesses: list[Witness] = []

        def witness(fd: int) -> None:
            found = Witness(fd, View.of(where, guarded), lambda why, who: service.incident("sandbox-refused", why, who))
            witnesses.append(found)
            found.start()

        def refused(refusal: Refusal) -> None:
            service.incident("lens-refused", f"{refusal.request}: {refusal.reason}")

        samplers = self._samplers()
        service = Service(
            sockets / "runner.sock",
            self.journal,
            gate,
            Turns(spec.locks_dir, spec.measure_slots),
            where.work,
            witness,
            name=self._name,
            virtual=any(device.virtual for device in spec.devices),
            on_wait=self._waits,
            on_engine=lambda serial, pid, alive: samplers[serial].watch(pid, alive),
        )
        shown = {device.address: device.serial for device in spec.devices}
        lens = LensServer(sockets / "lens.sock", (spec.adb_host, spec.adb_port), shown, refused)
        service.starting(START_WAIT_S, (self.folder / "cancel").exists)
        watch = Watch(
            time.monotonic(), spec.limits, {name: limits for name, (_, limits) in suites.items()}, spec.fence_s
        )
        with _served(service), _served(lens), _sampling(samplers.values()):
            inside = Inside(
                self.folder, spec, where, service, watch, {path: name for name, (path, _) in suites.items()}
            )
            return inside.run(pytest_command([path for path, _ in suites.values()]))

    def _samplers(self) -> dict[str, Sampler]:
        """One per device, by serial."""
        spec, record = self.spec, self.journal.record
        return {
            one.serial: Sampler(
                Device(spec.adb_host, spec.adb_port, one.address, serial=one.serial),
                one.serial,
                record,
                tool_path(spec.bundle, one.abi),
            )
            for one in spec.devices
        }

    def _suites(self) -> dict[str, tuple[str, Limits]]:
        """suite -> (its path in the pack, its limits). Raises NoSuite, ManifestError."""
        try:
            text = (self.spec.pack_dir / "suite.yaml").read_text()
        except OSError as error:
            raise NoSuite(f"the pack has no suite.yaml that can be read: {error.strerror}") from error
        declared = read_pack(text)["suites"]
        found: dict[str, tuple[str, Limits]] = {}
        for name in self.spec.suites:
            if name not in declared:
                raise NoSuite(f"the pack has no suite {name!r}; it has: {', '.join(declared)}")
            own, general = declared[name]["limits"], self.spec.limits
            limits = Limits(
                general.attempt_s, own.get("suite_s", general.suite_s), own.get("silence_s", general.silence_s)
            )
            path = str(declared[name]["path"])
            if not (self.spec.pack_dir / path).exists():
                raise NoSuite(f"suite {name!r} names {path!r}, which the pack does not have")
            found[name] = (path, limits)
        return found

    def _told(self, suites: dict[str, tuple[str, Limits]]) -> dict[str, object]:
        """attempt.json as the sandbox gets it: no address of the real adb server, no path of the host."""
        told: dict[str, Any] = json.loads((self.folder / "attempt.json").read_text())
        for key in ("adb", "locks_dir", "state_dir", "pack_dir", "measure_slots", "fence_s"):
            told.pop(key, None)
        told["devices"] = [{**device, "address": device["serial"]} for device in told["devices"]]
        told["finished"] = sorted(self.finished)
        told.update(adb={"host": "127.0.0.1", "port": sandbox.ADB_PORT}, pack_dir=sandbox.PACK, locks_dir=sandbox.WORK)
        told["limits"] = {
            "attempt_s": self.spec.limits.attempt_s,
            "suite_s": self.spec.limits.suite_s,
            "silence_s": min(limits.silence_s for _, limits in suites.values()),
        }
        return told

    def _waits(self, words: str | None) -> None:
        """What a test waits for, where the agent finds it (and shows it); removed when the wait is over."""
        path = self.folder / "waiting"
        with contextlib.suppress(OSError):  # only to be shown
            if words is None:
                path.unlink(missing_ok=True)
            else:
                path.write_text(words)

    def _end(self, verdict: Verdict) -> None:
        """The last records. On a full disk they wait a little: nothing runs any more, and an end saves a start."""
        end = time.monotonic() + DISK_WAIT_S
        while True:
            try:
                return self._write_end(verdict)
            except OSError:
                if time.monotonic() >= end:
                    raise
                time.sleep(0.2)

    def _write_end(self, verdict: Verdict) -> None:
        # A part of the suite finds a part of the facts: that is no other device.
        whole = whole_fingerprints(read(self.journal.path)) if self.spec.tests is None else {}
        for device, facts in whole.items():
            self.journal.record(Kind.FINGERPRINT, device=device, facts=facts)
        fields = {"outcome": verdict.outcome.value, "reason": clip(verdict.reason, 4000), "counts": verdict.counts}
        if verdict.cause is not None:
            fields["cause"] = verdict.cause.value
        self.journal.record(Kind.END, **fields)
        self.journal.close()


@contextmanager
def _short_folder(folder: Path) -> Iterator[Path]:
    """`folder`, or one of a shorter name where its own is too long for a unix socket's address (107 bytes)."""
    if len(os.fsencode(folder / "runner.sock")) <= 100:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="farm-") as short:
        yield Path(short)


@contextmanager
def _served(server: Service | LensServer) -> Iterator[None]:
    server.start()
    try:
        yield
    finally:
        server.stop()


@contextmanager
def _sampling(samplers: Iterable[Sampler]) -> Iterator[None]:
    """What the devices do goes into the journal meanwhile."""
    with ExitStack() as running:
        for sampler in samplers:
            sampler.start()
            running.callback(sampler.stop)
        yield


def pytest_command(paths: list[str]) -> list[str]:
    """What runs in the sandbox. `-P`: the working folder, which the suite may write, is no place to import from."""
    options = ["-p", "no:cacheprovider", "--import-mode=importlib", "--strict-markers", "-v"]
    options += ["--color=no", "--tb=short", "-rfEs", "--rootdir", sandbox.PACK, "-o", f"pythonpath={sandbox.PACK}"]
    targets = [f"{sandbox.PACK}/{path}" for path in paths]
    return [sys.executable, "-P", "-m", "runner.relay", *options, *targets]


def whole_fingerprints(records: Iterable[Record]) -> dict[str, dict[str, Any]]:
    """device -> all facts that its tests found, in this start of the runner and in earlier ones."""
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        if record.kind == Kind.FINGERPRINT:
            found.setdefault(str(record.fields["device"]), {}).update(record.fields["facts"])
    return found


def start_time(pid: int) -> int | None:
    """When a process was started, in clock ticks since boot: with the pid it names one process for good."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        return int(stat.rsplit(")", 1)[1].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def host_boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
