"""Full disks under a suite: the device's, the host's, and one that the suite filled itself."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from farm.adb.device import Device
from farm.adb.errors import RemoteError
from farm.domain.causes import Cause
from runner.gate import Gate
from runner.journal import FileJournal
from runner.output import OutputLog
from runner.service import Service
from runner.storage import cause_of_full_disk, judge
from runner.turns import Turns
from tests.devices import StartVirtualDevice
from tests.runner.attempts import Attempts, write_pack
from virtual import fleet

SUITE = """
import time
from pathlib import Path

def test_writes(device):
    Path("runs").touch()
    end = time.monotonic() + 60
    while not Path("go-on").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    device.check_shell("echo more > /data/local/tmp/more")

def test_would_find_it_full_too(device):
    device.check_shell("echo more > /data/local/tmp/more")
"""


def test_a_device_that_somebody_else_filled_is_blamed_and_the_test_has_not_finished(
    attempts: Attempts, virtual_device: StartVirtualDevice, tmp_path: Path
) -> None:
    device = virtual_device("rk3568", fresh=True, data_mb=128)
    attempt = attempts.make(device, write_pack(tmp_path / "pack", {"s/test_writes.py": SUITE}), "s")
    fleet.fault(device.dir.parent, device.serial, "disk-full", state="on")
    (attempt.folder / "work").mkdir(exist_ok=True)
    (attempt.folder / "work" / "go-on").touch()
    end = attempt.run()
    assert (end.fields["outcome"], end.fields["cause"]) == ("infra-error", "storage-full")
    assert "No space left" in end.fields["reason"]
    assert attempt.outcomes() == {"test_writes": "error"}


@pytest.mark.parametrize(
    ("free", "used", "cached", "others"),
    [
        ("0 4096", "5000\t/data/local/tmp", "4000\t/data/local/tmp/farm", True),
        ("0 4096", "5000\t/data/local/tmp", "0", True),
        ("0 4096", "200000\t/data/local/tmp", "4000\t/data/local/tmp/farm", False),  # the suite wrote 196 MB
        ("1000000 4096", "5000\t/data/local/tmp", "0", False),
        ("? ?", "5000\t/data/local/tmp", "0", False),
    ],
)
def test_who_filled_it_is_told_by_what_the_suite_itself_has_written(
    free: str, used: str, cached: str, others: bool
) -> None:
    assert judge(free, used, cached) is others


def test_what_a_full_host_refuses_a_suite_is_the_hosts_and_a_plain_error_is_not() -> None:
    device = cast(Device, None)  # nobody asks it
    assert cause_of_full_disk(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), device) is Cause.HOST_DISK
    assert cause_of_full_disk(OSError(errno.EROFS, "Read-only file system"), device) is None
    assert cause_of_full_disk(AssertionError("No space left on device"), device) is None
    assert cause_of_full_disk(RemoteError("ended with 1 and said: not found"), device) is None


class Full(FileJournal):
    def record(self, kind: str, **fields: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_journal_that_takes_nothing_more_ends_the_attempt(tmp_path: Path) -> None:
    """Otherwise the test whose end was not written down would be one that "was not run", and the engine's failure."""
    service = Service(tmp_path / "s.sock", Full(tmp_path / "journal.jsonl"), Gate(["S1"]), Turns(tmp_path, 1), tmp_path)
    assert service.broken is None
    service.incident("runner", "something")
    assert service.broken == "the journal cannot be written: No space left on device"


def test_a_log_that_the_disk_does_not_take_holds_up_nobody() -> None:
    out, into = os.pipe()
    with os.fdopen(out, "rb") as stream:
        log = OutputLog(stream, Path("/dev/full"))
        writer = threading.Thread(target=lambda: (os.write(into, b"x" * 300_000), os.close(into)))
        writer.start()
        writer.join(30)
        assert not writer.is_alive()
        log.finish()
    assert log.tail(10) == "x" * 10
    assert log.count == 300_000
