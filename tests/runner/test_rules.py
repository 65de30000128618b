"""The pure parts: when an attempt is stopped, how it ended, what the sandbox is given, what the witness says."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from farm.adb.errors import (
    AdbServerGone,
    AmbiguousDevice,
    DeviceGone,
    DeviceOffline,
    IdentityMismatch,
    Unauthorized,
)
from farm.domain.causes import Cause
from farm.domain.journal import Record
from farm.domain.outcomes import Outcome
from runner import cgroup, sandbox, seccomp
from runner.records import fine_cause_of
from runner.spec import Limits, SpecError, parse
from runner.supervise import KILLED
from runner.verdict import conclude, death, finished_tests
from runner.watch import Signs, Stop, Watch
from runner.witness import View, judge_address, judge_path

LIMITS = Limits(attempt_s=100, suite_s=50, silence_s=10)
SIGNS = Signs(0, 0, False, 0, None, False, None)


def watch(fence_s: float | None = None) -> Watch:
    return Watch(0, LIMITS, {"short": Limits(100, 20, 5)}, fence_s)


@pytest.mark.parametrize(
    ("signs", "outcome", "reason"),
    [
        (replace(SIGNS, now=9), None, ""),
        (replace(SIGNS, now=11), Outcome.TIMED_OUT, "no sign of life from the suite for 10 s"),
        (replace(SIGNS, now=49, waits_for_turn=True), None, ""),
        (replace(SIGNS, now=51, last_sign=51), Outcome.TIMED_OUT, "used up its 50 s"),
        (replace(SIGNS, now=60, last_sign=60, queued_s=20), None, ""),
        (replace(SIGNS, now=101, last_sign=101, queued_s=80), Outcome.TIMED_OUT, "the attempt's limit of 100 s"),
        (replace(SIGNS, now=1, cancelled=True), Outcome.CANCELLED, "cancelled"),
    ],
)
def test_limits_of_an_attempt(signs: Signs, outcome: Outcome | None, reason: str) -> None:
    stop = watch().look(signs)
    assert (stop and stop.outcome) == outcome
    assert stop is None or reason in stop.reason


def test_each_suite_has_its_own_time_from_its_first_test() -> None:
    found = watch()
    assert found.look(replace(SIGNS, now=40, last_sign=40)) is None
    assert found.look(replace(SIGNS, now=45, last_sign=45, suite="short")) is None
    assert found.look(replace(SIGNS, now=64, last_sign=64, suite="short")) is None
    stop = found.look(replace(SIGNS, now=66, last_sign=66, suite="short"))
    assert stop is not None
    assert "suite short used up its 20 s" in stop.reason


def test_silence_on_a_busy_host_counts_for_a_part_and_still_ends() -> None:
    found = watch()
    assert found.look(replace(SIGNS, now=1, last_sign=1, stalled_s=70)) is None
    assert found.look(replace(SIGNS, now=13, last_sign=1, stalled_s=82)) is None
    assert found.look(replace(SIGNS, now=40, last_sign=1, stalled_s=109)) is None
    stop = found.look(replace(SIGNS, now=42, last_sign=1, stalled_s=111))
    assert stop is not None
    assert "no sign of life" in stop.reason
    assert found.look(replace(SIGNS, now=44, last_sign=43, stalled_s=113)) is None


def test_the_fence_falls_when_the_lease_is_not_renewed() -> None:
    found = watch(fence_s=5)
    assert found.look(replace(SIGNS, now=4, last_sign=4, renewal="1")) is None
    assert found.look(replace(SIGNS, now=8, last_sign=8, renewal="2")) is None
    assert found.look(replace(SIGNS, now=12, last_sign=12, renewal="2")) is None
    stop = found.look(replace(SIGNS, now=14, last_sign=14, renewal="2"))
    assert stop is not None
    assert stop.outcome is Outcome.INFRA_ERROR


# ---- how it ended ----


def ends(*tests: tuple[str, str, str | None]) -> list[Record]:
    records = [Record(0, 0, 0, "collected", {"tests": [test for test, _, _ in tests]})]
    for number, (test, outcome, cause) in enumerate(tests, 1):
        fields = {"test": test, "outcome": outcome, "message": f"{test} says", **({"cause": cause} if cause else {})}
        records.append(Record(number, 0, 0, "test_end", fields))
    return records


@pytest.mark.parametrize(
    ("records", "stop", "lost", "exit_code", "outcome"),
    [
        (ends(("a", "passed", None), ("b", "skipped", None)), None, {}, 0, Outcome.PASSED),
        (ends(("a", "passed", None), ("b", "failed", None)), None, {}, 1, Outcome.FAILED),
        (ends(("a", "failed", None), ("b", "failed", "crashed")), None, {}, 1, Outcome.CRASHED),
        (ends(("a", "failed", "hung"), ("b", "failed", "crashed")), None, {}, 1, Outcome.HUNG),
        (ends(("a", "failed", "killed")), Stop(Outcome.CANCELLED, "x"), {}, 137, Outcome.KILLED),
        (ends(("a", "failed", None)), Stop(Outcome.CANCELLED, "x"), {}, 137, Outcome.CANCELLED),
        (ends(("a", "error", "timed-out")), Stop(Outcome.TIMED_OUT, "x"), {}, 137, Outcome.TIMED_OUT),
        (ends(("a", "passed", None)), Stop(Outcome.DEVICE_LOST, "x"), {"S": "gone"}, 137, Outcome.DEVICE_LOST),
        (ends(("a", "error", "device-lost")), None, {"S": "gone"}, 1, Outcome.DEVICE_LOST),
        (ends(("a", "error", "infra-error"), ("b", "failed", None)), None, {}, 1, Outcome.INFRA_ERROR),
        (ends(("a", "error", None)), None, {}, 1, Outcome.FAILED),
        (ends(), None, {}, 5, Outcome.FAILED),
        (ends(), None, {}, None, Outcome.INFRA_ERROR),
        (ends(("a", "passed", None)), None, {}, -11, Outcome.FAILED),
        (ends(("a", "passed", None)), None, {}, 3, Outcome.FAILED),
        (ends(("a", "passed", None)), Stop(Outcome.INFRA_ERROR, "fenced"), {}, 137, Outcome.INFRA_ERROR),
    ],
)
def test_the_one_outcome_of_an_attempt(
    records: list[Record], stop: Stop | None, lost: dict[str, str], exit_code: int | None, outcome: Outcome
) -> None:
    assert conclude(records, stop, lost, exit_code).outcome is outcome


def test_tests_that_were_not_run_are_no_pass() -> None:
    records = [Record(0, 0, 0, "collected", {"tests": ["a", "b"]}), *ends(("a", "passed", None))[1:]]
    assert conclude(records, None, {}, 0).outcome is Outcome.FAILED


def test_a_test_that_ran_again_counts_by_its_last_end() -> None:
    records = ends(("a", "error", "device-lost"), ("a", "passed", None))
    verdict = conclude(records, None, {}, 0)
    assert verdict.outcome is Outcome.PASSED
    assert verdict.counts == {"passed": 1}


def test_what_is_finished_leaves_out_what_the_farm_or_the_device_broke() -> None:
    assert finished_tests(ends(("a", "passed", None), ("b", "error", "device-lost"), ("c", "failed", "crashed"))) == {
        "a": "passed",
        "c": "failed",
    }


# ---- the sandbox ----


def layout(tmp_path: Path) -> sandbox.Layout:
    return sandbox.layout(tmp_path / "attempt", tmp_path / "attempt", tmp_path / "pack")


def test_the_sandbox_shows_the_pack_the_work_folder_and_nothing_of_the_home(tmp_path: Path) -> None:
    line = sandbox.argv(layout(tmp_path), ["true"], block_fd=3, info_fd=4, extras=frozenset())
    words = " ".join(line)
    for space in ("--unshare-user", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--clearenv", "--cap-drop ALL"):
        assert space in words
    writable = [line[n + 2] for n, word in enumerate(line) if word == "--bind"]
    assert writable == [sandbox.WORK, sandbox.LENS, sandbox.EAR]
    shown = [line[n + 1] for n, word in enumerate(line) if word == "--ro-bind"]
    assert not [path for path in shown if path in ("/", "/root", "/home", str(Path.home()), "/etc")]
    assert "--ro-bind /proc/sys /proc/sys" in words
    assert words.endswith("--remount-ro / --chdir /farm/work -- true")


def test_our_own_state_is_not_among_what_python_needs() -> None:
    root = Path(__file__).resolve().parents[2]
    assert not [path for path in sandbox.python_paths() if (root / ".farm").is_relative_to(path)]


VIEW = View(("/usr", "/farm/pack", "/farm/work", "/tmp", "/opt/env"), guarded=("/tmp/state",))


@pytest.mark.parametrize(
    ("path", "writes", "said"),
    [
        ("/usr/lib/x.so", False, None),
        ("/farm/work/new", True, None),
        ("/tmp/new", True, None),
        ("/tmp/clone/README.md", False, "outside"),
        ("/tmp/mine", False, None),
        ("/etc/hosts", False, None),
        ("/opt", False, None),
        ("/", False, None),
        ("/etc/shadow", False, "not shown"),
        ("/home/x/.ssh/id", False, "outside"),
        ("/tmp/state/farm.sqlite", False, "outside"),
        ("/tmp/state/farm.sqlite", True, "outside"),
        ("/usr/bin/x", True, "read-only"),
        ("/farm/pack/x", True, "read-only"),
        ("/proc/sys/kernel/core_pattern", True, "outside"),
        ("/opt2", False, "outside"),
    ],
)
def test_which_files_the_witness_speaks_of(path: str, writes: bool, said: str | None) -> None:
    found = judge_path(VIEW, "openat", path, writes, lambda path: path.startswith("/tmp/clone/"))
    assert (found is None) if said is None else (found is not None and said in found)


def inet(host: bytes, port: int) -> bytes:
    return struct.pack("=H", 2) + struct.pack("!H4s", port, host) + bytes(8)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (inet(b"\x7f\0\0\1", 5037), None),
        (inet(b"\x7f\0\0\1", 8080), None),
        (inet(b"\x7f\0\0\1", 5038), "nothing listens"),
        (inet(b"\x0a\0\0\1", 443), "no network"),
        (inet(b"\x7f\0\0\1", 53), "names cannot be looked up"),
        (struct.pack("=H", 10) + struct.pack("!HI", 443, 0) + bytes(15) + b"\1" + bytes(4), "nothing listens"),
        (struct.pack("=H", 10) + struct.pack("!HI", 443, 0) + b"\x20\1" + bytes(14) + bytes(4), "no network"),
        (struct.pack("=H", 1) + b"/run/nscd/socket\0", None),
        (struct.pack("=H", 1) + b"/tmp/x.sock\0", None),
        (struct.pack("=H", 1) + b"/run/docker.sock\0", "outside"),
        (struct.pack("=H", 16), None),
        (b"", None),
        (b"\2", None),
    ],
)
def test_which_addresses_the_witness_speaks_of(raw: bytes, said: str | None) -> None:
    found = judge_address(VIEW, raw, lambda port: port == 8080)
    assert (found is None) if said is None else (found is not None and said in found)


def test_the_filter_notifies_its_calls_and_lets_all_others_pass() -> None:
    arch, _, calls = seccomp.TABLES["x86_64"]
    code = [
        struct.unpack_from("=HBBI", seccomp.program(arch, calls), at)
        for at in range(0, 8 * 200, 8)
        if at < len(seccomp.program(arch, calls))
    ]

    def decide(number: int, args: tuple[int, ...] = (0,) * 6, machine: int = arch) -> int:
        data = struct.pack("=iIQ6Q", number, machine, 0, *args)
        accumulator = at = 0
        while True:
            op, yes, no, k = code[at]
            at += 1
            if op == 0x20:
                accumulator = struct.unpack_from("=I", data, k)[0]
            elif op == 0x15:
                at += yes if accumulator == k else no
            else:
                return k

    notify, allow = 0x7FC00000, 0x7FFF0000
    for number, call in calls.items():
        expected = allow if call.name == "sendto" else notify
        assert decide(number) == expected, call
    assert decide(44, (3, 1, 1, 0, 0xFFFF_0000_0000, 16)) == notify
    assert decide(44, (3, 1, 1, 0, 0x1000, 16)) == notify
    for number in (0, 1, 3, 9, 59, 202, 999):
        assert decide(number) == allow
    assert decide(257, machine=0x40000003) == allow


# ---- attempt.json ----


def test_an_attempt_without_a_key_says_which() -> None:
    with pytest.raises(SpecError, match="'bundle' is missing"):
        parse({"attempt": 1, "devices": [{"serial": "S"}]})
    with pytest.raises(SpecError, match="positive"):
        parse(
            {
                "attempt": 1,
                "devices": [{"serial": "S"}],
                "bundle": {},
                "pack_dir": "/",
                "suites": ["a"],
                "limits": {"suite_s": 0},
            }
        )


# ---- control groups ----


def test_a_group_bounds_what_it_can_and_sweeps_what_killed_supervisors_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "_own_groups", lambda: {"pids": "/", "memory": "/a"})
    (tmp_path / "pids" / "farm-attempt-1-999999999").mkdir(parents=True)
    (tmp_path / "pids" / f"farm-attempt-2-{os.getpid()}").mkdir()
    group = cgroup.make("farm-attempt-3-1", tmp_path)
    assert group.bounds == {"pids"}, "there is no memory hierarchy here"
    assert sorted(p.name for p in (tmp_path / "pids").iterdir()) == [
        f"farm-attempt-2-{os.getpid()}",
        "farm-attempt-3-1",
    ]
    assert (tmp_path / "pids" / "farm-attempt-3-1" / "pids.max").read_text() == str(cgroup.MAX_TASKS)


def test_a_group_knows_that_the_kernel_ended_a_process_for_its_memory() -> None:
    group = cgroup.make(f"farm-attempt-0-{os.getpid()}", memory=64 << 20)
    if "memory" not in group.bounds:
        group.remove()
        pytest.skip("no control group for memory can be made here")
    try:
        assert not group.ran_out_of_memory()
        code = "import sys; sys.stdin.readline(); x = b'x' * (400 << 20)"
        greedy = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
        group.add(greedy.pid)
        greedy.communicate(b"go\n", timeout=60)
        assert greedy.returncode in KILLED
        assert group.ran_out_of_memory()
    finally:
        group.remove()


@pytest.mark.parametrize(
    ("file", "text"), [("memory.events", "oom 3\noom_kill 1\n"), ("memory.oom_control", "oom_kill 2")]
)
def test_both_versions_of_control_groups_tell_a_kill_for_memory(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / file).write_text(text)
    assert cgroup.Group([tmp_path]).ran_out_of_memory()
    (tmp_path / file).write_text("oom_kill 0\nnonsense\noom_kill x\n")
    assert not cgroup.Group([tmp_path]).ran_out_of_memory()


@pytest.mark.parametrize(
    ("code", "words"),
    [(139, "by SIGSEGV"), (-9, "by SIGKILL"), (160, "by signal 32"), (7, "with code 7"), (255, "with code 255")],
)
def test_how_a_test_process_ended_is_told_in_words(code: int, words: str) -> None:
    assert death(code).endswith(words)


def test_a_lost_devices_cause_is_what_the_test_that_lost_it_said() -> None:
    fields = {"test": "a", "outcome": "error", "cause": "device-lost", "fine_cause": "unauthorized"}
    verdict = conclude([Record(0, 0.0, 0.0, "test_end", fields)], None, {"S": "S: device unauthorized"}, 1)
    assert (verdict.outcome, verdict.cause) == (Outcome.DEVICE_LOST, Cause.UNAUTHORIZED)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (DeviceGone("x"), Cause.GONE),
        (DeviceOffline("x"), Cause.OFFLINE),
        (Unauthorized("x"), Cause.UNAUTHORIZED),
        (IdentityMismatch("x"), Cause.OTHER_DEVICE),
        (AmbiguousDevice("x"), Cause.DUPLICATE_SERIAL),
        (AdbServerGone("x"), Cause.ADB_SERVER),
        (ValueError("x"), None),
    ],
)
def test_whose_an_error_of_a_test_is_comes_from_its_kind(error: Exception, cause: Cause | None) -> None:
    assert fine_cause_of(error) is cause
