"""What a device answers to the precheck, and `farm doctor --device` over the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from farm.adb import precheck
from farm.adb.device import Device
from farm.cli.main import main
from farm.domain.precheck import DeviceState
from tests.devices import AdbServer, StartVirtualDevice
from tests.domain.test_precheck import gguf

NONCE = "a1b2"


def answer(**parts: str) -> DeviceState:
    text = "".join(f"{NONCE} {name}\n{said}\n" for name, said in parts.items())
    return precheck.read(f"{text}{NONCE} end\n", NONCE, None)


def test_a_virtual_device_answers_every_question(virtual_device: StartVirtualDevice, adb_server: AdbServer) -> None:
    running = virtual_device("pixel-8-pro")
    state = precheck.look(
        Device("127.0.0.1", adb_server.port, running.address), "x86_64", "/data/local/tmp/farm/b/none"
    )
    assert state.abi == "x86_64"
    assert state.writes
    assert state.executes
    assert state.page_size in (4096, 16384)
    assert state.memory_available is not None
    assert 0 < state.memory_available <= (state.memory_total or 0)
    assert state.free_bytes
    assert state.release
    assert state.shared_memory == "memfd"


def test_what_a_device_does_not_say_is_not_measured() -> None:
    assert answer() == DeviceState(writes=False, executes=False)
    assert precheck.read("noise", NONCE, "x86") == DeviceState(abi="x86")
    found = answer(free="nonsense", there="12 /x", meminfo="MemAvailable:  100 kB", tried="wrote\nran", kernel="3.4.0")
    assert (found.free_bytes, found.there_bytes, found.memory_available) == (None, 12 * 1024, 100 * 1024)
    assert (found.writes, found.executes, found.shared_memory) == (True, True, "none")


def test_the_process_for_the_command_line_says_why_it_cannot(adb_server: AdbServer, tmp_path: Path) -> None:
    question: dict[str, Any] = {
        "host": "127.0.0.1", "port": adb_server.port, "address": "nobody", "serial": None,
        "manifest": {"files": {}, "models": {}}, "models": {}, "bundle": "none",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "farm.adb.precheck"],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "nobody" in json.loads(done.stdout)["error"]


def test_a_model_that_is_empty_or_not_here(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"")
    manifest = {"models": {"m": "m.gguf"}, "content": {"m.gguf": {"size": 7}}}
    assert precheck.models_of(manifest, {"m.gguf": str(tmp_path / "m.gguf")})["m.gguf"].wrong == "it is empty"
    assert precheck.models_of(manifest, {})["m.gguf"].size == 7


BUNDLE = """
format: 1
name: reference
version: 0.1.0
adapter: events
entry: engine
files: {x86_64: {engine: engine}}
scripts: [engine]
models: {tiny: tiny.gguf}
"""


def test_the_doctor_prints_the_list_and_its_exit_code_says_whether_a_job_would_start(
    virtual_device: StartVirtualDevice,
    adb_server: AdbServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    running = virtual_device("pixel-8-pro")
    for name, value in (("FARM_STATE", tmp_path / "none"), ("FARM_ADB_PORT", adb_server.port)):
        monkeypatch.setenv(name, str(value))
    for name in ("FARM_URL", "FARM_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FARM_CREDENTIALS", str(tmp_path / "credentials.json"))
    (tmp_path / "bundle.yaml").write_text(BUNDLE)
    (tmp_path / "engine").write_text("#!/system/bin/sh\n")
    (tmp_path / "engine").chmod(0o755)
    (tmp_path / "tiny.gguf").write_bytes(gguf())
    asked = ["doctor", "--device", running.address, "--bundle", str(tmp_path)]
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"]
    assert {"ABI", "memory", "tokenizer", "storage"} <= {check["name"] for check in told["checks"]}
    (tmp_path / "tiny.gguf").write_bytes(gguf()[:-8])
    assert main(asked) == 3
    shown = capsys.readouterr().out
    assert "it is truncated" in shown
    assert "send the bundle again" in shown
    assert main(asked[:3]) == 3  # they go together
