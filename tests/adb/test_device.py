"""Commands and files on a virtual device, through the stock adb server."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from farm.adb import connection, deadline, link
from farm.adb.device import Device
from farm.adb.errors import (
    AdbError,
    AdbServerGone,
    Cancelled,
    DeviceGone,
    DeviceUnavailable,
    IdentityMismatch,
    NoSpace,
    RemoteError,
    ShellTimeout,
)
from farm.adb.link import PROBE_S, QUIET_S
from tests.adb.conftest import Phone, Phones, free_port
from tests.waiting import eventually

WAIT_S = 60.0


def _processes(device: Device, word: str) -> list[str]:
    lines = device.shell(["ps", "-A", "-o", "PID,ARGS"]).stdout.splitlines()
    return [line for line in lines if word in line]


def test_a_command_gives_its_exit_code_and_both_streams_apart(phone: Phones) -> None:
    result = phone().device().shell("echo out; echo err >&2; exit 7")
    assert (result.exit_code, result.stdout, result.stderr, result.truncated) == (7, "out\n", "err\n", False)


def test_a_sequence_reaches_the_program_as_it_is(phone: Phones) -> None:
    words = ["a b", "$HOME", "'", '"', "*", "`id`", "; exit 3", "-n", "ü\n"]
    assert phone().device().shell(["printf", "%s|", *words]).stdout == "".join(f"{word}|" for word in words)


def test_standard_input_reaches_the_command(phone: Phones) -> None:
    data = os.urandom(3_000_000)
    assert phone().device().shell(["cat"], stdin=data).stdout_bytes == data


def test_a_command_that_reads_standard_input_ends_when_none_is_given(phone: Phones) -> None:
    assert phone().device().shell(["cat"]).stdout == ""


def test_output_beyond_the_bound_is_dropped_and_the_exit_code_kept(phone: Phones) -> None:
    result = phone().device().shell("head -c 30000000 /dev/urandom; exit 4", WAIT_S, max_output=100_000)
    assert (len(result.stdout_bytes), result.truncated, result.exit_code) == (100_000, True, 4)


def test_a_command_killed_by_a_signal_has_the_shells_code(phone: Phones) -> None:
    assert phone().device().shell("sh -c 'kill -9 $$'").exit_code == 137


def test_a_time_out_kills_the_whole_group_on_the_device(phone: Phones) -> None:
    device = phone().device()
    with pytest.raises(ShellTimeout, match="did not end within") as caught:
        device.shell("sleep 4711 & sleep 4711 | sleep 4711", timeout_s=2)
    assert caught.value.remedy
    eventually(lambda: not _processes(device, "sleep 4711"), what="the sleepers are gone")


def test_a_process_gives_lines_as_they_come_and_its_exit_code(phone: Phones) -> None:
    process = phone().device().spawn("echo one; echo two >&2; read line; echo got $line; exit 5")
    first = {(line.stream, line.text) for line in (process.read_line(WAIT_S), process.read_line(WAIT_S)) if line}
    assert first == {("stdout", "one"), ("stderr", "two")}
    assert process.exit_code is None
    process.write(b"three\n")
    assert [line.text for line in process.lines(WAIT_S)] == ["got three"]
    assert process.exit_code == 5


def test_a_process_tells_the_pid_of_the_program_itself(phone: Phones) -> None:
    device = phone().device()
    process = device.spawn(["sleep", "4712"])
    pid = process.wait_pid(WAIT_S)
    assert device.shell(["cat", f"/proc/{pid}/cmdline"]).stdout_bytes.split(b"\0")[1] == b"4712"
    process.kill()
    assert list(process.lines(WAIT_S)) == []
    eventually(lambda: not _processes(device, "sleep 4712"), what="the process is gone")


def test_a_silent_process_times_out_and_can_be_listened_to_again(phone: Phones) -> None:
    process = phone().device().spawn("read line; echo $line")
    with pytest.raises(ShellTimeout):
        process.read_line(0.3)
    process.write(b"still here\n")
    line = process.read_line(WAIT_S)
    assert line is not None
    assert line.text == "still here"
    process.kill()


def test_a_process_can_be_killed_from_another_thread(phone: Phones) -> None:
    process = phone().device().spawn("sleep 4713")
    process.wait_pid(WAIT_S)
    killer = threading.Timer(0.2, process.kill)
    killer.start()
    assert list(process.lines(WAIT_S)) == []
    killer.join(WAIT_S)


def test_the_identity_of_a_device_is_its_own_serial_number(phone: Phones) -> None:
    here = phone()
    assert here.device().serial() == here.running.serial
    assert here.device(serial=here.running.serial).shell(["echo", "hi"]).stdout == "hi\n"


def test_another_device_at_the_address_is_refused_before_anything_runs(phone: Phones) -> None:
    here = phone()
    with pytest.raises(IdentityMismatch, match=here.running.serial):
        here.device(serial="SOMEBODYELSE").shell(["touch", "/data/local/tmp/should-not-be"])
    assert here.device().shell(["ls", "/data/local/tmp/should-not-be"]).exit_code != 0


def test_a_device_that_goes_while_it_is_asked_who_it_is_is_a_lost_device(
    phone: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = phone(fresh=True)
    here.fault("slow-shell", delay_ms=60_000)
    opened = threading.Semaphore(0)

    def open_transport(*arguments: Any) -> Any:
        try:
            return connection.open_transport(*arguments)
        finally:
            opened.release()

    monkeypatch.setattr(link, "open_transport", open_transport)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(here.device(serial=here.running.serial).shell, ["true"])
        assert opened.acquire(timeout=WAIT_S)
        assert opened.acquire(timeout=WAIT_S)  # the second transport is the one that asks for the serial number
        here.fault("unplug")
        with pytest.raises(DeviceUnavailable):
            asked.result(WAIT_S)


def test_properties_and_the_boot_id_are_read(phone: Phones) -> None:
    device = phone().device()
    assert device.props()["ro.product.model"] == "Pixel 8 Pro"
    assert len(device.boot_id()) == 36


def test_a_device_that_adb_does_not_know_is_gone(phone: Phones) -> None:
    here = phone()
    with pytest.raises(DeviceGone):
        Device(here.server.host, here.server.port, "127.0.0.1:1").shell(["true"])


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 1_048_576, 5_000_001])
def test_a_file_comes_back_as_it_was_sent(phone: Phones, tmp_path: Path, size: int) -> None:
    device, local, back = phone().device(), tmp_path / "a", tmp_path / "b"
    local.write_bytes(os.urandom(size))
    seen: list[int] = []
    assert device.push(local, "/data/local/tmp/t/sent", 0o755, progress=seen.append) == size
    assert device.shell(["stat", "-c", "%a", "/data/local/tmp/t/sent"]).stdout == "755\n"
    assert device.pull("/data/local/tmp/t/sent", back) == size
    assert back.read_bytes() == local.read_bytes()
    assert seen == sorted(seen)
    assert (seen or [0])[-1] == size


def test_a_pull_stops_at_its_limit_and_leaves_nothing(phone: Phones, tmp_path: Path) -> None:
    device, local = phone().device(), tmp_path / "a"
    local.write_bytes(b"x" * 300_000)
    device.push(local, "/data/local/tmp/big")
    with pytest.raises(RemoteError, match="limit of 100000"):
        device.pull("/data/local/tmp/big", tmp_path / "b", limit=100_000)
    assert list(tmp_path.iterdir()) == [local]


def test_a_push_that_is_cancelled_leaves_no_file_under_its_name(phone: Phones, tmp_path: Path) -> None:
    device, local = phone().device(), tmp_path / "a"
    local.write_bytes(bytes(8 << 20))
    sent: list[int] = []
    with pytest.raises(Cancelled):
        device.push(local, "/data/local/tmp/cancelled", progress=sent.append, cancelled=lambda: bool(sent))
    assert device.shell(["ls", "/data/local/tmp/cancelled"]).exit_code != 0


def test_a_push_to_a_full_device_names_the_numbers(phone: Phones, tmp_path: Path) -> None:
    here, local = phone("rk3568", fresh=True, data_mb=64), tmp_path / "a"
    local.write_bytes(bytes(100 << 20))
    with pytest.raises(NoSpace, match="104857600") as caught:
        here.device().push(local, "/data/local/tmp/a")
    assert caught.value.needed == 100 << 20
    assert caught.value.free is not None
    assert here.device().shell(["ls", "/data/local/tmp/a"]).exit_code != 0


def test_a_push_where_one_may_not_write_says_where_one_may(phone: Phones, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    with pytest.raises(RemoteError) as caught:
        phone().device().push(tmp_path / "a", "/system/bin/a")
    assert "/data/local/tmp" in caught.value.remedy


def test_a_port_of_the_device_is_reached_without_a_forward(phone: Phones) -> None:
    device, port = phone().device(), free_port()
    listener = device.spawn(["nc", "-l", "-p", str(port), "-s", "127.0.0.1", "echo", "from the device"])

    def answer() -> bytes:
        with device.open_tcp(port) as stream:
            stream.settimeout(WAIT_S)
            return stream.recv(100)

    def answered() -> bytes:
        try:
            return answer()
        except RemoteError:
            return b""  # it does not listen yet

    assert eventually(answered) == b"from the device\n"
    listener.kill()


def test_a_port_where_nothing_listens_is_a_refusal_not_a_lost_device(phone: Phones) -> None:
    with pytest.raises(RemoteError):
        phone().device().open_tcp(free_port())


def test_a_device_unplugged_under_a_command_is_gone_at_once(phone: Phones) -> None:
    here = phone("rk3568", fresh=True)
    process = here.device().spawn("echo ready; sleep 4714")
    process.read_line(WAIT_S)
    here.fault("unplug")
    with pytest.raises(DeviceGone):
        process.read_line(WAIT_S)


def test_a_device_unplugged_under_a_push_is_gone_and_the_file_is_not_there(phone: Phones, tmp_path: Path) -> None:
    here, local = phone("rk3568", fresh=True), tmp_path / "a"
    local.write_bytes(bytes(200 << 20))
    with pytest.raises(DeviceGone):
        here.device().push(
            local, "/data/local/tmp/a", progress=lambda sent: here.fault("unplug") if sent < 2 << 20 else None
        )
    here.fault("replug")
    here.connect()
    assert here.device().shell(["ls", "/data/local/tmp/a"]).exit_code != 0


def test_a_device_that_goes_offline_under_a_command_is_gone(phone: Phones) -> None:
    here = phone("rk3568", fresh=True)
    process = here.device().spawn("echo ready; sleep 4715")
    process.read_line(WAIT_S)
    here.fault("offline", for_s=600)
    with pytest.raises(DeviceGone):
        process.read_line(QUIET_S + PROBE_S + 30)


@contextmanager
def _frozen(phone: Phone) -> Iterator[None]:
    """The device takes and gives no byte, and closes nothing: as behind a dead switch."""
    pids = [phone.running.pid]
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            pids += [int(word) for word in (task / "children").read_text().split()]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_a_device_that_falls_silent_is_gone_long_before_tcp_notices(
    phone: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farm.adb.link.QUIET_S", 0.5)
    monkeypatch.setattr("farm.adb.link.PROBE_S", 1.0)
    here = phone("rk3568", fresh=True)
    process = here.device().spawn("echo ready; sleep 4715")
    process.read_line(WAIT_S)
    with _frozen(here), pytest.raises(DeviceGone, match="sign of life"):
        process.read_line(WAIT_S)


def test_a_command_on_a_busy_host_gets_more_time_and_a_hung_one_still_ends(
    phone: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = phone("rk3568").device()
    device.shell("true")  # the way is open: what is limited below is the command alone
    monkeypatch.setattr(deadline, "stalled_s", time.monotonic)  # somebody always waits for a CPU
    assert device.shell("sleep 4; echo done", timeout_s=3).stdout == "done\n"
    with pytest.raises(ShellTimeout, match=r"did not end within 2 s \(0.5 s on a host that is not this busy\)"):
        device.shell("sleep 4716", timeout_s=0.5)
    monkeypatch.setattr(deadline, "stalled_s", lambda: 0.0)
    with pytest.raises(ShellTimeout, match=r"did not end within 0.5 s;"):
        device.shell("sleep 4717", timeout_s=0.5)


def test_a_push_that_no_byte_of_is_taken_any_more_ends(
    phone: Phones, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farm.adb.sync.STALL_S", 1.0)
    here, local = phone("rk3568", fresh=True), tmp_path / "a"
    with local.open("wb") as file:
        file.truncate(300 << 20)
    with ExitStack() as stack:
        frozen: list[int] = []

        def freeze(sent: int) -> None:
            if not frozen:
                stack.enter_context(_frozen(here))
                frozen.append(sent)

        with pytest.raises(DeviceGone, match="took no data"):
            here.device().send(local, "/data/local/tmp/a", progress=freeze)


def test_a_silent_command_on_a_live_device_is_left_alone(phone: Phones) -> None:
    result = phone().device().shell(f"sleep {QUIET_S + 2}; echo done", WAIT_S)
    assert result.stdout == "done\n"


def test_a_reboot_is_seen_by_the_boot_id(phone: Phones) -> None:
    here = phone("rk3568", fresh=True)
    before = here.device().boot_id()
    here.device().reboot()

    def boot_id() -> str | None:
        try:
            here.server.connect(here.address)
            return here.device().boot_id()
        except AdbError:
            return None

    eventually(lambda: boot_id() not in (None, before), what="a new boot id")


def test_where_no_adb_server_is_it_says_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(AdbServerGone):
            Device("127.0.0.1", taken.getsockname()[1], "x").shell(["true"])
