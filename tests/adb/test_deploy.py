"""Deploying to a virtual device: what is sent, what is read back, and what happens when it goes wrong."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from farm.adb.errors import Cancelled, DeviceGone, NoSpace, RemoteError
from farm.adb.push_cache import BUNDLES_DIR, CAS_DIR, FARM_DIR, DeployReport, FileSpec, deploy
from tests.adb.conftest import Phone, Phones

TARGET = f"{BUNDLES_DIR}/0123456789abcdef"


def spec(folder: Path, remote: str, data: bytes, mode: int = 0o644) -> FileSpec:
    local = folder / hashlib.sha256(remote.encode() + data).hexdigest()
    local.write_bytes(data)
    return FileSpec(remote, local, hashlib.sha256(data).hexdigest(), len(data), mode)


@pytest.fixture
def tool(devtool_bin: Path) -> FileSpec:
    data = devtool_bin.read_bytes()
    return FileSpec("bin/farm-devtool", devtool_bin, hashlib.sha256(data).hexdigest(), len(data), 0o755)


class Desk:
    """A device with an empty cache, and deploys to it that share a stamp file."""

    def __init__(self, phone: Phone, folder: Path, tool: FileSpec | None) -> None:
        self.phone, self.device, self.folder, self.tool = phone, phone.device(), folder, tool
        self.stamps = folder / "stamps.json"
        self.device.shell(["rm", "-rf", FARM_DIR])

    def deploy(self, files: list[FileSpec], target: str = TARGET, **options: object) -> DeployReport:
        return deploy(
            self.device,
            files,
            target,
            devtool=self.tool,
            stamps=self.stamps,
            **options,  # type: ignore[arg-type]
        )

    def content(self, remote: str, target: str = TARGET) -> bytes:
        return self.device.shell(["cat", f"{target}/{remote}"], max_output=64 << 20).stdout_bytes


@pytest.fixture(params=["devtool", "system tools"])
def desk(phone: Phones, tmp_path: Path, tool: FileSpec, request: pytest.FixtureRequest) -> Desk:
    return Desk(phone(), tmp_path, tool if request.param == "devtool" else None)


@pytest.fixture
def quick_desk(phone: Phones, tmp_path: Path, tool: FileSpec) -> Desk:
    return Desk(phone(), tmp_path, tool)


def bundle(folder: Path) -> list[FileSpec]:
    same = os.urandom(200_000)
    return [
        spec(folder, "bin/engine", os.urandom(300_000), 0o755),
        spec(folder, "models/a model.gguf", same),
        spec(folder, "models/copy.gguf", same),
        spec(folder, "empty", b""),
    ]


def test_a_bundle_arrives_whole_with_modes_and_each_content_once(desk: Desk) -> None:
    files = bundle(desk.folder)
    seen: list[tuple[int, int]] = []
    report = desk.deploy(files, progress=lambda done, total: seen.append((done, total)))
    for file in files:
        assert desk.content(file.remote) == file.local.read_bytes()
    assert desk.device.shell([f"{TARGET}/bin/engine"]).exit_code != 126  # it may be executed
    assert report.files_sent == 3 + (desk.tool is not None)
    assert report.bytes_sent == 500_000 + (desk.tool.size if desk.tool else 0)
    assert report.bytes_kept == 0
    assert report.verified >= 3
    assert seen[-1] == (500_000, 500_000)


def test_an_unchanged_bundle_is_not_sent_and_only_executables_are_read_back(desk: Desk) -> None:
    files = bundle(desk.folder)
    desk.deploy(files)
    report = desk.deploy(files)
    assert (report.bytes_sent, report.files_sent) == (0, 0)
    assert report.bytes_kept == 500_000
    assert report.verified == 1 + (desk.tool is not None)


def test_the_tool_may_be_a_file_of_the_bundle_itself(quick_desk: Desk) -> None:
    assert quick_desk.tool is not None
    files = [*bundle(quick_desk.folder), quick_desk.tool]
    assert quick_desk.deploy(files).files_sent == 4
    assert quick_desk.deploy(files).verified == 2
    assert quick_desk.content(quick_desk.tool.remote) == quick_desk.tool.local.read_bytes()


def test_a_second_bundle_sends_only_what_is_new_and_leaves_the_stamps_right(desk: Desk) -> None:
    files = bundle(desk.folder)
    desk.deploy(files)
    new = spec(desk.folder, "models/new.gguf", os.urandom(1000))
    other = f"{BUNDLES_DIR}/fedcba9876543210"
    assert desk.deploy([*files, new], other).files_sent == 1
    again = desk.deploy(files)
    assert (again.files_sent, again.verified) == (0, 1 + (desk.tool is not None))
    assert desk.content("models/new.gguf", other) == new.local.read_bytes()


def test_a_file_changed_on_the_device_is_noticed_read_back_and_sent_again(desk: Desk) -> None:
    files = bundle(desk.folder)
    desk.deploy(files)
    desk.device.check_shell(f"printf tampered | dd of='{TARGET}/models/a model.gguf' conv=notrunc bs=1 2>/dev/null")
    report = desk.deploy(files)
    assert report.files_sent == 1
    assert desk.content("models/a model.gguf") == files[1].local.read_bytes()


def test_a_change_that_hides_behind_the_old_time_is_noticed(quick_desk: Desk) -> None:
    files = bundle(quick_desk.folder)
    quick_desk.deploy(files)
    path = f"{CAS_DIR}/{files[1].sha256}"
    quick_desk.device.check_shell(
        f"touch -r {path} /data/local/tmp/ref; printf x | dd of={path} conv=notrunc bs=1 2>/dev/null;"
        f" touch -r /data/local/tmp/ref {path}; rm /data/local/tmp/ref"
    )
    assert quick_desk.deploy(files).files_sent == 1
    assert quick_desk.content("models/copy.gguf") == files[2].local.read_bytes()


def test_a_touched_file_is_read_back_and_not_sent(quick_desk: Desk) -> None:
    files = bundle(quick_desk.folder)
    quick_desk.deploy(files)
    quick_desk.device.check_shell(["touch", f"{TARGET}/models/a model.gguf"])
    report = quick_desk.deploy(files)
    assert (report.files_sent, report.verified) == (0, 3)
    assert quick_desk.deploy(files).verified == 2


def test_doubt_reads_everything_back(quick_desk: Desk) -> None:
    files = bundle(quick_desk.folder)
    quick_desk.deploy(files)
    report = quick_desk.deploy(files, doubt=True)
    assert (report.files_sent, report.verified) == (0, 4)


def test_a_host_that_knows_no_stamps_reads_everything_back(quick_desk: Desk) -> None:
    files = bundle(quick_desk.folder)
    quick_desk.deploy(files)
    quick_desk.stamps.write_text("{broken")
    report = quick_desk.deploy(files)
    assert (report.files_sent, report.verified) == (0, 4)
    assert len(json.loads(quick_desk.stamps.read_text())["files"]) == 3


def test_a_tool_that_was_replaced_on_the_device_is_not_believed(quick_desk: Desk) -> None:
    files = bundle(quick_desk.folder)
    quick_desk.deploy(files)
    assert quick_desk.tool is not None
    quick_desk.device.check_shell(f"echo '#!/system/bin/sh' > {CAS_DIR}/{quick_desk.tool.sha256}")
    report = quick_desk.deploy(files)
    assert report.bytes_sent == quick_desk.tool.size


def test_an_executable_that_lost_its_mode_gets_it_back(quick_desk: Desk) -> None:
    files = bundle(quick_desk.folder)
    quick_desk.deploy(files)
    quick_desk.device.check_shell(["chmod", "600", f"{TARGET}/bin/engine"])
    quick_desk.device.check_shell(["rm", f"{TARGET}/bin/engine"])
    quick_desk.deploy(files)
    assert quick_desk.device.shell([f"{TARGET}/bin/engine"]).exit_code != 126


def test_left_overs_in_the_target_are_removed(quick_desk: Desk) -> None:
    files = bundle(quick_desk.folder)
    quick_desk.deploy(files)
    quick_desk.device.check_shell(f'echo x > {TARGET}/bin/libplanted.so; mkdir {TARGET}/d; echo x > "{TARGET}/d/a b"')
    quick_desk.deploy(files)
    left = quick_desk.device.check_shell(f"find {TARGET} ! -type d").splitlines()
    assert sorted(left) == sorted(f"{TARGET}/{file.remote}" for file in files)


def test_an_interrupted_deploy_leaves_no_half_file_and_the_next_one_completes_it(quick_desk: Desk) -> None:
    files = [spec(quick_desk.folder, "big", os.urandom(20 << 20)), *bundle(quick_desk.folder)]
    sent: list[int] = []
    with pytest.raises(Cancelled):
        quick_desk.deploy(
            files, progress=lambda done, total: sent.append(done), cancelled=lambda: bool(sent and sent[-1] > 2 << 20)
        )
    cached = quick_desk.device.check_shell(["ls", CAS_DIR]).split()
    assert files[0].sha256 not in cached
    quick_desk.deploy(files)
    assert quick_desk.content("big") == files[0].local.read_bytes()
    assert not [name for name in quick_desk.device.check_shell(["ls", CAS_DIR]).split() if name.endswith(".part")]


def test_what_was_read_back_before_an_interruption_is_not_sent_again(
    quick_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farm.adb.push_cache._VERIFY_EVERY_BYTES", 1 << 20)
    files = [spec(quick_desk.folder, f"f{index}", os.urandom(1 << 20)) for index in range(4)]
    done: list[int] = []
    with pytest.raises(Cancelled):
        quick_desk.deploy(
            files, progress=lambda here, total: done.append(here), cancelled=lambda: bool(done and done[-1] >= 2 << 20)
        )
    report = quick_desk.deploy(files)
    assert report.bytes_kept == 1 << 20  # the second was complete, and not read back yet
    assert report.bytes_sent == 3 << 20


def test_a_device_unplugged_during_a_deploy_completes_it_later(phone: Phones, tmp_path: Path, tool: FileSpec) -> None:
    desk = Desk(phone("rk3568", fresh=True), tmp_path, tool)
    files = [spec(tmp_path, "big", os.urandom(30 << 20))]
    sent: list[int] = []

    def progress(done: int, total: int) -> None:
        if not sent:
            desk.phone.fault("unplug")
        sent.append(done)

    with pytest.raises(DeviceGone):
        desk.deploy(files, progress=progress)
    desk.phone.fault("replug")
    desk.phone.connect()
    assert files[0].sha256 not in desk.device.check_shell(["ls", CAS_DIR]).split()
    desk.deploy(files)
    assert desk.content("big") == files[0].local.read_bytes()


def test_a_full_device_is_refused_with_its_numbers_before_anything_is_sent(
    phone: Phones, tmp_path: Path, tool: FileSpec
) -> None:
    desk = Desk(phone("rk3568", fresh=True, data_mb=64), tmp_path, tool)
    big = tmp_path / "big"
    with big.open("wb") as file:
        file.truncate(200 << 20)
    files = [FileSpec("big", big, "0" * 64, 200 << 20)]
    with pytest.raises(NoSpace) as caught:
        desk.deploy(files)
    assert caught.value.needed == 200 << 20
    assert caught.value.free is not None
    assert 0 < caught.value.free <= 64 << 20
    assert str(200 << 20) in str(caught.value)


def test_what_is_unused_longest_makes_room(phone: Phones, tmp_path: Path, tool: FileSpec) -> None:
    desk = Desk(phone("rk3568", fresh=True, data_mb=128), tmp_path, tool)
    kept = spec(tmp_path, "kept", os.urandom(5 << 20))
    first, second, third = (spec(tmp_path, name, os.urandom(40 << 20)) for name in ("first", "second", "third"))
    desk.deploy([kept, first], f"{BUNDLES_DIR}/{'1' * 16}")
    desk.deploy([kept, second], f"{BUNDLES_DIR}/{'2' * 16}")
    report = desk.deploy([kept, third], f"{BUNDLES_DIR}/{'3' * 16}")
    assert report.bytes_evicted == 40 << 20
    assert report.bytes_sent == 40 << 20
    assert report.verified == 2  # the tool and what came: what was kept is still known
    cached = desk.device.check_shell(["ls", CAS_DIR]).split()
    assert first.sha256 not in cached
    assert {kept.sha256, second.sha256, third.sha256} <= set(cached)


def test_a_file_that_changes_on_the_host_is_found_out(quick_desk: Desk) -> None:
    files = [spec(quick_desk.folder, "a", b"what was promised")]
    files[0].local.write_bytes(b"what came instead")
    with pytest.raises(RemoteError, match="differs from what was sent"):
        quick_desk.deploy(files)
    assert files[0].sha256 not in quick_desk.device.check_shell(["ls", CAS_DIR]).split()


def test_where_hard_links_are_forbidden_the_bundle_is_there_all_the_same(
    quick_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without(monkeypatch, "ln -f ")
    files = bundle(quick_desk.folder)
    quick_desk.deploy(files)
    assert quick_desk.content("models/a model.gguf") == files[1].local.read_bytes()
    assert quick_desk.deploy(files).files_sent == 0


def test_where_no_links_are_allowed_copies_are_made_and_read_back(
    quick_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without(monkeypatch, "ln -f ", "ln -sf ")
    files = bundle(quick_desk.folder)
    report = quick_desk.deploy(files)
    assert report.verified == 4 + 4
    assert quick_desk.content("models/copy.gguf") == files[2].local.read_bytes()


def _without(monkeypatch: pytest.MonkeyPatch, *commands: str) -> None:
    """A device on which these commands fail, as SELinux makes them."""
    from farm.adb import deploy_plan

    script = deploy_plan._PUT
    for command in commands:
        script = script.replace(command, "false ")
    monkeypatch.setattr("farm.adb.deploy_plan._PUT", script)
