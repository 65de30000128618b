"""What a careful person writes without a farm: push, hash, stream the log, run pytest, tidy up.

python benchmarks/overhead_bare/run.py ADB_PORT ADDRESS BUNDLE_DIR WORK_JSON OUT_DIR
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import adbutils
import zstandard

TARGET = "/data/local/tmp/overhead"


def main() -> int:
    port, address, bundle, work, out = sys.argv[1:]
    client = adbutils.AdbClient("127.0.0.1", int(port))
    client.connect(address, timeout=30)
    device = client.device(address)
    log = Log(device, Path(out) / "logcat.zst")
    try:
        push(device, Path(bundle), json.loads(work))
        environment = os.environ | {
            "ANDROID_ADB_SERVER_PORT": port,
            "ANDROID_SERIAL": address,
            "OVERHEAD_WORK": work,
            "OVERHEAD_DIRECTORY": TARGET,
        }
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_load.py"]
        return subprocess.run(pytest, cwd=Path(__file__).parent, env=environment, stdout=sys.stderr).returncode
    finally:
        device.shell2(["rm", "-rf", TARGET])
        log.stop()


def push(device: Any, bundle: Path, work: dict[str, Any]) -> None:
    """Send what the workload needs and read every file back as a hash."""
    names = ["bin/x86_64/farm-engine", "bin/x86_64/farm-devtool", work["model"]]
    for name in names:
        device.sync.push(bundle / name, f"{TARGET}/{name}", 0o755)
    paths = [f"{TARGET}/{name}" for name in names]
    told = device.shell2([f"{TARGET}/bin/x86_64/farm-devtool", "hash", *paths]).output
    found = {entry["path"]: entry["sha256"] for entry in map(json.loads, told.splitlines())}
    for name, path in zip(names, paths, strict=True):
        if found[path] != hashlib.sha256((bundle / name).read_bytes()).hexdigest():
            raise SystemExit(f"{name} did not arrive as it was sent")


class Log:
    """`logcat` of all buffers into a compressed file, as the farm keeps it."""

    def __init__(self, device: Any, path: Path) -> None:
        self._stream = device.shell(["logcat", "-b", "all", "-v", "threadtime"], stream=True)
        self._path = path
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def _copy(self) -> None:
        with self._path.open("wb") as raw, zstandard.ZstdCompressor().stream_writer(raw) as file:
            try:
                while data := self._stream.conn.recv(65536):
                    file.write(data)
            except OSError:
                return

    def stop(self) -> None:
        self._stream.close()
        self._thread.join(10)


if __name__ == "__main__":
    sys.exit(main())
