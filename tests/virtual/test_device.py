"""A virtual device under the stock adb: what every user of a phone expects to work."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from tests.devices import AdbServer, StartVirtualDevice
from tests.waiting import eventually
from virtual import fleet


def adb(server: AdbServer, device: fleet.Running, *arguments: str, **options: object) -> bytes:
    return server.run("-s", device.address, *arguments, **options).stdout  # type: ignore[arg-type]


def test_a_device_is_listed_with_product_model_and_device(
    virtual_device: StartVirtualDevice, adb_server: AdbServer
) -> None:
    device = virtual_device("rk3568")
    lines = adb_server.run("devices", "-l").stdout.decode().splitlines()
    line = next(line for line in lines if line.startswith(device.address))
    assert "product:rk3568_s model:rk3568 device:rk3568_s" in line
    assert adb_server.shell(device, "getprop ro.serialno") == device.serial


def test_shell_gives_exit_codes_and_keeps_output_and_errors_apart(
    virtual_device: StartVirtualDevice, adb_server: AdbServer
) -> None:
    device = virtual_device("rk3568")
    done = adb_server.run("-s", device.address, "shell", "echo out; echo err >&2; exit 7", check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")
    assert adb_server.run("-s", device.address, "shell", "kill -9 $$", check=False).returncode == 137


def test_exec_in_hands_over_everything_before_the_command_ends(
    virtual_device: StartVirtualDevice, adb_server: AdbServer
) -> None:
    device = virtual_device("rk3568")
    data = random.Random(2).randbytes(3_000_000)
    for number in range(5):
        adb(adb_server, device, "exec-in", f"cat > /data/local/tmp/in{number}", input=data)
        taken = f"sha256sum -b /data/local/tmp/in{number}"
        eventually(lambda taken=taken: adb_server.shell(device, taken) == hashlib.sha256(data).hexdigest())
    adb(adb_server, device, "exec-in", "sleep 1000", input=b"")
    eventually(lambda: "sleep 1000" not in adb_server.shell(device, "ps -A -o ARGS"))


def test_shell_takes_standard_input_to_its_end(virtual_device: StartVirtualDevice, adb_server: AdbServer) -> None:
    device = virtual_device("rk3568")
    data = random.Random(1).randbytes(3_000_000)
    assert adb(adb_server, device, "shell", "cat", input=data) == data
    assert adb(adb_server, device, "exec-out", "printf 'a\\nb'") == b"a\nb"


def test_two_hundred_megabytes_come_through_the_shell_unchanged(
    virtual_device: StartVirtualDevice, adb_server: AdbServer, tmp_path: Path
) -> None:
    device = virtual_device("rk3568")
    block = random.Random(2).randbytes(20 << 20)
    (tmp_path / "block").write_bytes(block)
    adb(adb_server, device, "push", str(tmp_path / "block"), "/data/local/tmp/block")
    ten_times = "cd /data/local/tmp; cat block block block block block block block block block block; rm block"
    command = [adb_server.adb, "-s", device.address, "shell", ten_times]
    digest, total = hashlib.sha256(), 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=adb_server.environment) as process:
        assert process.stdout is not None
        while piece := process.stdout.read(1 << 20):
            digest.update(piece)
            total += len(piece)
    expected = hashlib.sha256(block * 10).hexdigest()
    assert (process.returncode, total, digest.hexdigest()) == (0, 209715200, expected)


def test_a_client_that_goes_away_takes_its_whole_process_group_with_it(
    virtual_device: StartVirtualDevice, adb_server: AdbServer
) -> None:
    device = virtual_device("rk3568")
    command = [adb_server.adb, "-s", device.address, "shell", "sleep 4711 & sleep 4711; echo never"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=adb_server.environment)
    eventually(lambda: adb_server.shell(device, "ps -ef | grep -c '[s]leep 4711'", check=False) >= "2")
    process.kill()
    process.communicate()
    eventually(lambda: adb_server.shell(device, "ps -ef | grep -c '[s]leep 4711'", check=False) == "0")


def test_files_and_folders_survive_push_and_pull(
    virtual_device: StartVirtualDevice, adb_server: AdbServer, tmp_path: Path
) -> None:
    device = virtual_device("rk3568")
    source = tmp_path / "tree"
    (source / "deep" / "deeper").mkdir(parents=True)
    contents = {"a.bin": os.urandom(3 << 20), "deep/empty": b"", "deep/deeper/tool": b"#!/system/bin/sh\necho runs\n"}
    for name, content in contents.items():
        (source / name).write_bytes(content)
    (source / "deep/deeper/tool").chmod(0o750)
    os.utime(source / "a.bin", (1_600_000_000, 1_600_000_000))
    adb(adb_server, device, "push", str(source), "/data/local/tmp/")
    assert adb_server.shell(device, "stat -c %a /data/local/tmp/tree/deep/deeper/tool") == "750"
    assert adb_server.shell(device, "stat -c %Y /data/local/tmp/tree/a.bin") == "1600000000"
    assert adb_server.shell(device, "/data/local/tmp/tree/deep/deeper/tool") == "runs"
    digest = hashlib.sha256(contents["a.bin"]).hexdigest()
    assert adb_server.shell(device, "sha256sum /data/local/tmp/tree/a.bin").split()[0] == digest
    adb(adb_server, device, "pull", "/data/local/tmp/tree", str(tmp_path / "back"))
    for name, content in contents.items():
        assert (tmp_path / "back" / name).read_bytes() == content
    adb_server.shell(device, "rm -r /data/local/tmp/tree")


@pytest.mark.slow
def test_a_gigabyte_survives_push_and_pull(
    virtual_device: StartVirtualDevice, adb_server: AdbServer, tmp_path: Path
) -> None:
    device = virtual_device("rk3568", fresh=True, data_mb=1500)
    source = tmp_path / "big"
    block = os.urandom(1 << 20)
    with source.open("wb") as file:
        for number in range(1024):
            file.write(number.to_bytes(4, "big") + block[4:])
    adb(adb_server, device, "push", str(source), "/data/local/tmp/big", timeout=300)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    assert adb_server.shell(device, "sha256sum /data/local/tmp/big", timeout=120).split()[0] == digest
    adb(adb_server, device, "pull", "/data/local/tmp/big", str(tmp_path / "back"), timeout=300)
    assert hashlib.sha256((tmp_path / "back").read_bytes()).hexdigest() == digest


def test_a_file_that_does_not_fit_is_refused_and_leaves_nothing(
    virtual_device: StartVirtualDevice, adb_server: AdbServer, tmp_path: Path
) -> None:
    device = virtual_device("rk3568", fresh=True, data_mb=8)
    (tmp_path / "big").write_bytes(bytes(20 << 20))
    done = adb_server.run("-s", device.address, "push", str(tmp_path / "big"), "/data/local/tmp/big", check=False)
    assert done.returncode != 0
    assert b"No space left on device" in done.stdout + done.stderr
    assert adb_server.shell(device, "ls /data/local/tmp") == ""


def test_logcat_streams_dumps_tails_and_clears(virtual_device: StartVirtualDevice, adb_server: AdbServer) -> None:
    device = virtual_device("rk3568", fresh=True)
    command = [adb_server.adb, "-s", device.address, "logcat", "-v", "brief", "-T", "1", "mark:V", "*:S"]
    stream = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=adb_server.environment)
    lines: list[str] = []
    assert stream.stdout is not None
    reader = threading.Thread(target=lambda: lines.extend(stream.stdout or []), daemon=True)
    reader.start()
    for number in range(3):
        adb_server.shell(device, f"log -p w -t mark 'line {number}'")
    dump = adb_server.shell(device, "logcat -d -s mark")
    assert [line.rsplit(": ", 1)[1] for line in dump.splitlines() if " W mark" in line] == [
        "line 0",
        "line 1",
        "line 2",
    ]
    assert adb_server.shell(device, "logcat -t 1 -s mark -v raw").splitlines()[-1] == "line 2"
    assert "line" not in adb_server.shell(device, "logcat -d -b events,crash")
    live = "mark line"

    def streamed() -> bool:
        return any(line.endswith(": line 2\n") for line in lines)

    try:
        # A stream that began after the first lines shows only later ones: write until it has caught on.
        eventually(lambda: adb_server.shell(device, f"log -p w -t mark 'line 2'; echo {live}") == live and streamed())
    finally:
        stream.send_signal(signal.SIGTERM)
        stream.wait(30)
    adb(adb_server, device, "logcat", "-c")
    assert "mark" not in adb_server.shell(device, "logcat -d -s mark")


def test_reboot_goes_away_and_comes_back_with_a_new_boot_id_and_the_same_data(
    virtual_device: StartVirtualDevice, adb_server: AdbServer
) -> None:
    device = virtual_device("pixel-8-pro", fresh=True)
    adb_server.shell(device, "echo kept > /data/local/tmp/kept; setprop persist.test.a 1; setprop test.b 1")
    before = adb_server.shell(device, "cat /proc/sys/kernel/random/boot_id")
    adb(adb_server, device, "reboot")
    adb(adb_server, device, "wait-for-disconnect")
    adb(adb_server, device, "wait-for-device")
    after = adb_server.shell(device, "cat /proc/sys/kernel/random/boot_id")
    assert len(after) == 36
    assert after != before
    assert adb_server.shell(device, "cat /data/local/tmp/kept; getprop persist.test.a; getprop test.b") == "kept\n1"
    assert adb_server.shell(device, "getprop sys.boot_completed") == "1"


def test_two_devices_forward_the_same_inner_port(virtual_device: StartVirtualDevice, adb_server: AdbServer) -> None:
    devices = [virtual_device("rk3568"), virtual_device("pixel-8-pro")]
    for device in devices:
        # A script, as mksh keeps the shell's output open in a subshell and adb then waits for its end.
        adb_server.shell(device, f"echo 'echo {device.serial} | nc -l -p 8123' > /data/local/tmp/serve")
        adb_server.shell(device, "sh /data/local/tmp/serve </dev/null >/dev/null 2>&1 &")
        local = int(adb(adb_server, device, "forward", "tcp:0", "tcp:8123"))

        def answer(local: int = local) -> str:
            with socket.create_connection(("127.0.0.1", local), timeout=10) as connection:
                return connection.recv(100).decode().strip()

        assert eventually(answer) == device.serial
        adb(adb_server, device, "forward", "--remove", f"tcp:{local}")


def test_the_device_sees_neither_this_machine_s_files_nor_its_network_nor_its_processes(
    virtual_device: StartVirtualDevice, adb_server: AdbServer
) -> None:
    device = virtual_device("rk3568")
    assert adb_server.shell(device, "ls /home /etc/shadow /var 2>/dev/null", check=False) == ""
    assert adb_server.shell(device, "cat /proc/net/dev | grep -c :") == "1"
    assert adb_server.shell(device, f"ls -d /proc/{os.getpid()} 2>/dev/null", check=False) == ""
    assert adb_server.shell(device, "id -u") == "2000"
    assert "Read-only" in adb_server.run("-s", device.address, "shell", "touch /system/x", check=False).stderr.decode()


def test_the_host_kernel_s_switches_cannot_be_turned_from_a_device(
    virtual_device: StartVirtualDevice, adb_server: AdbServer
) -> None:
    device = virtual_device("rk3568")
    switches = "/proc/sys/kernel/printk /proc/irq/default_smp_affinity"
    attempt = f"for f in {switches}; do v=$(cat $f) && echo $v > $f; done; echo end"
    done = adb_server.run("-s", device.address, "shell", attempt, check=False)
    assert done.stdout == b"end\n"
    assert done.stderr.count(b"Read-only file system") + done.stderr.count(b"No such file") >= 2
    assert adb_server.shell(device, "grep ^Cap /proc/self/status | sort -u -k 2 | grep -v CapBnd").endswith("0" * 16)


def test_killing_the_hardware_s_parent_does_not_kill_the_device_and_killing_it_leaves_nothing(
    virtual_device: StartVirtualDevice, adb_server: AdbServer
) -> None:
    device = virtual_device("rk3568", fresh=True)
    assert os.getsid(device.pid) == device.pid
    adb_server.shell(device, "sleep 1234 >/dev/null 2>&1 &")
    os.kill(device.pid, signal.SIGKILL)
    eventually(
        lambda: not fleet.running(device.dir.parent) or device.serial not in str(fleet.running(device.dir.parent))
    )
    folder = str(device.dir).encode()
    eventually(lambda: not [p for p in Path("/proc").glob("[0-9]*/cmdline") if folder in _read(p)])


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_another_client_that_checks_every_checksum_is_served_too(
    virtual_device: StartVirtualDevice, tmp_path: Path
) -> None:
    from adb_shell.adb_device import AdbDeviceTcp

    device = virtual_device("rk3568")
    host, _, port = device.address.rpartition(":")
    client = AdbDeviceTcp(host, int(port), default_transport_timeout_s=30.0)
    assert client.connect(auth_timeout_s=0.1)
    try:
        assert client.shell("echo hello; getprop ro.serialno").split() == ["hello", device.serial]
        (tmp_path / "file").write_bytes(os.urandom(200_000))
        client.push(str(tmp_path / "file"), "/data/local/tmp/other")
        client.pull("/data/local/tmp/other", str(tmp_path / "back"))
        assert (tmp_path / "back").read_bytes() == (tmp_path / "file").read_bytes()
        assert b"other" in [entry.filename for entry in client.list("/data/local/tmp")]
    finally:
        client.close()


def test_many_commands_at_once_all_get_their_own_answer(
    virtual_device: StartVirtualDevice, adb_server: AdbServer
) -> None:
    device = virtual_device("rk3568")
    answers: dict[int, str] = {}

    def ask(number: int) -> None:
        answers[number] = adb_server.shell(device, f"echo {number}; cat /proc/sys/kernel/random/boot_id >/dev/null")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == {number: str(number) for number in range(20)}
