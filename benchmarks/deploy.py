"""Sending a bundle to a device: our push beside `adb push` of the same bytes, and what verification costs.

    python benchmarks/deploy.py [--size-mb 1024] [--rounds 5] [--profile pixel-8-pro] [--out FILE.json]

A virtual device, the stock adb server, a file of random bytes. Pushes alternate, ours first in every other round, so
that both meet the same machine. Then a bundle with that file is deployed (pushed and read back), deployed again
unchanged (stamps), in doubt (all read back), and by a host that knows no stamps. What is measured is this machine and a
virtual device on it, not a phone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from engine import build
from farm.adb.device import Device
from farm.adb.push_cache import BUNDLES_DIR, DeployReport, FileSpec, deploy
from farm.adb.server import ADB, AdbServer
from farm.adb.tracker import Tracker
from virtual import fleet

SHELL_S = 120.0
_AIM_PUSH_RATIO = 0.9
_AIM_UNCHANGED_S = 0.5


def main() -> int:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="bd-") as name, _device(Path(name), arguments) as (server, device):
        folder = Path(name)
        print(f"making {arguments.size_mb} MB of random bytes", file=sys.stderr)
        model = _random_file(folder / "model.gguf", arguments.size_mb << 20)
        pushes = _compare_pushes(server, device, model.local, arguments.rounds)
        results = {"push": pushes, "deploy": _deploys(device, model, folder)}
    result = _conclude(results, arguments)
    _print_table(result)
    print(json.dumps(result))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size-mb", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", default="pixel-8-pro")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/deploy.json"))
    return parser.parse_args()


@contextmanager
def _device(folder: Path, arguments: argparse.Namespace) -> Iterator[tuple[AdbServer, Device]]:
    """A virtual device with room for the file twice over, under an adb server of its own."""
    server = AdbServer(_free_port(), folder / "adb", usb=False)
    tracker = Tracker(server)
    running = fleet.start(arguments.profile, "BENCH1", folder / "vd", data_mb=arguments.size_mb * 2 + 256)
    try:
        tracker.start()
        tracker.keep([running.address])
        tracker.wait_for(running.address, timeout_s=60)
        yield server, Device(server.host, server.port, running.address, serial="BENCH1")
    finally:
        tracker.stop()
        server.stop()
        fleet.stop(folder / "vd", "BENCH1")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _random_file(path: Path, size: int) -> FileSpec:
    digest, block = hashlib.sha256(), 8 << 20
    with path.open("wb") as file:
        for start in range(0, size, block):
            data = os.urandom(min(block, size - start))
            digest.update(data)
            file.write(data)
    return FileSpec("models/model.gguf", path, digest.hexdigest(), size)


def _compare_pushes(
    server: AdbServer, device: Device, local: Path, rounds: int
) -> dict[str, list[tuple[float, float]]]:
    """(seconds, CPU seconds of the client) per push, alternating; the file is deleted before each.

    The CPU time tells what the client costs on a machine that others use at the same time.
    """
    remote = "/data/local/tmp/bench"

    def ours() -> None:
        device.send(local, remote, 0o644)

    def adb() -> None:
        command = [str(ADB), "-P", str(server.port), "-s", device.address, "push", "-q", str(local), remote]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=3600)

    seconds: dict[str, list[tuple[float, float]]] = {"ours": [], "adb push": []}
    local.read_bytes()  # both read it from memory
    for number in range(rounds):
        order = [("ours", ours), ("adb push", adb)]
        for name, push in order if number % 2 == 0 else reversed(order):
            device.check_shell(["rm", "-f", remote], SHELL_S)
            seconds[name].append(_timed(push))
            print(f"{name}: {seconds[name][-1][0]:.2f} s", file=sys.stderr)
    device.check_shell(["rm", "-f", remote], SHELL_S)
    return seconds


def _deploys(device: Device, model: FileSpec, folder: Path) -> dict[str, dict[str, Any]]:
    program = build.build("static-x86_64", build.DEFAULT_OUT, 2, lambda text: print(text, file=sys.stderr))
    paths = {name: program.programs[name] for name in ("farm-engine", "farm-devtool")}
    files = [model, *(_program(f"bin/{name}", path) for name, path in paths.items())]
    tool, target, stamps = files[-1], f"{BUNDLES_DIR}/0123456789abcdef", folder / "stamps.json"

    def one(**options: Any) -> tuple[DeployReport, float]:
        began = time.monotonic()
        report = deploy(device, files, target, devtool=tool, **options)
        return report, time.monotonic() - began

    first = one(stamps=stamps)
    unchanged = [one(stamps=stamps) for _ in range(5)]
    found = {
        "first": first,
        "unchanged": sorted(unchanged, key=lambda pair: pair[1])[2],
        "in doubt": one(stamps=stamps, doubt=True),
        "no stamps": one(),
    }
    described = {name: _describe(report, seconds) for name, (report, seconds) in found.items()}
    described["unchanged"]["all_seconds"] = [round(seconds, 4) for _, seconds in unchanged]
    return described


def _program(remote: str, path: Path) -> FileSpec:
    data = path.read_bytes()
    return FileSpec(remote, path, hashlib.sha256(data).hexdigest(), len(data), 0o755)


def _describe(report: DeployReport, seconds: float) -> dict[str, Any]:
    return {
        "seconds": round(seconds, 4),
        "seconds_push": report.seconds_push,
        "seconds_verify": report.seconds_verify,
        "bytes_sent": report.bytes_sent,
        "bytes_kept": report.bytes_kept,
        "contents_read_back": report.verified,
    }


def _timed(action: Any) -> tuple[float, float]:
    """Seconds, and CPU seconds of this process and of children that ended."""
    began, cpu = time.monotonic(), sum(os.times()[:4])
    action()
    return time.monotonic() - began, sum(os.times()[:4]) - cpu


def _conclude(results: dict[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    size = arguments.size_mb
    pushes = {name: [seconds for seconds, _ in values] for name, values in results["push"].items()}
    cpu = {name: statistics.median(cpu for _, cpu in values) for name, values in results["push"].items()}
    rate = {name: size / statistics.median(values) for name, values in pushes.items()}
    ratios = [theirs / mine for mine, theirs in zip(pushes["ours"], pushes["adb push"], strict=True)]
    ratio = round(statistics.median(ratios), 3)
    unchanged = results["deploy"]["unchanged"]["seconds"]
    return {
        "benchmark": "deploy",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cpus": os.cpu_count(), "platform": platform.platform(), "load_1m": round(os.getloadavg()[0], 2)},
        "device": {"profile": arguments.profile, "virtual": True},
        "size_mb": size,
        "push_seconds": {name: [round(value, 3) for value in values] for name, values in pushes.items()},
        "push_mb_per_s": {name: round(value, 1) for name, value in rate.items()},
        "push_client_cpu_s": {name: round(value, 3) for name, value in cpu.items()},
        "push_ratio_per_round": [round(value, 3) for value in ratios],
        "push_ratio": {"value": ratio, "aim": f">= {_AIM_PUSH_RATIO}", "met": ratio >= _AIM_PUSH_RATIO},
        "unchanged_s": {"value": unchanged, "aim": f"<= {_AIM_UNCHANGED_S}", "met": unchanged <= _AIM_UNCHANGED_S},
        "deploy": results["deploy"],
    }


def _print_table(result: dict[str, Any]) -> None:
    print(f"\n{result['size_mb']} MB to a virtual {result['device']['profile']}, {result['machine']['cpus']} cores")
    print(f"{'':24}{'s (median)':>12}{'MB/s':>10}{'client CPU s':>14}")
    for name, values in result["push_seconds"].items():
        print(
            f"{name:24}{statistics.median(values):12.2f}{result['push_mb_per_s'][name]:10.1f}{result['push_client_cpu_s'][name]:14.2f}"
        )
    print(f"{'adb push / ours':24}{result['push_ratio']['value']:12.2f}   aim {result['push_ratio']['aim']}")
    print(f"\n{'deploy':24}{'s':>12}{'push s':>10}{'verify s':>10}{'MB sent':>10}{'read back':>11}")
    for name, row in result["deploy"].items():
        print(
            f"{name:24}{row['seconds']:12.3f}{row['seconds_push']:10.2f}{row['seconds_verify']:10.3f}"
            f"{row['bytes_sent'] / (1 << 20):10.1f}{row['contents_read_back']:11}"
        )
    print(f"unchanged: aim {result['unchanged_s']['aim']} s\n")


if __name__ == "__main__":
    sys.exit(main())
