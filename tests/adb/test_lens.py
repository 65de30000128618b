"""The lens with the stock adb and with our own Device as clients, over a TCP relay as in a sandbox."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from farm.adb.connection import query
from farm.adb.device import Device
from farm.adb.errors import AdbServerGone, DeviceGone, DeviceUnavailable
from farm.adb.lens import LensServer, Refusal
from farm.adb.server import ADB, AdbServer
from farm.adb.tracker import entries_of
from tests.adb.conftest import Phone, Phones
from tests.waiting import eventually

WAIT_S = 60.0


class Relay:
    """TCP on a free port → a unix socket."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            upstream = socket.socket(socket.AF_UNIX)
            try:
                upstream.connect(str(self._path))
            except OSError:
                client.close()
                continue
            for source, target in ((client, upstream), (upstream, client)):
                threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            for sock in (source, target):
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class Sandbox:
    """What a suite sees: an adb server on a port, which is the lens."""

    def __init__(self, server: AdbServer, allowed: dict[str, str], folder: Path) -> None:
        self.refusals: list[Refusal] = []
        self.lens = LensServer(folder / "lens.sock", (server.host, server.port), allowed, self.refusals.append)
        self.lens.start()
        self.relay = Relay(folder / "lens.sock")
        self._home = str(folder)

    def adb(self, *arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        environment = {"HOME": self._home, "PATH": os.environ["PATH"], "TMPDIR": self._home}
        return subprocess.run(
            [ADB, "-P", str(self.relay.port), *arguments],
            env=environment,
            input=stdin,
            capture_output=True,
            timeout=WAIT_S,
            check=False,
        )

    def device(self, name: str, serial: str | None = None) -> Device:
        return Device("127.0.0.1", self.relay.port, name, serial=serial)

    def close(self) -> None:
        self.lens.stop()
        self.relay.close()


MakeSandbox = Callable[..., Sandbox]


@pytest.fixture
def sandbox() -> Iterator[MakeSandbox]:
    folder = Path(tempfile.mkdtemp(prefix="lens-"))
    made: list[Sandbox] = []

    def make(server: AdbServer, *phones: Phone, **other: str) -> Sandbox:
        allowed = {phone.address: phone.running.serial for phone in phones} | other
        made.append(Sandbox(server, allowed, folder))
        return made[-1]

    yield make
    for one in made:
        one.close()
    shutil.rmtree(folder, ignore_errors=True)


def test_stock_adb_sees_only_the_leased_device(phone: Phones, sandbox: MakeSandbox) -> None:
    mine, other = phone(), phone("rk3568")
    here = sandbox(mine.server, mine)
    listed = here.adb("devices", "-l").stdout.decode()
    assert mine.running.serial in listed
    assert "model:Pixel_8_Pro" in listed
    assert other.address not in listed
    assert other.running.serial not in listed


def test_stock_adb_works_on_the_leased_device(phone: Phones, sandbox: MakeSandbox, tmp_path: Path) -> None:
    mine = phone()
    here = sandbox(mine.server, mine)
    done = here.adb("-s", mine.running.serial, "shell", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")
    assert here.adb("shell", "echo", "the only one").stdout == b"the only one\n"
    assert here.adb("shell", "cat > /data/local/tmp/in", stdin=b"typed").returncode == 0
    assert here.adb("exec-out", "cat /data/local/tmp/in").stdout == b"typed"
    data = os.urandom(3_000_000)
    (tmp_path / "up").write_bytes(data)
    assert here.adb("push", str(tmp_path / "up"), "/data/local/tmp/up").returncode == 0
    assert here.adb("pull", "/data/local/tmp/up", str(tmp_path / "down")).returncode == 0
    assert (tmp_path / "down").read_bytes() == data
    assert here.adb("wait-for-device").returncode == 0
    assert here.adb("get-state").stdout == b"device\n"
    assert here.adb("get-serialno").stdout.decode().strip() == mine.running.serial
    assert here.refusals == []


def test_our_own_device_works_through_the_lens(phone: Phones, sandbox: MakeSandbox) -> None:
    mine = phone()
    serial = mine.running.serial
    device = sandbox(mine.server, mine).device(serial, serial=serial)
    assert device.shell(["cat"], stdin=b"x" * 2_000_000).stdout_bytes == b"x" * 2_000_000
    assert device.boot_id() == mine.device().boot_id()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["kill-server"], "kill"),
        (["connect", "127.0.0.1:1"], "connect"),
        (["disconnect"], "disconnect"),
        (["forward", "tcp:0", "tcp:1"], "forward"),
        (["forward", "--list"], "forward"),
        (["reverse", "tcp:4000", "tcp:5432"], "reverse"),
        (["tcpip", "5555"], "tcpip"),
        (["root"], "root"),
        (["reconnect"], "reconnect"),
        (["mdns", "services"], "mdns"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_a_suite_may_not_do_is_refused_with_a_reason(
    phone: Phones, sandbox: MakeSandbox, arguments: list[str], word: str
) -> None:
    mine = phone()
    here = sandbox(mine.server, mine)
    done = here.adb(*arguments)
    assert done.returncode != 0 or b"not for a suite" in done.stdout + done.stderr
    assert any(word in refusal.reason for refusal in here.refusals)
    assert mine.server.alive()
    assert mine.device().state() == "device"


def test_another_device_cannot_be_reached_by_any_name(phone: Phones, sandbox: MakeSandbox) -> None:
    mine, other = phone(), phone("rk3568")
    here = sandbox(mine.server, mine)
    for name in (other.address, other.running.serial, "127.0.0.1"):
        done = here.adb("-s", name, "shell", "touch", "/data/local/tmp/intruder")
        assert done.returncode != 0
        with pytest.raises(DeviceGone):
            here.device(name).shell(["true"])
    listed = entries_of(query(mine.server.host, mine.server.port, "host:devices-l"))
    number = next(entry.transport_id for entry in listed if entry.address == other.address)
    assert here.adb("-t", str(number), "shell", "true").returncode != 0
    assert len(here.refusals) >= 7
    assert other.device().shell(["ls", "/data/local/tmp/intruder"]).exit_code != 0


def test_of_two_leased_devices_one_must_be_named(phone: Phones, sandbox: MakeSandbox) -> None:
    first, second = phone(), phone("rk3568")
    here = sandbox(first.server, first, second)
    assert b"more than one device" in here.adb("shell", "true").stderr
    for one in (first, second):
        told = here.adb("-s", one.running.serial, "shell", "getprop ro.serialno").stdout.decode().strip()
        assert told == one.running.serial


def test_an_address_that_another_device_took_over_leads_nowhere(phone: Phones, sandbox: MakeSandbox) -> None:
    mine = phone()
    here = sandbox(mine.server, **{mine.address: "THELEASEDONE"})
    assert here.adb("-s", "THELEASEDONE", "shell", "touch /data/local/tmp/wrong").returncode != 0
    assert "not THELEASEDONE" in here.refusals[0].reason
    assert mine.device().shell(["ls", "/data/local/tmp/wrong"]).exit_code != 0


def test_devices_are_tracked_through_the_lens(phone: Phones, sandbox: MakeSandbox) -> None:
    mine = phone("rk3568", fresh=True)
    here = sandbox(mine.server, mine)
    with subprocess.Popen(
        [ADB, "-P", str(here.relay.port), "track-devices"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    ) as tracker:
        assert tracker.stdout is not None
        os.set_blocking(tracker.stdout.fileno(), False)
        seen = bytearray()

        def has(word: bytes) -> bool:
            seen.extend(tracker.stdout.read() or b"")  # type: ignore[union-attr]
            return word in seen

        eventually(lambda: has(f"{mine.running.serial}\tdevice".encode()))
        mine.fault("unplug")
        eventually(lambda: has(f"{mine.running.serial}\toffline".encode()) or seen.endswith(b"0000"))
        tracker.kill()


def test_the_death_of_the_real_server_ends_what_goes_through_the_lens_as_a_server_death(
    own_server: AdbServer, phone: Phones, sandbox: MakeSandbox
) -> None:
    mine = Phone(own_server, phone().running)
    mine.connect()
    here = sandbox(own_server, mine)
    process = here.device(mine.running.serial).spawn("echo ready; sleep 4716")
    process.read_line(WAIT_S)
    pid = own_server.pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(AdbServerGone):
        process.read_line(WAIT_S)


def test_a_stopped_lens_ends_its_connections(phone: Phones, sandbox: MakeSandbox) -> None:
    mine = phone()
    here = sandbox(mine.server, mine)
    process = here.device(mine.running.serial).spawn("echo ready; sleep 4717")
    process.read_line(WAIT_S)
    here.lens.stop()
    with pytest.raises((AdbServerGone, DeviceUnavailable)):
        process.read_line(WAIT_S)


def test_every_refusal_is_reported_so_that_its_count_is_honest(phone: Phones, sandbox: MakeSandbox) -> None:
    mine = phone()
    here = sandbox(mine.server, mine)
    for _ in range(120):
        with pytest.raises(DeviceGone):
            here.device("NOTMINE").state()
    assert len(here.refusals) == 120


@pytest.mark.parametrize("junk", [b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100, b"ffff", b"0000", b"zzzz", b"0010host:trans"])
def test_what_is_no_request_does_no_harm(phone: Phones, sandbox: MakeSandbox, junk: bytes) -> None:
    mine = phone()
    here = sandbox(mine.server, mine)
    with socket.create_connection(("127.0.0.1", here.relay.port), timeout=WAIT_S) as client:
        client.sendall(junk)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(4) in (b"FAIL", b"")
    assert here.adb("get-state").stdout == b"device\n"
