"""What a device answers to the questions of the precheck (`farm.domain.precheck`), in one shell round trip.

`python -m farm.adb.precheck` is the same for `farm doctor`: it reads `{"host", "port", "address", "serial", "manifest",
"models"}` as JSON (`models`: path in the bundle -> file on this machine, or null) and writes the checks.
"""

from __future__ import annotations

import json
import mmap
import re
import secrets
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from farm.adb.device import Device
from farm.adb.errors import AdbError
from farm.adb.push_cache import BUNDLES_DIR, FARM_DIR
from farm.domain import precheck
from farm.domain.model_files import ModelFile, read_model
from farm.domain.precheck import DeviceState
from farm.evidence import memory

LIMIT_S = 30.0
_MEMFD_SINCE = (3, 17)


def look(device: Device, abi: str | None, folder: str) -> DeviceState:
    """Ask the device; `folder`: where the bundle lies or will lie on it. Raises AdbError."""
    nonce = secrets.token_hex(8)
    answer = device.shell("sh", LIMIT_S, script(nonce, folder).encode(), max_output=1 << 20)
    return read(answer.stdout, nonce, abi)


def script(nonce: str, folder: str) -> str:
    """Each answer behind a heading that nothing on the device can guess."""
    probe = shlex.quote(f"{FARM_DIR}/.precheck-{nonce}")
    tried = (
        f'mkdir -p {shlex.quote(FARM_DIR)} && printf "#!%s\\necho ran\\n" "$(command -v sh)" > {probe} && echo wrote; '
        f"chmod 700 {probe} && {probe}; rm -f {probe}"
    )
    questions = {
        "abi": "getprop ro.product.cpu.abi",
        "release": "getprop ro.build.version.release",
        "sdk": "getprop ro.build.version.sdk",
        "kernel": "uname -r",
        "page": "getconf PAGE_SIZE",
        "free": "stat -f -c '%a %S' /data/local/tmp",
        "there": f"du -sk {shlex.quote(folder)}",
        "meminfo": "cat /proc/meminfo",
        "tried": tried,
        "selinux": "getenforce",
        "ashmem": "ls /dev/ashmem",
    }
    return "".join(f"echo {nonce} {name}\n{{ {command}; }} 2>/dev/null\n" for name, command in questions.items()) + (
        f"echo {nonce} end\n"
    )


def read(output: str, nonce: str, abi: str | None) -> DeviceState:
    """What `script(nonce)` printed (pure)."""
    parts = re.split(rf"^{nonce} (\w+)\n", output, flags=re.M)
    answers = {name: text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=False)}
    if "end" not in answers:
        return DeviceState(abi=abi)
    known = memory.core(answers.get("meminfo", ""))
    kernel = answers.get("kernel") or None
    return DeviceState(
        abi=abi or answers.get("abi") or None,
        release=answers.get("release") or None,
        sdk=answers.get("sdk") or None,
        kernel=kernel,
        page_size=_number(answers.get("page")),
        free_bytes=_product(answers.get("free", "")),
        there_bytes=_kb(answers.get("there", "").split("\t")[0].split(" ")[0]),
        memory_available=_kb(known.get("MemAvailable")),
        memory_total=_kb(known.get("MemTotal")),
        writes="wrote" in answers.get("tried", "").split("\n"),
        executes="ran" in answers.get("tried", "").split("\n"),
        selinux=answers.get("selinux") or None,
        shared_memory=_shared(kernel, answers.get("ashmem", "")),
    )


def _shared(kernel: str | None, ashmem: str) -> str | None:
    """memfd_create(2) is there from Linux 3.17 on; older Androids have their own device."""
    if kernel is None or not (match := re.match(r"(\d{1,3})\.(\d{1,3})", kernel)):
        return None
    if (int(match[1]), int(match[2])) >= _MEMFD_SINCE:
        return "memfd"
    return "ashmem" if ashmem else "none"


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and 0 < len(text) < 16 and int(text) > 0 else None


def _kb(value: object) -> int | None:
    """kB of the kernel (1024 bytes) as bytes; None: not measured."""
    if isinstance(value, str):
        value = int(value) if value.isdecimal() and len(value) < 16 else None
    return value * 1024 if isinstance(value, int) and value >= 0 else None


def _product(text: str) -> int | None:
    words = text.split()
    return int(words[0]) * int(words[1]) if len(words) == 2 and all(word.isdecimal() for word in words) else None


def model_file(path: Path) -> ModelFile:
    """What a model on this machine says of itself; only what is read of it is loaded. Raises OSError."""
    size = path.stat().st_size
    if size == 0:
        return ModelFile(0, wrong="it is empty")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return read_model(data, size)


def models_of(manifest: Mapping[str, Any], paths: Mapping[str, str | None]) -> dict[str, ModelFile]:
    """Path in the bundle -> what its file says; of one that is not on this machine, its size."""
    found = {}
    for path in manifest["models"].values():
        local = paths.get(path)
        size = int((manifest.get("content") or {}).get(path, {}).get("size", 0))
        found[path] = model_file(Path(local)) if local else ModelFile(size)
    return found


def main() -> int:
    asked = json.load(sys.stdin)
    device = Device(asked["host"], asked["port"], asked["address"], serial=asked.get("serial"))
    try:
        state = look(device, asked.get("abi"), f"{BUNDLES_DIR}/{asked.get('bundle', 'none')[:16]}")
        found = precheck.checks(state, asked["manifest"], models_of(asked["manifest"], asked["models"]))
        print(json.dumps({"checks": precheck.to_json(found)}))
    except AdbError as error:
        print(json.dumps({"error": f"{error} ({error.remedy})"}))
    except OSError as error:
        print(json.dumps({"error": f"{error.filename}: {error.strerror}"}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
