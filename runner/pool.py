"""Devices at a desk: whoever needs one takes the first that is free, by its lock, never by a number.

The lock is the same one that farms and their runners take, in this machine's one folder of locks: a desk and the farms
of its user do not get into each other's way, and a worker that dies gives its device back by dying.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from farm.adb.connection import query
from farm.adb.device import Device
from farm.adb.errors import AdbError, AdbServerGone
from farm.adb.locks import FileLock, device_lock
from farm.adb.server import ADB
from farm.adb.tracker import AdbEntry, entries_of
from farm.evidence import props
from farm.settings import SettingsError, locks_dir
from runner.spec import DeviceSpec

HOST = "127.0.0.1"
#: Somebody else may be about to give a device back.
POOL_WAIT_S = 15.0


@dataclass(frozen=True, slots=True)
class Taken:
    """A device that this process holds."""

    spec: DeviceSpec
    device: Device
    lock: FileLock


def state_dir() -> Path:
    """The state folder: FARM_STATE, or `.farm` here."""
    return Path(os.environ.get("FARM_STATE") or ".farm").absolute()


def adb_port() -> int:
    """The running adb server's port: ANDROID_ADB_SERVER_PORT, or adb's usual one."""
    return int(os.environ.get("ANDROID_ADB_SERVER_PORT") or 5037)


def candidates(wanted: str) -> list[AdbEntry]:
    """The devices that adb lists and that `wanted` (auto, or serials and addresses) allows; starts adb if it must.

    A server that was started for this and lists nothing is ended again. One with devices stays, as adb leaves it: some
    other desk may use it by then.
    """
    port = adb_port()
    try:
        listed = entries_of(query(HOST, port, "host:devices-l"))
    except AdbServerGone:
        _adb("start-server")
        listed = entries_of(query(HOST, port, "host:devices-l"))
        if not listed:
            _adb("kill-server")
    online = [entry for entry in listed if entry.state == "device"]
    if wanted == "auto":
        return online
    names = set(wanted.split(","))
    return [entry for entry in online if {entry.address, entry.serial} & names or _serial(entry) in names]


def _adb(command: str) -> None:
    subprocess.run([ADB, "-P", str(adb_port()), command], capture_output=True, timeout=30, check=False)


def count(wanted: str) -> int:
    """How many devices `wanted` stands for. pytest.UsageError for a named one that does not answer: a device that was
    asked for is never left out in silence."""
    entries = candidates(wanted)
    if wanted != "auto":
        known = {name for entry in entries for name in (entry.address, entry.serial, _serial(entry))}
        missing = sorted(set(wanted.split(",")) - known)
        if missing:
            raise pytest.UsageError(
                f"--device names {', '.join(missing)}, which adb on port {adb_port()} does not list as online "
                "(adb devices -l shows what is there)"
            )
    return len(entries)


def take(wanted: str, holder: str) -> Taken:
    """A free device, locked. pytest.UsageError that says what is there when none becomes free."""
    deadline = time.monotonic() + POOL_WAIT_S
    try:
        folder = locks_dir()
    except SettingsError as error:
        raise pytest.UsageError(str(error)) from error
    while True:
        try:
            entries = candidates(wanted)
        except (AdbError, OSError) as error:
            raise pytest.UsageError(f"no adb server on port {adb_port()}: {error}") from error
        busy = []
        for entry in entries:
            serial = _serial(entry)
            if serial is None:
                continue
            lock = device_lock(folder, serial, entry.address)
            if lock.try_acquire(holder):
                return _taken(entry, serial, lock)
            busy.append(f"{serial} is held by {lock.holder()}")
        if not entries:
            raise pytest.UsageError(
                f"adb on port {adb_port()} lists no device for --device {wanted}: connect one (adb devices -l shows "
                "what is there), or name its server with ANDROID_ADB_SERVER_PORT. A virtual device is connected by "
                "`adb connect 127.0.0.1:PORT`; `python -m virtual list --dir DIR` tells its port (the demo's DIR is "
                ".farm/demo/virtual)"
            )
        if time.monotonic() > deadline:
            raise pytest.UsageError(f"no device became free in {POOL_WAIT_S:g} s: {'; '.join(busy)}")
        time.sleep(0.3)


def _serial(entry: AdbEntry) -> str | None:
    """The device's own serial number; None for one that does not answer."""
    try:
        return Device(HOST, adb_port(), entry.address).serial() or None
    except AdbError:
        return None


def _taken(entry: AdbEntry, serial: str, lock: FileLock) -> Taken:
    device = Device(HOST, adb_port(), entry.address, serial=serial)
    try:
        properties = device.props()
        labels = props.labels(properties)
        abi = labels.get("abi") or device.check_shell(["uname", "-m"]).strip()
    except AdbError as error:
        lock.release()
        raise pytest.UsageError(f"{serial} does not answer: {error}") from error
    name = properties.get("ro.product.model") or entry.model or serial
    virtual = properties.get("ro.farm.virtual") == "1"
    return Taken(DeviceSpec(serial, entry.address, name, abi, labels=labels, virtual=virtual), device, lock)
