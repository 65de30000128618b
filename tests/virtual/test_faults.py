"""Every fault that a virtual device can be asked for, seen from the outside."""

from __future__ import annotations

import asyncio
import subprocess
import time
from typing import Any

import pytest

from tests.devices import AdbServer, StartVirtualDevice
from tests.waiting import eventually
from virtual import faults, fleet


def ask(device: fleet.Running, kind: str, **arguments: Any) -> dict[str, Any]:
    return fleet.fault(device.dir.parent, device.serial, kind, **arguments)


def state(server: AdbServer, device: fleet.Running) -> str:
    for line in server.run("devices").stdout.decode().splitlines():
        if line.startswith(device.address):
            return line.split("\t")[1]
    return "absent"


@pytest.fixture
def device(virtual_device: StartVirtualDevice) -> fleet.Running:
    return virtual_device("rk3568", fresh=True, data_mb=64)


def test_an_unplugged_device_is_gone_until_it_is_plugged_in_again(device: fleet.Running, adb_server: AdbServer) -> None:
    ask(device, "unplug")
    eventually(lambda: state(adb_server, device) != "device")
    assert b"connected to" not in adb_server.run("connect", device.address, check=False).stdout
    ask(device, "replug")
    adb_server.connect(device)
    ask(device, "unplug", for_s=1)
    eventually(lambda: state(adb_server, device) != "device")
    adb_server.connect(device)
    assert adb_server.shell(device, "echo back") == "back"


def test_an_offline_device_is_connected_and_does_not_answer(device: fleet.Running, adb_server: AdbServer) -> None:
    ask(device, "offline", for_s=6)
    eventually(lambda: state(adb_server, device) == "offline")
    adb_server.connect(device)
    assert adb_server.shell(device, "echo back") == "back"


def test_a_sudden_reboot_changes_the_boot_id(device: fleet.Running, adb_server: AdbServer) -> None:
    before = ask(device, "reboot")["boot_id_before"]
    eventually(lambda: ask(device, "status")["booted"] and ask(device, "status")["boot_id"] != before)
    adb_server.connect(device)
    assert adb_server.shell(device, "cat /proc/sys/kernel/random/boot_id") != before


def test_a_full_disk_takes_no_byte_and_frees_again(device: fleet.Running, adb_server: AdbServer) -> None:
    write = "echo text > /data/local/tmp/file && cat /data/local/tmp/file"
    ask(device, "disk-full", state="on")
    done = adb_server.run("-s", device.address, "shell", write, check=False)
    assert done.returncode != 0
    assert b"No space left" in done.stderr
    ask(device, "disk-full", state="off")
    assert adb_server.shell(device, write) == "text"


def test_a_killed_process_is_reported_by_its_shell(device: fleet.Running, adb_server: AdbServer) -> None:
    adb_server.shell(device, "sleep 1000 >/dev/null 2>&1 &")
    assert len(ask(device, "kill", name="sleep")["pids"]) == 1
    eventually(lambda: ask(device, "kill", name="sleep")["pids"] == [])


def test_a_device_that_accepts_no_key_is_unauthorized_until_it_does(
    device: fleet.Running, adb_server: AdbServer
) -> None:
    ask(device, "unauthorized", state="on")
    adb_server.run("connect", device.address, check=False)
    eventually(lambda: state(adb_server, device) == "unauthorized")
    assert adb_server.run("-s", device.address, "shell", "echo in", check=False).returncode != 0
    ask(device, "unauthorized", state="off")
    adb_server.run("disconnect", device.address, check=False)
    adb_server.connect(device)
    assert adb_server.shell(device, "echo back") == "back"


def test_a_device_that_hangs_is_listed_and_starts_no_command(device: fleet.Running, adb_server: AdbServer) -> None:
    ask(device, "hang", state="on")
    with pytest.raises(subprocess.TimeoutExpired):
        adb_server.run("-s", device.address, "shell", "echo late", timeout=2)
    assert state(adb_server, device) == "device"
    ask(device, "hang", state="off")
    assert adb_server.shell(device, "echo back") == "back"


def test_a_battery_is_as_full_as_it_is_told_and_a_board_has_none(
    virtual_device: StartVirtualDevice, device: fleet.Running, adb_server: AdbServer
) -> None:
    phone = virtual_device("pixel-8-pro", fresh=True, data_mb=64)
    assert ask(phone, "battery", level=9)["level"] == 9
    adb_server.connect(phone)
    eventually(lambda: "level: 9\n" in adb_server.shell(phone, "dumpsys battery"))
    with pytest.raises(fleet.FleetError, match="no battery"):
        ask(device, "battery", level=9)


def test_a_slow_shell_starts_commands_late(device: fleet.Running, adb_server: AdbServer) -> None:
    ask(device, "slow-shell", delay_ms=1500)
    begun = time.monotonic()
    adb_server.shell(device, "true")
    assert time.monotonic() - begun >= 1.5
    ask(device, "slow-shell", delay_ms=0)


def test_heat_shows_in_zones_throttles_and_is_logged(virtual_device: StartVirtualDevice, adb_server: AdbServer) -> None:
    device = virtual_device("pixel-8-pro", fresh=True, time_scale=20)
    cool = ask(device, "status")
    ask(device, "heat", to_c=95)
    hot = eventually(lambda: (found := ask(device, "status"))["throttle_level"] == 4 and found)
    assert (cool["capacity_factor"], hot["capacity_factor"]) == (1.0, 0.3)
    assert hot["cores"] == pytest.approx(0.3 * cool["cores"])
    zone = "grep -l BIG /sys/class/thermal/*/type | sed s/type/temp/"
    assert int(adb_server.shell(device, f"cat $({zone})")) >= 95_000
    top = "cat /sys/devices/system/cpu/cpu8/cpufreq/scaling_max_freq"
    assert int(adb_server.shell(device, top)) < 2_914_000 // 2
    assert "Thermal Status: 6" in adb_server.shell(device, "dumpsys thermalservice")
    log = "logcat -d -b system -s ThermalManagerService"
    eventually(lambda: "to SHUTDOWN (6)" in adb_server.shell(device, log))
    ask(device, "heat", watts=0)
    eventually(lambda: ask(device, "status")["capacity_factor"] == 1.0)


@pytest.mark.parametrize("limiter", [None, "duty-cycle"])
def test_a_hot_device_s_workload_gets_the_smaller_share_of_the_cpu(
    virtual_device: StartVirtualDevice, adb_server: AdbServer, limiter: str | None
) -> None:
    device = virtual_device("rk3568", fresh=True, time_scale=20, limiter=limiter)
    ask(device, "heat", to_c=110)
    hot = eventually(lambda: (found := ask(device, "status"))["capacity_factor"] == 0.3 and found)
    for _ in range(3):
        adb_server.shell(device, "sh -c 'while :; do :; done' >/dev/null 2>&1 &")
    begin = eventually(lambda: (found := ask(device, "status"))["busy_cores"] > 0.05 and found)
    # Whatever else runs on this machine can only make the share smaller, so the bound holds under any load.
    end = eventually(lambda: (found := ask(device, "status"))["at_s"] > begin["at_s"] + 3 and found)
    share = (end["cpu_s"] - begin["cpu_s"]) / (end["at_s"] - begin["at_s"])
    assert hot["cores"] == pytest.approx(0.24)
    assert share < 1.4 * hot["cores"]
    eventually(lambda: ask(device, "status")["throttled_s"] > begin["throttled_s"] + 0.5)


def test_a_workload_above_the_memory_is_killed_with_lmkd_s_line(
    virtual_device: StartVirtualDevice, adb_server: AdbServer, tmp_path: Any
) -> None:
    text = (fleet_profile()).replace(
        "{total_mb: 3910, system_mb: 900, swap_mb: 1955}", "{total_mb: 1000, system_mb: 900}"
    )
    (tmp_path / "small.yaml").write_text(text)
    device = virtual_device(str(tmp_path / "small.yaml"), fresh=True)
    # toybox's tail keeps a line without an end in memory.
    done = adb_server.run("-s", device.address, "shell", "head -c 400000000 /dev/zero | tail -n 1 | wc -c", check=False)
    log = eventually(lambda: adb_server.shell(device, "logcat -d -b system -s lowmemorykiller"))
    assert "Kill 'tail'" in log
    assert "reason: low watermark is breached" in log
    assert int(done.stdout) < 400_000_000


def fleet_profile() -> str:
    from virtual import profiles

    return (profiles.FOLDER / "rk3568.yaml").read_text()


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        ({"fault": "melt"}, "unknown fault"),
        ([], "unknown fault"),
        (None, "unknown fault"),
        ({"fault": "unplug", "for": 3}, "takes no 'for'"),
        ({"fault": "unplug", "for_s": "soon"}, "must be a number"),
        ({"fault": "offline", "for_s": -1}, "between"),
        ({"fault": "offline", "for_s": float("nan")}, "between"),
        ({"fault": "heat"}, "needs watts"),
        ({"fault": "kill"}, "needs name"),
        ({"fault": "disk-full", "state": "maybe"}, "on or off"),
    ],
)
def test_a_senseless_request_is_answered_with_what_is_wrong(request_: Any, complaint: str) -> None:
    class Untouchable:
        def __getattr__(self, name: str) -> Any:
            return lambda *arguments: pytest.fail(f"{name}{arguments} was called")

    answer = asyncio.run(faults.dispatch(Untouchable(), request_))
    assert complaint in answer["error"]
