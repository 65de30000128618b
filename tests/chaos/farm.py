"""A lab to break: every step of an attempt can be held, every part of the farm can be hurt.

`h1` is the host that things happen to: a device per step, so that one fault meets seven attempts, each in another step.
`h2` has one device, whose run must not notice anything.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from farm.adb.device import Device
from farm.store import tables
from tests.chaos.gates import STEPS, Gates
from tests.hosts.lab import Lab
from tests.postgres import PostgresServer
from tests.waiting import eventually
from virtual import fleet

PACK = Path(__file__).parent / "pack"
#: How much the host's attempts may store where its disk can be full.
DISK_MB = 96
#: There a host is ready with so many bytes free.
LITTLE = 4 << 20
#: Health checks are rare: eight idle devices take half a core of two with them.
WORK: dict[str, Any] = {
    "online_wait_s": 10.0,
    "clean_wait_s": 15.0,
    "give_up_s": 120.0,
    "recovery_pace": 4.0,
    "health_every_s": 10.0,
}


class ChaosLab(Lab):
    """`hard` (root): links can be cut, clocks jump, and h1 keeps its attempts on a small file system of its own."""

    agent_module = "tests.chaos.gates"

    def __init__(
        self,
        postgres: PostgresServer,
        devices: int = len(STEPS),
        *,
        bystander: bool = True,
        hard: bool = False,
        **more: Any,
    ) -> None:
        options = {"profile": "pixel-8-pro", "servers": 2, "pack": PACK, "net": hard, **more}
        work = {**WORK, **({"min_free_bytes": LITTLE} if hard else {}), **options.get("work", {})}
        super().__init__(postgres, 1, devices, **{**options, "work": work})
        self._bystander, self._hard = bystander, hard
        self.gates = Gates(self.state / "gates")
        self.twins = Path(tempfile.mkdtemp(prefix="ft-"))
        self.half_hash = "0" * 64
        self._full = threading.Event()
        self._filler: threading.Thread | None = None  # keeps the disk full
        self._stopped: dict[str, list[int]] = {}

    def begin(self) -> None:
        if self._hard:
            source = Path(__file__).with_name("clock.c")
            subprocess.run(
                ["cc", "-O1", "-shared", "-fPIC", "-o", str(self.state / "clock.so"), str(source), "-ldl"],
                check=True,
                timeout=60,
            )
            self.shift_clock(0)
            self.attempts_folder.mkdir(parents=True)
            options = ["-t", "tmpfs", "-o", f"size={DISK_MB}m", "chaos", str(self.attempts_folder)]
            subprocess.run(["mount", *options], check=True, timeout=30)
        super().begin()
        if self._bystander:
            self.hosts.append("h2")
            if self.net is not None:
                self.net.add("h2")
            (self.state / "h2").mkdir()
            (self.state / "h2" / "devices.yaml").write_text("virtual: true\n")
            self.add_device("h2", "H2D1")
            self.start("h2")
            self.ready(self._devices + 1)

    def close(self) -> None:
        self._full.set()
        fleet.stop_all(self.twins)
        for serial in list(self._stopped):
            self.thaw(serial)
        try:
            super().close()
        finally:
            if self._hard:
                subprocess.run(["umount", "-l", str(self.attempts_folder)], check=False, timeout=30)
                shutil.rmtree(self.state, ignore_errors=True)
            shutil.rmtree(self.twins, ignore_errors=True)

    def environment(self, name: str) -> dict[str, str]:
        found = {**super().environment(name), "CHAOS_GATES": str(self.gates.folder)}
        if self._hard:
            found |= {"LD_PRELOAD": str(self.state / "clock.so"), "CHAOS_CLOCK": str(self.state / "clock")}
        return found

    # ---- what can be done to it ----

    def shift_clock(self, seconds: int) -> None:
        """The wall clock of servers and agents is off by so much from now on; the database's is not."""
        with (self.state / "clock").open("r+b" if (self.state / "clock").exists() else "wb") as file:
            file.write(struct.pack("=q", seconds))

    @property
    def attempts_folder(self) -> Path:
        return self.state / "h1" / "attempts"

    def fill_disk(self) -> None:
        """No byte is left where h1 keeps its attempts, and what is freed there is taken at once."""
        self._full.clear()
        self._filler = threading.Thread(target=self._fill, daemon=True)
        self._filler.start()
        eventually(lambda: os.statvfs(self.attempts_folder).f_bavail == 0, what="the disk is full")

    def _fill(self) -> None:
        with (self.attempts_folder / "ballast").open("ab", buffering=0) as file:
            while not self._full.wait(0.01):
                size = 1 << 20
                while size >= 1 << 12:
                    try:
                        file.write(bytes(size))
                    except OSError:
                        size >>= 1

    def free_disk(self) -> None:
        self._full.set()
        if self._filler is not None:
            self._filler.join(30)
        (self.attempts_folder / "ballast").unlink(missing_ok=True)

    def folders(self) -> list[Path]:
        """What h1 still has of attempts, those under way among them."""
        return [path for path in self.attempts_folder.glob("*") if path.name.isdigit()]

    def attempt_folder(self, run: int) -> Path:
        """Where the run's newest attempt keeps its files."""
        return self.attempts_folder / str(self.attempts(run)[-1].id)

    def add_twin(self, serial: str) -> None:
        """Another device with the same serial number is plugged in at h1, somewhere else."""
        twin = fleet.start(self._profile, serial, self.twins, data_mb=64)
        lines = [f'  - "{one.address}"' for one in fleet.running(self.twins)]
        self._write_inventory(["connect:", *lines])
        assert twin.serial == serial

    def remove_twins(self) -> None:
        self._write_inventory([])
        fleet.stop_all(self.twins)

    def _write_inventory(self, more: Iterable[str]) -> None:
        path = self.state / "h1" / "devices.yaml"
        part = path.with_suffix(".part")
        part.write_text("\n".join(["virtual: true", *more, ""]))
        part.replace(path)

    def freeze(self, serial: str) -> None:
        """SIGSTOP to the whole device, hardware and system: its port takes connections and nobody answers."""
        [device] = [d for d in fleet.running(self.state / "h1" / "virtual") if d.serial == serial]
        self._stopped[serial] = _descendants(device.pid)
        _signal(self._stopped[serial], signal.SIGSTOP)

    def thaw(self, serial: str) -> None:
        _signal(self._stopped.pop(serial, []), signal.SIGCONT)

    def planner(self) -> str:
        """The server that plans now: of those that run, the one that said so last."""
        said = {}
        for server in set(self.servers) & set(self.processes):
            lines = (self.state / server / "log").read_text().splitlines()
            said[server] = max((line[:23] for line in lines if "this server plans from now on" in line), default="")
        return max(said, key=lambda server: said[server])

    def send_half(self, server: str) -> socket.socket:
        """A client that sends half of a file to a server, and is then still connected."""
        body = b"half of a file" * 10_000
        self.half_hash = hashlib.sha256(body * 2).hexdigest()
        url = urlsplit(json.loads((self.state / server / "server.json").read_text())["url"])
        connection = socket.create_connection((url.hostname, url.port), timeout=20)
        head = f"PUT /api/blobs/{self.half_hash} HTTP/1.1\r\nHost: farm\r\nContent-Length: {len(body) * 2}\r\n"
        connection.sendall(f"{head}Authorization: Bearer {self.token()}\r\n\r\n".encode() + body)
        return connection

    def half_files(self) -> list[Path]:
        """Uploads that are not whole yet."""
        return list((self.state / "artifacts" / "tmp").glob("*"))

    def token(self) -> str:
        """The admin's token: the first server told it once."""
        for server in self.servers:
            found = re.search(r"shown this once: (\S+)", (self.state / server / "log").read_text())
            if found is not None:
                return found[1]
        raise AssertionError("no server told the admin's token")

    def forget_bundle(self, serial: str) -> None:
        """Nothing that was pushed is on the device any more."""
        with self.db.read() as session:
            address = session.query(tables.Device).filter_by(serial=serial).one().address or serial
        with self._inside("h1"):
            Device("127.0.0.1", self._adb("h1").port, address).shell("rm -rf /data/local/tmp/farm", timeout_s=60)

    # ---- runs ----

    @property
    def serials(self) -> list[str]:
        return [f"H1D{n + 1}" for n in range(self._devices)] + (["H2D1"] if self._bystander else [])

    def begin_run(self, serial: str, step_s: float) -> int:
        """The four tests of the pack on one device."""
        return self.submit(pack="chaos", suites=("chaos",), selector=f"serial={serial}", params={"step_s": step_s})

    def begin_bystander(self) -> int | None:
        """A run on the host that nothing happens to."""
        return self.begin_run("H2D1", step_s=2.0) if self._bystander else None


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        try:
            found += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
        except OSError:
            continue
    return found


def _signal(tree: list[int], number: int) -> None:
    for pid in tree:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
