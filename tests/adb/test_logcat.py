"""The log of a lease: complete, readable while it is written, and honest about its gaps."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import zstandard

from farm.adb.log_source import RING_BYTES, look
from farm.adb.logcat import LogcatStream, LogFile, read_lines
from farm.evidence.collect.log_marks import boot_of, clock_of
from tests.adb.conftest import Phone, Phones
from tests.waiting import eventually

WAIT_S = 60.0


def _say(phone: Phone, text: str) -> None:
    phone.device().check_shell(["log", "-t", "farmtest", text])


def _count(path: Path, text: str) -> int:
    return sum(text in line for line in read_lines(path))


def test_lines_are_there_soon_and_once(phone: Phones, tmp_path: Path) -> None:
    here, path = phone(), tmp_path / "logcat.zst"
    stream = LogcatStream(here.device(), path)
    stream.start()
    _say(here, "one-4720")
    eventually(lambda: _count(path, "one-4720") == 1)
    assert stream.pids
    _say(here, "two-4720")
    eventually(lambda: _count(path, "two-4720") == 1)
    stream.stop()
    assert [_count(path, f"{word}-4720") for word in ("one", "two")] == [1, 1]
    plain = zstandard.ZstdDecompressor().stream_reader(path.read_bytes(), read_across_frames=True).read()
    assert b"one-4720" in plain


def test_what_was_written_just_before_the_end_is_there(phone: Phones, tmp_path: Path) -> None:
    here, path = phone(), tmp_path / "logcat.zst"
    stream = LogcatStream(here.device(), path)
    stream.start()
    eventually(lambda: stream.pids)
    here.device().check_shell("for i in 1 2 3 4 5 6 7 8 9; do log -t farmtest last-$i-4725; done")
    stream.stop(WAIT_S)
    assert [_count(path, f"last-{index}-4725") for index in range(1, 10)] == [1] * 9


def test_after_a_restart_of_the_farm_it_goes_on_without_repeating(phone: Phones, tmp_path: Path) -> None:
    here, path = phone(), tmp_path / "logcat.zst"
    first = LogcatStream(here.device(), path)
    first.start()
    _say(here, "before-4721")
    eventually(lambda: _count(path, "before-4721") == 1)
    first.stop()
    with path.open("ab") as file:
        file.write(zstandard.compress(b"a frame that was being written")[:-3])
    _say(here, "between-4721")
    second = LogcatStream(here.device(), path)
    second.start()
    _say(here, "after-4721")
    eventually(lambda: _count(path, "after-4721") == 1)
    second.stop()
    assert [_count(path, f"{word}-4721") for word in ("before", "between", "after")] == [1, 1, 1]
    assert _count(path, "the farm was restarted") == 1
    assert _count(path, "lines may be missing") == 0


def test_an_unplugged_device_leaves_a_gap_that_is_said_and_filled(phone: Phones, tmp_path: Path) -> None:
    here, path = phone("rk3568", fresh=True), tmp_path / "logcat.zst"
    stream = LogcatStream(here.device(), path)
    stream.start()
    _say(here, "before-4722")
    eventually(lambda: _count(path, "before-4722") == 1)
    here.fault("unplug")
    eventually(lambda: _count(path, "farm:") >= 2, what="the gap is noted")
    here.fault("replug")
    here.connect()
    _say(here, "after-4722")
    eventually(lambda: _count(path, "after-4722") == 1)
    stream.stop()
    assert _count(path, "before-4722") == 1
    assert any("gap" in line for line in read_lines(path))


def test_a_restart_of_the_device_is_said(phone: Phones, tmp_path: Path) -> None:
    here, path = phone("rk3568", fresh=True), tmp_path / "logcat.zst"
    stream = LogcatStream(here.device(), path)
    stream.start()
    eventually(lambda: stream.pids)
    here.fault("reboot")

    def noted() -> bool:
        here.connect()
        return _count(path, "the device was restarted") == 1

    eventually(noted)
    stream.stop()


def test_the_file_is_bounded_and_says_where_the_rest_is(tmp_path: Path) -> None:
    path = tmp_path / "logcat.zst"
    file = LogFile(path, max_bytes=100_000)
    file.open()
    numbers = random.Random(1)
    for index in range(3000):
        file.write(f"line {index} {numbers.randbytes(60).hex()}")
        if index % 50 == 0:
            file.flush()
    file.close()
    assert path.stat().st_size <= 100_000
    assert os.path.getsize(f"{path}.1") <= 100_000
    assert "logcat.zst.1" in next(iter(read_lines(path)))
    assert _count(path, "line 2999 ") == 1


def test_a_torn_end_does_not_hide_what_is_before_it(tmp_path: Path) -> None:
    path = tmp_path / "logcat.zst"
    whole = zstandard.compress(b"11-29 22:03:11.929  1  1 I a: b\n")
    for cut in range(len(whole)):
        path.write_bytes(whole + whole[:cut])
        assert list(read_lines(path)) == ["11-29 22:03:11.929  1  1 I a: b"]
        assert LogFile(path, 1 << 20).open() == "11-29 22:03:11.929"
        assert path.read_bytes() == whole


def _rings(phone: Phone) -> dict[str, int]:
    return look(phone.device()).rings


def test_rings_are_enlarged_while_it_streams_and_then_as_they_were(phone: Phones, tmp_path: Path) -> None:
    here = phone()
    before = _rings(here)
    assert min(before.values()) < RING_BYTES
    stream = LogcatStream(here.device(), tmp_path / "logcat.zst")
    stream.start()
    eventually(lambda: set(_rings(here).values()) == {RING_BYTES}, what="larger rings")
    stream.stop()
    assert _rings(here) == before


def test_the_file_says_which_boot_and_how_the_clocks_compare(phone: Phones, tmp_path: Path) -> None:
    here, path = phone(), tmp_path / "logcat.zst"
    stream = LogcatStream(here.device(), path)
    stream.start()
    eventually(lambda: any(clock_of(line) for line in read_lines(path)), what="the clock's line")
    stream.stop()
    [clock] = filter(None, map(clock_of, read_lines(path)))
    assert abs(clock.offset) <= clock.within + timedelta(seconds=0.1)  # a virtual device has the host's own clock
    assert list(filter(None, map(boot_of, read_lines(path)))) == [here.device().boot_id()]
    line = next(line for line in read_lines(path) if line[:1].isdigit())
    at = clock.host_time(line[:18], datetime.now(UTC).year)
    assert at is not None
    assert abs(at - datetime.now(UTC)) < timedelta(days=1)


@pytest.mark.parametrize("boot", ["another", "the same"])
def test_a_clock_that_was_set_back_hides_no_lines(phone: Phones, tmp_path: Path, boot: str) -> None:
    here, path = phone(), tmp_path / "logcat.zst"
    boot_id = here.device().boot_id() if boot == "the same" else "00000000-0000-0000-0000-000000000000"
    earlier = LogFile(path, 1 << 20)
    earlier.open()
    earlier.note(f"boot {boot_id}")
    earlier.write("12-31 23:59:59.999  1000  1000 I future  : written while the clock was ahead")
    earlier.close()
    _say(here, f"hidden-{boot[:3]}-4730")
    stream = LogcatStream(here.device(), path)
    stream.start()
    eventually(lambda: _count(path, f"hidden-{boot[:3]}-4730") == 1)
    stream.stop()
    said = "the device was restarted" if boot == "another" else "clock was set back"
    assert _count(path, said) == 1
