"""Android's commands on a virtual device: their shapes, and values that live."""

from __future__ import annotations

import re
import struct
import zlib

import pytest

from tests.devices import AdbServer, StartVirtualDevice
from tests.waiting import eventually
from virtual import fleet


@pytest.fixture
def phone(virtual_device: StartVirtualDevice) -> fleet.Running:
    return virtual_device("pixel-8-pro")


@pytest.fixture
def board(virtual_device: StartVirtualDevice) -> fleet.Running:
    return virtual_device("rk3568")


def test_properties_are_those_of_the_profile_and_say_virtual(phone: fleet.Running, adb_server: AdbServer) -> None:
    listing = dict(re.findall(r"^\[(.*?)\]: \[(.*?)\]$", adb_server.shell(phone, "getprop"), re.M))
    assert listing["ro.soc.model"] == "Tensor G3"
    assert listing["ro.product.cpu.abi"] == adb_server.shell(phone, "uname -m")
    assert listing["ro.farm.virtual"] == "1"
    assert listing["ro.farm.limiter"] in ("cgroup-v1", "cgroup-v2", "duty-cycle")
    adb_server.shell(phone, "setprop debug.mark 'a b'")
    assert adb_server.shell(phone, "getprop debug.mark") == "a b"
    assert adb_server.shell(phone, "getprop no.such fallback") == "fallback"
    refused = adb_server.run("-s", phone.address, "shell", "setprop ro.soc.model X", check=False)
    assert (refused.returncode, b"Failed to set property" in refused.stderr) == (1, True)


def test_no_file_of_a_device_tells_where_it_throttles(board: fleet.Running, adb_server: AdbServer) -> None:
    found = adb_server.shell(
        board, "grep -rl capacity_factor:.0.3 /apex /mnt /system/etc /sys 2>/dev/null", check=False
    )
    assert found == ""
    assert adb_server.shell(board, "ls /apex/virtual/virtual/profiles") == ""


def test_a_phone_has_a_battery_and_a_board_has_none(
    phone: fleet.Running, board: fleet.Running, adb_server: AdbServer
) -> None:
    text = adb_server.shell(phone, "dumpsys battery")
    assert re.search(r"^  level: \d+$", text, re.M)
    assert re.search(r"^  temperature: 2\d\d$", text, re.M)
    assert "present: false" in adb_server.shell(board, "dumpsys battery")
    assert adb_server.shell(board, "ls /sys/class/power_supply") == ""


def test_thermalservice_and_sysfs_tell_the_same(phone: fleet.Running, adb_server: AdbServer) -> None:
    text = adb_server.shell(phone, "dumpsys thermalservice")
    shown = float(re.findall(r"Temperature\{mValue=([\d.]+), mType=3, mName=VIRTUAL-SKIN, mStatus=0\}", text)[0])
    zone = adb_server.shell(phone, "cat $(grep -l VIRTUAL-SKIN /sys/class/thermal/*/type | sed s/type/temp/)")
    assert abs(shown - int(zone) / 1000) < 1


def test_meminfo_of_a_process_is_its_own(phone: fleet.Running, adb_server: AdbServer) -> None:
    pid = adb_server.shell(phone, "sleep 600 >/dev/null 2>&1 & echo $!")
    text = adb_server.shell(phone, f"dumpsys meminfo {pid}")
    assert f"** MEMINFO in pid {pid} [sleep] **" in text
    assert int(re.findall(r"TOTAL PSS: +(\d+)", text)[0]) > 0
    assert adb_server.shell(phone, "dumpsys meminfo no.such") == "No process found for: no.such"
    adb_server.shell(phone, f"kill {pid}")


def test_a_screenshot_is_a_png_of_the_screen_s_size_and_a_board_says_it_has_none(
    phone: fleet.Running, board: fleet.Running, adb_server: AdbServer
) -> None:
    image = adb_server.run("-s", phone.address, "exec-out", "screencap -p").stdout
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", image[16:24]) == (1344, 2992)
    start = image.index(b"IDAT") + 4
    length = struct.unpack(">I", image[start - 8 : start - 4])[0]
    assert len(zlib.decompress(image[start : start + length])) == (1344 * 3 + 1) * 2992
    assert adb_server.shell(phone, "wm size") == "Physical size: 1344x2992"
    refused = adb_server.run("-s", board.address, "shell", "screencap -p", check=False)
    assert (refused.returncode, refused.stdout, b"no display" in refused.stderr) == (1, b"", True)


@pytest.mark.parametrize(
    "command", ["am start -n a/.B", "svc wifi enable", "cmd nothing", "dumpsys nothing", "pm install x"]
)
def test_what_a_virtual_device_cannot_do_it_says(phone: fleet.Running, adb_server: AdbServer, command: str) -> None:
    refused = adb_server.run("-s", phone.address, "shell", command, check=False)
    assert refused.returncode == 1
    assert refused.stderr.strip()


def test_settings_packages_and_uptime_answer(phone: fleet.Running, adb_server: AdbServer) -> None:
    assert adb_server.shell(phone, "settings get global no_such") == "null"
    adb_server.shell(phone, "settings put global mark 7")
    assert adb_server.shell(phone, "settings get global mark; settings delete global mark") == "7\nDeleted 1 rows"
    assert "package:com.android.shell" in adb_server.shell(phone, "pm list packages").splitlines()
    assert " up " in adb_server.shell(phone, "uptime")
    assert "MemAvailable:" in adb_server.shell(phone, "cat /proc/meminfo")
    assert "CPU part\t: 0xd4d" in adb_server.shell(phone, "cat /proc/cpuinfo")


def test_logcat_has_android_s_formats_buffers_and_sizes(phone: fleet.Running, adb_server: AdbServer) -> None:
    adb_server.shell(phone, "log -p e -t form 'the text'")
    lines = {
        "threadtime": r"\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} +\d+ +\d+ E form    : the text",
        "epoch": r" *\d{10}\.\d{3} +\d+ +\d+ E form    : the text",
        "brief": r"E/form    \( *\d+\): the text",
        "time": r"\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} E/form    \( *\d+\): the text",
        "raw": r"the text",
    }
    for name, pattern in lines.items():
        found = adb_server.shell(phone, f"logcat -d -v {name} -s form").splitlines()[-1]
        assert re.fullmatch(pattern, found), (name, found)
    assert "boot_progress_start" in adb_server.shell(phone, "logcat -d -b events")
    adb_server.shell(phone, "logcat -G 1M")
    assert "main: ring buffer is 1024 KiB" in adb_server.shell(phone, "logcat -g")
    wrong = adb_server.run("-s", phone.address, "shell", "logcat -b nowhere", check=False)
    assert (wrong.returncode, b"unknown buffer" in wrong.stderr) == (1, True)


def test_a_crash_leaves_a_tombstone_and_lines_in_the_crash_log(phone: fleet.Running, adb_server: AdbServer) -> None:
    done = adb_server.run("-s", phone.address, "shell", "cd /data/local/tmp; sh -c 'kill -SEGV $$'", check=False)
    assert done.returncode == 139
    log = eventually(lambda: adb_server.shell(phone, "logcat -d -b crash -s libc DEBUG tombstoned"))
    assert re.search(r"F libc    : Fatal signal 11 \(SIGSEGV\), code 0 \(SI_USER\), fault addr -------- in tid", log)
    name = adb_server.shell(phone, "ls -t /data/tombstones | head -n 1")
    stone = adb_server.shell(phone, f"cat /data/tombstones/{name}")
    assert stone.startswith("*** *** ***")
    assert re.search(r"^pid: \d+, tid: \d+, name: sh  >>> sh <<<$", stone, re.M)
    assert re.search(r"^    rbp [0-9a-f]{16}  rsp [0-9a-f]{16}  rip [0-9a-f]{16}$|^    x0 ", stone, re.M)
    assert "backtrace:\n      #00 pc " in stone


def test_a_kill_leaves_no_tombstone(phone: fleet.Running, adb_server: AdbServer) -> None:
    before = adb_server.shell(phone, "ls /data/tombstones")
    assert adb_server.run("-s", phone.address, "shell", "kill -KILL $$", check=False).returncode == 137
    assert adb_server.shell(phone, "ls /data/tombstones") == before


def test_debuggerd_shows_every_thread_s_state_and_stack_and_lets_it_go_on(
    phone: fleet.Running, adb_server: AdbServer
) -> None:
    pid = adb_server.shell(phone, "sleep 600 >/dev/null 2>&1 & echo $!")
    for _ in range(2):
        text = adb_server.shell(phone, f"debuggerd -b {pid}")
        assert f'"sleep" sysTid={pid}' in text
        assert "State: S (sleeping)" in text
        assert "#00 pc " in text
    assert adb_server.shell(phone, f"kill -0 {pid} && echo alive; kill {pid}") == "alive"
    missing = adb_server.run("-s", phone.address, "shell", "debuggerd -b 999999", check=False)
    assert (missing.returncode, b"No such process" in missing.stderr) == (1, True)


def test_job_control_works_under_the_tracer(phone: fleet.Running, adb_server: AdbServer) -> None:
    pid = adb_server.shell(phone, "sleep 600 >/dev/null 2>&1 & echo $!")

    def state_after(signal_name: str) -> str:
        return adb_server.shell(phone, f"kill -{signal_name} {pid}; ps -o S= -p {pid}").strip()

    eventually(lambda: state_after("STOP") in ("T", "t"))
    eventually(lambda: state_after("CONT") == "S")
    adb_server.shell(phone, f"kill {pid}")
