"""The adb wire: push, pull and shell of a virtual device beside what the loopback does with the same bytes.

    python benchmarks/wire.py [--size-mb 1024] [--rounds 3] [--profile pixel-8-pro] [--out FILE.json]

Rounds alternate between the stock adb and a plain TCP copy of the same file over loopback into a tmpfs file (push) or
from one (pull), which is the physical limit of this machine. Shell round trips are whole `adb shell true` commands,
start of the client included. All figures are this machine's, of a virtual device; the median is printed, raw values are
kept in the file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from adbutils import adb_path

from virtual import fleet

AIM_MB_S = 150.0
COMMAND_S = 300.0
ROUND_TRIPS = 30


class Adb:
    """The stock client with a server of its own and one device."""

    def __init__(self, folder: Path, profile: str, size_mb: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._environment = os.environ | {"ANDROID_ADB_SERVER_PORT": str(port)}
        self._folder = folder
        self.device = fleet.start(profile, "WIRE1", folder / "fleet", data_mb=size_mb * 2 + 64)
        self.run("connect", self.device.address)

    def run(self, *arguments: str) -> None:
        """One command; raises when it fails."""
        subprocess.run(
            [adb_path(), *arguments], env=self._environment, check=True, timeout=COMMAND_S, stdout=subprocess.DEVNULL
        )

    def close(self) -> None:
        """Ends server and device."""
        subprocess.run([adb_path(), "kill-server"], env=self._environment, timeout=COMMAND_S, check=False)
        fleet.stop_all(self._folder / "fleet")


def main() -> int:
    arguments = _arguments()
    shared = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="bw-") as name, tempfile.TemporaryDirectory(dir=shared) as memory:
        source = Path(memory) / "source"
        with source.open("wb") as file:
            for _ in range(arguments.size_mb):
                file.write(os.urandom(1 << 20))
        adb = Adb(Path(name), arguments.profile, arguments.size_mb)
        try:
            rates = _rates(adb, source, Path(memory), arguments.rounds)
            trips = [_seconds(lambda: adb.run("shell", "true")) for _ in range(ROUND_TRIPS)]
        finally:
            adb.close()
    result = {
        "benchmark": "wire",
        "virtual": True,
        "machine": {"cpus": os.cpu_count(), "kernel": platform.release(), "load": os.getloadavg()[0]},
        "size_mb": arguments.size_mb,
        "mb_per_s": rates,
        "shell_round_trip_s": trips,
    }
    _print_table(rates, trips)
    print(json.dumps(result))
    if arguments.out is not None:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size-mb", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", default="pixel-8-pro")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def _seconds(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def _rates(adb: Adb, source: Path, memory: Path, rounds: int) -> dict[str, list[float]]:
    """MB/s (1e6 bytes) of each round."""
    size = source.stat().st_size / 1e6
    found: dict[str, list[float]] = {"push": [], "pull": [], "shell": [], "tcp": []}
    remote = "/data/local/tmp/source"
    work: dict[str, Callable[[], object]] = {
        "push": lambda: adb.run("push", str(source), remote),
        "tcp": lambda: _tcp_copy(source, memory / "copy"),
        "pull": lambda: adb.run("pull", remote, str(memory / "copy")),
        "shell": lambda: adb.run("exec-out", f"cat {remote}"),
    }
    for _ in range(rounds):
        for name, step in work.items():
            found[name].append(size / _seconds(step))
            (memory / "copy").unlink(missing_ok=True)
    return found


def _tcp_copy(source: Path, target: Path) -> None:
    """The same bytes over one loopback connection, file to file."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        receiver = threading.Thread(target=_receive, args=(listener, target))
        receiver.start()
        with socket.create_connection(listener.getsockname()) as connection, source.open("rb") as file:
            connection.sendfile(file)
        receiver.join()


def _receive(listener: socket.socket, target: Path) -> None:
    connection, _ = listener.accept()
    room = memoryview(bytearray(1 << 20))
    with connection, target.open("wb", buffering=0) as file:
        while count := connection.recv_into(room):
            file.write(room[:count])


def _print_table(rates: dict[str, list[float]], trips: list[float]) -> None:
    limit = statistics.median(rates["tcp"])
    print(f"{'':8} {'MB/s':>8} {'of loopback':>12}   aim ≥ {AIM_MB_S:.0f}", file=sys.stderr)
    for name, values in rates.items():
        median = statistics.median(values)
        print(f"{name:8} {median:8.0f} {median / limit:12.0%}", file=sys.stderr)
    print(f"shell round trip: median {statistics.median(trips) * 1e3:.0f} ms", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
