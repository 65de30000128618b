"""The farm's own adb server and the tracker: kill requests of others, its death, devices that come and go."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from farm.adb.device import Device
from farm.adb.errors import AdbServerGone, DeviceGone, RemoteError
from farm.adb.server import ADB, AdbServer, listener
from farm.adb.tracker import AdbEntry, Tracker, entries_of
from tests.adb.conftest import Phone, Phones, free_port
from tests.waiting import eventually

SAMPLES = Path(__file__).parent.parent / "data" / "samples" / "device" / "adb_devices"
WAIT_S = 60.0


@pytest.fixture
def tracker(own_server: AdbServer) -> Iterator[Tracker]:
    found = Tracker(own_server)
    found.start()
    yield found
    found.stop()


def _kill(server: AdbServer) -> None:
    pid = server.pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def test_a_server_is_started_once_and_found_by_others(own_server: AdbServer) -> None:
    second = AdbServer(own_server.port, own_server.key_dir, usb=False)
    assert second.start() is False
    assert second.pid() == own_server.pid()
    assert own_server.client.server_version() == 41


def test_somebody_elses_server_on_the_port_is_refused_with_its_process(own_server: AdbServer, tmp_path: Path) -> None:
    other = AdbServer(own_server.port, tmp_path / "keys-of-another-farm", usb=False)
    pid = own_server.pid()
    with pytest.raises(RemoteError, match=f"port {own_server.port} is process {pid}, which was not started") as refused:
        other.start()
    assert f"kill {pid}" in refused.value.remedy
    assert "FARM_ADB_PORT" in refused.value.remedy
    assert own_server.alive()


def test_our_own_server_is_known_by_its_keys_even_where_its_note_was_lost(own_server: AdbServer) -> None:
    pid = own_server.pid()
    own_server.state_file.unlink()
    again = AdbServer(own_server.port, own_server.key_dir, usb=False)
    assert again.start() is False
    assert again.pid() == pid


def test_a_kill_request_of_another_client_is_refused(own_server: AdbServer) -> None:
    done = subprocess.run(
        [ADB, "-P", str(own_server.port), "kill-server"], capture_output=True, timeout=WAIT_S, check=False
    )
    assert done.returncode != 0
    assert own_server.alive()


def test_a_stopped_server_is_gone_and_can_be_started_again(own_server: AdbServer) -> None:
    own_server.stop()
    assert not own_server.alive()
    assert own_server.pid() is None
    assert own_server.start() is True


def test_the_key_is_made_in_the_servers_own_folder(own_server: AdbServer) -> None:
    assert (own_server.key_dir / ".android" / "adbkey").exists()


def test_nothing_that_is_no_key_is_put_into_the_key_folder_of_a_running_server(own_server: AdbServer) -> None:
    eventually(lambda: own_server.pid() is not None)
    assert {path.name for path in own_server.key_dir.iterdir()} <= {".android", "server.log", "adb.log"}
    assert own_server.client.server_version() == 41
    assert "Failed to read key" not in (own_server.key_dir / "server.log").read_text()


def test_a_port_that_is_taken_by_something_else_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                client.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                client.close()

        threading.Thread(target=greet, daemon=True).start()
        with pytest.raises((RemoteError, AdbServerGone)):
            AdbServer(listener.getsockname()[1], tmp_path, usb=False).start()
        listener.shutdown(socket.SHUT_RDWR)


def test_connecting_to_where_nothing_listens_says_so(own_server: AdbServer) -> None:
    with pytest.raises(DeviceGone):
        own_server.connect(f"127.0.0.1:{free_port()}")


def test_devices_with_one_serial_number_get_addresses_of_their_own() -> None:
    text = (
        "0123456789ABCDEF       device usb:1-1 product:a model:b device:c transport_id:1\n"
        "0123456789ABCDEF       device usb:1-2 product:a model:b device:c transport_id:2\n"
    )
    assert [entry.address for entry in entries_of(text)] == ["usb:1-1", "usb:1-2"]
    same_path = (SAMPLES / "01_duplicate_serial_0123456789ABCDEF.txt").read_text()
    assert [entry.address for entry in entries_of(same_path)] == ["transport:56", "transport:57"]


def test_a_device_is_reached_by_its_transport_number(farm_server: AdbServer, phone: Phones, tracker: Tracker) -> None:
    mine = Phone(farm_server, phone().running)
    listed = entries_of(_devices(farm_server))
    number = next(entry.transport_id for entry in listed if entry.address == mine.address)
    device = Device(farm_server.host, farm_server.port, f"transport:{number}", serial=mine.running.serial)
    assert device.serial() == mine.running.serial
    assert device.state() == "device"


def _devices(server: AdbServer) -> str:
    return subprocess.run(
        [ADB, "-P", str(server.port), "devices", "-l"], capture_output=True, text=True, timeout=WAIT_S, check=True
    ).stdout


def test_a_kept_address_is_connected_with_what_it_is(phone: Phones, tracker: Tracker) -> None:
    running = phone().running
    tracker.keep([running.address])
    entry = tracker.wait_for(running.address, timeout_s=WAIT_S)
    assert (entry.model, entry.product) == ("Pixel_8_Pro", "husky")
    tracker.keep([])
    eventually(lambda: tracker.entries() == [], what="the address is let go")


def test_changes_are_told_in_order(phone: Phones, own_server: AdbServer) -> None:
    seen: list[Sequence[AdbEntry]] = []
    tracker = Tracker(own_server, on_change=seen.append)
    tracker.start()
    running = phone().running
    tracker.keep([running.address])
    tracker.wait_for(running.address, timeout_s=WAIT_S)
    tracker.stop()
    assert seen[-1][0].state == "device"


def test_a_callback_that_fails_does_not_stop_the_tracker(phone: Phones, own_server: AdbServer) -> None:
    def fail(entries: Sequence[AdbEntry]) -> None:
        raise ValueError("a bug of the caller's")

    tracker = Tracker(own_server, on_change=fail)
    tracker.start()
    running = phone().running
    tracker.keep([running.address])
    assert tracker.wait_for(running.address, timeout_s=WAIT_S).state == "device"
    tracker.stop()


@contextmanager
def deaf() -> Iterator[str]:
    """The address of something that takes connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_device_that_takes_connections_and_stays_silent_holds_up_no_other(phone: Phones, tracker: Tracker) -> None:
    running = phone().running
    with deaf() as address:
        tracker.keep([address])
        eventually(lambda: address in tracker._keeper._trying, what="the silent one to be tried")
        tracker.keep([address, running.address])
        tracker.wait_for(running.address, timeout_s=WAIT_S)
        assert address in tracker._keeper._trying, "it took its time, and nobody waited for it"
        assert tracker.why_not(running.address) is None


def test_why_an_address_is_not_connected_is_kept_and_told_once(
    tracker: Tracker, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"127.0.0.1:{free_port()}"
    tracker.keep([address, "nonsense"])
    eventually(lambda: tracker._keeper._tries.get(address, 0) >= 3 and tracker.why_not("nonsense"))
    assert "nothing takes connections there" in str(tracker.why_not(address))
    assert [record.getMessage() for record in caplog.records].count(
        f"{address} is not connected: {tracker.why_not(address)}"
    ) == 1
    tracker.keep([])
    eventually(lambda: tracker.why_not(address) is None, what="an address that is not kept any more is forgotten")


def test_a_try_that_fails_in_no_known_way_is_not_the_last(
    phone: Phones, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, failed = AdbServer.connect, list[str]()

    def fail_once(server: AdbServer, address: str, timeout_s: float = 15.0) -> None:
        if not failed:
            failed.append(address)
            raise RuntimeError("a bug")
        connect(server, address, timeout_s)

    running = phone().running
    monkeypatch.setattr(AdbServer, "connect", fail_once)
    tracker.keep([running.address])
    assert tracker.wait_for(running.address, timeout_s=WAIT_S).state == "device"
    assert failed == [running.address]


def test_what_adb_takes_for_connected_and_does_not_list_is_made_anew(
    phone: Phones, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """adb answers "already connected" for a transport that is dead to it: only a disconnect helps."""
    running, asked = phone().running, list[str]()
    connect = AdbServer.connect

    def already(server: AdbServer, address: str, timeout_s: float = 15.0) -> None:
        asked.append("connect")
        if "disconnect" in asked:
            connect(server, address, timeout_s)

    monkeypatch.setattr(AdbServer, "connect", already)
    monkeypatch.setattr(AdbServer, "disconnect", lambda _server, _address: asked.append("disconnect"))
    tracker.keep([running.address])
    tracker.wait_for(running.address, timeout_s=WAIT_S)
    assert asked == ["connect"] * 3 + ["disconnect", "connect"]


def test_waiting_for_a_device_that_does_not_come_ends(tracker: Tracker) -> None:
    with pytest.raises(DeviceGone, match="does not list"):
        tracker.wait_for("127.0.0.1:1", timeout_s=0.2)


def test_a_killed_server_is_started_again_and_its_devices_come_back(phone: Phones, own_server: AdbServer) -> None:
    said: list[str] = []
    tracker = Tracker(own_server, on_server=said.append)
    tracker.start()
    running = phone().running
    tracker.keep([running.address])
    tracker.wait_for(running.address, timeout_s=WAIT_S)
    before = own_server.pid()
    _kill(own_server)
    eventually(lambda: own_server.pid() not in (None, before), what="a new server")
    tracker.wait_for(running.address, timeout_s=WAIT_S)
    assert any("started again" in text for text in said)
    tracker.stop()


def test_a_server_that_died_before_it_was_ever_followed_was_replaced_all_the_same(own_server: AdbServer) -> None:
    tracker = Tracker(own_server)
    _kill(own_server)
    eventually(lambda: not own_server.alive(), what="the end of the server")
    tracker._make_sure()
    assert not tracker.steady


def test_trouble_with_the_server_is_over_when_it_starts_at_last(
    own_server: AdbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, fails = AdbServer.start, list[int]()

    def fail_twice(server: AdbServer, timeout_s: float = 30.0) -> bool:
        if len(fails) < 2:
            fails.append(1)
            raise AdbServerGone("it does not want to")
        return start(server, timeout_s)

    tracker = Tracker(own_server)
    tracker.start()
    eventually(lambda: tracker._socket is not None, what="the server to be followed")
    monkeypatch.setattr(AdbServer, "start", fail_twice)
    _kill(own_server)
    eventually(lambda: tracker.trouble is not None, what="the trouble to be known")
    eventually(lambda: tracker.trouble is None, what="the trouble to be over")
    eventually(lambda: not tracker.steady)
    tracker.stop()


def test_what_a_new_server_does_not_list_yet_is_not_called_gone(own_server: AdbServer, tracker: Tracker) -> None:
    assert tracker.steady
    before = own_server.pid()
    _kill(own_server)
    eventually(lambda: own_server.pid() not in (None, before), what="a new server")
    eventually(lambda: not tracker.steady, what="it is known that the server was replaced")
    eventually(lambda: tracker.steady, what="and that its devices had their time")
    assert tracker.trouble is None


def test_a_server_killed_under_a_command_is_no_lost_device(phone: Phones, own_server: AdbServer) -> None:
    mine = Phone(own_server, phone().running)
    mine.connect()
    process = mine.device().spawn("echo ready; sleep 4718")
    process.read_line(WAIT_S)
    _kill(own_server)
    with pytest.raises(AdbServerGone):
        process.read_line(WAIT_S)


def test_a_server_killed_under_a_command_and_restarted_at_once_is_no_lost_device(
    phone: Phones, own_server: AdbServer, tracker: Tracker
) -> None:
    mine = Phone(own_server, phone().running)
    tracker.keep([mine.address])
    tracker.wait_for(mine.address, timeout_s=WAIT_S)
    process = mine.device().spawn("echo ready; sleep 4719")
    process.read_line(WAIT_S)
    before = own_server.pid()
    _kill(own_server)
    eventually(lambda: own_server.pid() not in (None, before), what="a new server")
    with pytest.raises(AdbServerGone):
        process.read_line(WAIT_S)
    tracker.wait_for(mine.address, timeout_s=WAIT_S)
    assert mine.device().shell(["echo", "on"]).stdout == "on\n"


def test_a_server_killed_under_a_push_is_no_lost_device_and_leaves_no_file(
    phone: Phones, own_server: AdbServer, tmp_path: Path
) -> None:
    mine = Phone(own_server, phone().running)
    mine.connect()
    local = tmp_path / "a"
    with local.open("wb") as file:
        file.truncate(100 << 20)
    killed: list[int] = []

    def kill_once(sent: int) -> None:
        if not killed:
            _kill(own_server)
            killed.append(sent)

    with pytest.raises(AdbServerGone):
        mine.device().push(local, "/data/local/tmp/never", progress=kill_once)
    own_server.start()
    mine.connect()
    assert mine.device().shell(["ls", "/data/local/tmp/never"]).exit_code != 0
    mine.device().shell(["rm", "-f", "/data/local/tmp/never.part"])


def test_a_device_that_was_unplugged_is_connected_again_when_it_is_back(phone: Phones, own_server: AdbServer) -> None:
    mine = phone("rk3568", fresh=True)
    tracker = Tracker(own_server)
    tracker.start()
    tracker.keep([mine.address])
    tracker.wait_for(mine.address, timeout_s=WAIT_S)
    mine.fault("unplug")
    eventually(lambda: all(entry.state != "device" for entry in tracker.entries()), what="it is seen to be gone")
    mine.fault("replug")
    assert tracker.wait_for(mine.address, timeout_s=WAIT_S).state == "device"
    tracker.stop()


def test_who_listens_on_a_port_is_found_while_its_files_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    read, gone = os.readlink, iter((True, False) * 10_000)

    def readlink(path: Path) -> str:
        if Path(path).parent.parent.name == str(os.getpid()) and next(gone) and "socket" not in read(path):
            raise FileNotFoundError(path)
        return read(path)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setattr(os, "readlink", readlink)
        assert listener(listening.getsockname()[1]) == os.getpid()
    monkeypatch.undo()
    assert listener(free_port()) is None
