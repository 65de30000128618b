"""Locks of the machine: one holder, or many that share; seen by every process, gone with its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from farm.adb.locks import FileLock, LockBusy, device_lock
from farm.settings import SettingsError, locks_dir

HOLD = """
import sys
from pathlib import Path
from farm.adb.locks import FileLock
assert FileLock(Path(sys.argv[1])).try_acquire("attempt 3 of another farm")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_device_is_held_by_one_at_a_time_and_another_device_is_not_concerned(tmp_path: Path) -> None:
    first, second, other = (device_lock(tmp_path, serial) for serial in ("a:1", "a:1", "a:2"))
    assert first.try_acquire()
    assert not second.try_acquire()
    assert other.try_acquire()
    first.release()
    assert second.try_acquire()
    second.release()
    other.release()


def test_who_waits_in_vain_is_told_the_process_and_what_it_does(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockBusy, match=rf"held by pid {holder.pid} \(attempt 3 of another farm\)"):
            FileLock(path).acquire(0.0)
    finally:
        holder.kill()
        holder.communicate(timeout=30)
    lock = FileLock(path)
    lock.acquire(30.0)  # a killed holder holds nothing
    lock.release()


def test_many_share_a_lock_that_one_cannot_have_alone(tmp_path: Path) -> None:
    one, two, alone = (FileLock(tmp_path / "machine.lock") for _ in range(3))
    assert one.try_acquire(shared=True)
    assert two.try_acquire(shared=True)
    assert not alone.try_acquire()
    one.release()
    two.release()
    assert alone.try_acquire()
    assert not one.try_acquire(shared=True)
    alone.release()


def test_a_lock_file_that_was_tidied_away_under_its_opener_is_not_taken_for_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.lock"
    another = tmp_path / "another"
    another.touch()
    opened = os.open

    def tidy(*arguments: object, **more: object) -> int:
        fd = opened(*arguments, **more)  # type: ignore[arg-type]
        os.rename(path, path.with_suffix(".old"))
        os.rename(another, path)
        return fd

    monkeypatch.setattr(os, "open", tidy)
    assert not FileLock(path).try_acquire()
    monkeypatch.undo()
    lock = FileLock(path)
    assert lock.try_acquire()
    lock.release()


def test_virtual_devices_of_two_farms_with_one_serial_number_are_two_devices(tmp_path: Path) -> None:
    ours = device_lock(tmp_path, "virtual-rk3568", "127.0.0.1:21001")
    theirs = device_lock(tmp_path, "virtual-rk3568", "127.0.0.1:21002")
    usb, again = device_lock(tmp_path, "3A021", "3A021"), device_lock(tmp_path, "3A021", "usb:1-2")
    assert ours.try_acquire()
    assert theirs.try_acquire()
    assert usb.try_acquire()
    assert not again.try_acquire(), "a phone is one phone, whatever adb calls it"
    for lock in (ours, theirs, usb):
        lock.release()


def test_every_state_folder_of_a_user_has_the_same_folder_of_locks(tmp_path: Path) -> None:
    wanted = tmp_path / "locks"
    found = {locks_dir({"FARM_STATE": state, "FARM_LOCKS": str(wanted)}) for state in ("/a/.farm", "/a/.farm/demo")}
    assert found == {wanted}
    assert wanted.stat().st_mode & 0o777 == 0o700
    assert str(os.getuid()) in locks_dir({}).name


def test_a_folder_of_locks_that_others_can_write_is_refused_with_the_remedy(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    for bad in (shared, link):
        with pytest.raises(SettingsError, match="name another folder in FARM_LOCKS"):
            locks_dir({"FARM_LOCKS": str(bad)})
    assert shared.stat().st_mode & 0o777 == 0o777, "somebody's folder was changed"
