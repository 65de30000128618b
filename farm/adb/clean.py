"""Giving a device back as it was taken.

`snapshot` before the lease's first command, `restore` after its last. Restoring looks, undoes, and looks again until
nothing is left or the time is over: only what was seen to be clean counts as clean.
"""

from __future__ import annotations

import logging
import os
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from farm.adb import device_state
from farm.adb.deadline import Deadline
from farm.adb.device import Device
from farm.adb.device_state import Changes, Snapshot
from farm.adb.errors import AdbError, RemoteError

__all__ = ["CleanReport", "Snapshot", "restore", "snapshot"]

log = logging.getLogger(__name__)

#: Looking and undoing, at most so often: what comes back each time will come back again.
_ROUNDS = 4
_MAX_OUTPUT = 32 << 20
#: Lines of a report per kind; a suite may leave ten thousand files.
_MAX_LINES = 200


@dataclass(frozen=True, slots=True)
class CleanReport:
    """`ok`: looked at again after cleaning, and `differences` is empty. `notes`: changed, and not to be undone."""

    ok: bool
    killed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)  # settings, properties, packages, forwards
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def snapshot(device: Device, timeout_s: float = 60.0, *, spare: Sequence[int] = ()) -> Snapshot:
    """What is there now. `spare`: pids that belong to the farm itself (a log stream), with what they started.

    Raises ShellTimeout, DeviceUnavailable, AdbServerGone, RemoteError.
    """
    nonce = secrets.token_hex(8)
    result = device.shell("sh", timeout_s, device_state.script(nonce).encode(), _MAX_OUTPUT)
    found = None if result.truncated else device_state.parse(result.stdout_bytes, nonce, spare)
    if found is None:
        why = "there is too much of it" if result.truncated else "the answer is cut"
        raise RemoteError(
            f"{device.address}: its state cannot be read: {why}",
            remedy="restart the device and empty /data/local/tmp",
        )
    return replace(found, forwards=device.forwards())


def restore(
    device: Device,
    before: Snapshot,
    keep: Sequence[str] = (),
    deadline_s: float = 60.0,
    *,
    spare: Sequence[int] = (),
) -> CleanReport:
    """Undo what the lease left, then look again. `keep`: folders below /data/local/tmp that stay (the push cache).

    Never raises for what the device does: that is a difference in the report.
    """
    limit = Deadline(deadline_s)
    report = CleanReport(ok=False)
    keep = [path.rstrip("/") for path in keep]
    try:
        for _ in range(_ROUNDS):
            now = snapshot(device, limit.remaining(60.0) or 0.0, spare=spare)
            changes = device_state.compare(before, now, keep)
            if not changes:
                return _report(report, True, changes, now.boot_id != before.boot_id)
            if limit.expired:
                return _report(report, False, changes, False)
            _undo(device, changes, now, limit, report)
        now = snapshot(device, limit.remaining(60.0) or 0.0, spare=spare)
        changes = device_state.compare(before, now, keep)
        return _report(report, not changes, changes, now.boot_id != before.boot_id)
    except AdbError as error:
        report.differences.append(f"not cleaned: {error}")
        return _report(report, False, Changes(), False)


def _report(report: CleanReport, ok: bool, changes: Changes, rebooted: bool) -> CleanReport:
    notes = [*report.notes, *(["the device was restarted during the lease"] if rebooted else []), *changes.lost]
    return CleanReport(
        ok=ok,
        killed=report.killed[:_MAX_LINES],
        removed=report.removed[:_MAX_LINES],
        restored=report.restored[:_MAX_LINES],
        differences=[*report.differences, *changes.words()][:_MAX_LINES],
        notes=notes[:_MAX_LINES],
    )


def _undo(device: Device, changes: Changes, now: Snapshot, limit: Deadline, report: CleanReport) -> None:
    """One pass; what fails shows when the device is looked at again."""
    if changes.processes:
        # Some may have ended by themselves: a number that is gone is no failure.
        _try(device, ["kill", "-9", *map(str, changes.processes)], limit)
        report.killed.extend(f"{pid} {line[:200]}" for pid, line in changes.processes.items())
    if changes.files:
        names = b"".join(os.fsencode(path.rstrip("/")) + b"\0" for path in changes.files)
        _try(device, ["xargs", "-0", "rm", "-rf"], limit, names)
        report.removed.extend(path for path in changes.files if path not in report.removed)
    for key, value in changes.settings.items():
        table, _, name = key.partition("/")
        _try(
            device,
            ["settings", "delete", table, name] if value is None else ["settings", "put", table, name, value],
            limit,
        )
        report.restored.append(f"setting {key}: {now.settings.get(key)!r} → {value!r}")
    for name in changes.packages:
        _try(device, ["pm", "uninstall", name], limit)
        report.restored.append(f"package {name} uninstalled")
    for key, value in changes.properties.items():
        _try(device, ["setprop", key, value], limit)
        report.restored.append(f"property {key}: {now.properties.get(key, '')!r} → {value!r}")
    for name, target in changes.forwards.items():
        try:
            device.set_forward(name, target)
        except RemoteError as error:
            log.info("%s: %s: %s", device, name, error)
        report.restored.append(f"{name}: {now.forwards.get(name)} → {target}")


def _try(device: Device, command: list[str], limit: Deadline, stdin: bytes | None = None) -> None:
    result = device.shell(command, max(1.0, limit.remaining(60.0) or 0.0), stdin)
    if result.exit_code != 0:
        log.info("%s: %s ended with %d", device, shlex.join(command)[:200], result.exit_code)
