"""Giving a device back: what a lease left is undone, and seen to be undone."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.adb import device_state
from farm.adb.clean import Snapshot, restore, snapshot
from farm.adb.device_state import Changes, compare, parse
from tests.adb.conftest import Phone, Phones, free_port
from tests.waiting import eventually

CACHE = "/data/local/tmp/farm"
EMPTY = Snapshot("boot", {}, {}, {}, (), {})

PATHS = st.sampled_from([f"/data/local/tmp/{name}" for name in ("a", "d/", "d/b", "d/e/", "d/e/f", "farm/", "farm/x")])
SNAPSHOTS = st.builds(
    Snapshot,
    st.sampled_from(["boot", "other"]),
    st.dictionaries(st.integers(1, 5), st.sampled_from(["sh", "sleep 5"])),
    st.dictionaries(PATHS, st.integers(0, 2)),
    st.dictionaries(st.sampled_from(["global/low_power", "system/font_scale"]), st.sampled_from(["0", "1"])),
    st.sets(st.sampled_from(["a.b", "c.d"])).map(lambda names: tuple(sorted(names))),
    st.dictionaries(st.sampled_from(["debug.x", "log.tag.y"]), st.sampled_from(["0", "1"])),
    st.dictionaries(st.sampled_from(["forward tcp:1", "reverse tcp:2"]), st.sampled_from(["tcp:3", "tcp:4"])),
)


@given(SNAPSHOTS)
def test_nothing_differs_from_itself(state: Snapshot) -> None:
    assert not compare(state, state, [])


@given(SNAPSHOTS)
def test_a_snapshot_survives_being_stored(state: Snapshot) -> None:
    assert Snapshot.from_json(json.loads(json.dumps(state.to_json()))) == state


@given(SNAPSHOTS, SNAPSHOTS)
def test_what_was_there_before_and_what_is_kept_is_never_touched(before: Snapshot, now: Snapshot) -> None:
    changes = compare(before, now, [CACHE])
    assert not any(path in before.files or path.startswith(CACHE) for path in changes.files)
    if before.boot_id == now.boot_id:
        assert not any(before.processes.get(pid) == line for pid, line in changes.processes.items())


@given(SNAPSHOTS, SNAPSHOTS)
def test_undoing_every_change_leaves_nothing_to_undo(before: Snapshot, now: Snapshot) -> None:
    changes = compare(before, now, [])
    undone = Snapshot(
        now.boot_id,
        {pid: line for pid, line in now.processes.items() if pid not in changes.processes},
        {path: size for path, size in now.files.items() if not any(path.startswith(gone) for gone in changes.files)},
        dict(before.settings),
        tuple(name for name in now.packages if name not in changes.packages),
        before.properties,
        before.forwards,
    )
    assert not compare(before, undone, [])


def _printed(**parts: bytes) -> bytes:
    everything = dict.fromkeys(
        ["boot", "uid", "self", "ps", "names", "folders", "sizes", "global", "secure", "system", "packages", "props"],
        b"",
    )
    everything |= parts | {"end": b""}
    return b"".join(b"\nnonce " + name.encode() + b"\n" + text for name, text in everything.items())


def test_the_way_in_kernel_threads_other_users_and_the_zygotes_children_are_not_counted() -> None:
    ps = b"""  PID  PPID   UID ARGS
    1     0     0 init
   10     1  2000 /apex/com.android.adbd/bin/adbd
   11    10  2000 sh -c sh
   12    11  2000 sh
   13    12  2000 ps -A -o PID,PPID,UID,ARGS
   20     2  2000 [kworker/0:1]
   30     1     0 vold
   40     1     0 zygote64
   41    40  2000 com.android.shell
   50     1  2000 ./left-over --forever
   60    10  2000 logcat -b all
   61    60  2000 child of logcat
"""
    state = parse(_printed(boot=b"b", uid=b"2000", self=b"12", ps=ps), "nonce", spare=[60])
    assert state is not None
    assert state.processes == {50: "./left-over --forever"}


def test_a_file_name_with_a_line_break_is_one_file() -> None:
    name = b"/data/local/tmp/a\n5 /data/local/tmp/b"
    state = parse(_printed(names=name + b"\0", sizes=b"7 " + name + b"\n"), "nonce")
    assert state is not None
    assert list(state.files) == [name.decode()]


def test_a_device_cannot_forge_an_answer_without_the_nonce() -> None:
    state = parse(_printed(ps=b"x\nnonse uid\n0\n", uid=b"2000"), "nonce")
    assert state is not None
    assert state.processes == {}


def test_an_answer_that_is_cut_is_none() -> None:
    assert parse(_printed()[:-12], "nonce") is None


@pytest.mark.parametrize("data", [{}, {"processes": 1}, {"processes": {}, "files": []}])
def test_what_is_no_snapshot_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="snapshot without"):
        Snapshot.from_json(data)


def test_changes_are_told_in_words() -> None:
    forwards = {"forward tcp:1": None, "forward tcp:2": "tcp:3"}
    changes = Changes({7: "x"}, ["/f"], {"global/low_power": "0"}, ["a.b"], {"debug.x": ""}, forwards)
    assert len(changes.words()) == 7


def test_a_snapshot_of_before_forwards_were_looked_at_is_still_read() -> None:
    old = {key: value for key, value in EMPTY.to_json().items() if key != "forwards"}
    assert Snapshot.from_json(old) == EMPTY


# ---- on a device ----


@pytest.fixture
def board(phone: Phones) -> Phone:
    return phone("rk3568", fresh=True)


def test_processes_and_files_of_a_lease_are_gone_and_the_rest_stays(board: Phone) -> None:
    device = board.device()
    device.check_shell(f"mkdir -p {CACHE}/cas; echo old > /data/local/tmp/old; echo kept > {CACHE}/cas/x")
    before = snapshot(device)
    device.check_shell(
        "cd /data/local/tmp; mkdir -p 'new dir/deep'; echo x > 'new dir/deep/a b'; echo y > \"it's\"; echo z > -rf;"
        f" echo cached > {CACHE}/cas/y; setsid sleep 4723 >/dev/null 2>&1 </dev/null & echo started"
    )
    report = restore(device, before, keep=[CACHE])
    assert report.ok, report
    assert report.differences == []
    assert any("sleep 4723" in line for line in report.killed)
    left = sorted(device.check_shell(["find", "/data/local/tmp", "!", "-type", "d"]).splitlines())
    assert left == [f"{CACHE}/cas/x", f"{CACHE}/cas/y", "/data/local/tmp/old"]
    eventually(lambda: "sleep 4723" not in device.shell("ps -A -o ARGS").stdout)


def test_a_clean_device_is_clean_at_once(board: Phone) -> None:
    before = snapshot(board.device())
    report = restore(board.device(), before)
    assert report.ok, report
    assert (report.killed, report.removed) == ([], [])


def test_settings_and_properties_are_put_back(board: Phone) -> None:
    device = board.device()
    device.check_shell("settings put system screen_off_timeout 60000")
    before = snapshot(device)
    device.check_shell(
        "settings put system screen_off_timeout 1800000; settings put global farm_left_over 1; setprop debug.farm.x 1"
    )
    report = restore(device, before)
    assert report.ok, report
    assert len(report.restored) == 3
    assert device.check_shell(["settings", "get", "system", "screen_off_timeout"]).strip() == "60000"
    assert device.check_shell(["settings", "get", "global", "farm_left_over"]).strip() == "null"
    assert device.check_shell(["getprop", "debug.farm.x"]).strip() == ""


def test_an_app_that_a_lease_installed_is_gone_and_those_from_before_stay(board: Phone, tmp_path: Path) -> None:
    device = board.device()
    for name in ("org.example.old", "org.example.left"):
        apk = tmp_path / f"{name}.apk"
        with zipfile.ZipFile(apk, "w") as archive:
            archive.writestr("AndroidManifest.xml", f'<manifest package="{name}"/>')
        device.push(apk, f"/data/local/tmp/{name}.apk")
    device.check_shell("pm install /data/local/tmp/org.example.old.apk")
    before = snapshot(device)
    assert before.packages == ("org.example.old",)
    device.check_shell("pm install -r /data/local/tmp/org.example.left.apk")
    report = restore(device, before)
    assert report.ok, report
    assert report.restored == ["package org.example.left uninstalled"]
    assert snapshot(device).packages == ("org.example.old",)


def test_forwards_of_a_lease_are_ended_and_those_from_before_lead_where_they_led(board: Phone) -> None:
    device = board.device()
    kept, left = free_port(), free_port()
    device.set_forward(f"forward tcp:{kept}", "tcp:5001")
    before = snapshot(device)
    assert before.forwards == {f"forward tcp:{kept}": "tcp:5001"}
    device.set_forward(f"forward tcp:{kept}", "tcp:5002")
    device.set_forward(f"forward tcp:{left}", "tcp:5003")
    report = restore(device, before)
    assert report.ok, report
    assert device.forwards() == {f"forward tcp:{kept}": "tcp:5001"}
    assert len(report.restored) == 2
    device.set_forward(f"forward tcp:{kept}", None)


def test_a_process_that_starts_itself_again_is_said_to_be_left(board: Phone, monkeypatch: pytest.MonkeyPatch) -> None:
    device = board.device()
    before = snapshot(device)
    real = device_state.parse

    def stubborn(output: bytes, nonce: str, spare: object = ()) -> Snapshot | None:
        state = real(output, nonce)
        assert state is not None
        return Snapshot(state.boot_id, {**state.processes, 99999: "comes back"}, state.files, {}, (), {})

    monkeypatch.setattr(device_state, "parse", stubborn)
    report = restore(device, Snapshot(before.boot_id, before.processes, before.files, {}, (), {}))
    assert not report.ok
    assert any("comes back" in line for line in report.differences)


def test_the_farms_own_log_is_spared(board: Phone) -> None:
    device = board.device()
    before = snapshot(device)
    process = device.spawn(["sleep", "4724"])
    pid = process.wait_pid(60)
    assert pid is not None
    report = restore(device, before, spare=[pid])
    assert report.ok, report
    assert report.killed == []
    assert "sleep 4724" in device.shell("ps -A -o ARGS").stdout
    process.kill()


def test_a_device_that_goes_while_it_is_cleaned_is_not_clean(board: Phone) -> None:
    before = snapshot(board.device())
    board.fault("unplug")
    report = restore(board.device(), before)
    assert not report.ok
    assert report.differences


def test_a_restart_during_the_lease_is_noted(board: Phone) -> None:
    before = snapshot(board.device())
    report = restore(board.device(), Snapshot("another boot", before.processes, before.files, {}, (), {}))
    assert "the device was restarted during the lease" in report.notes
