"""The supervisor: what it survives, what it stops, what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from farm.adb.locks import device_lock
from farm.domain.journal import Record
from tests.devices import AdbServer, StartVirtualDevice
from tests.runner.attempts import Attempt, Attempts, write_pack
from tests.waiting import eventually
from virtual import fleet

GATED = """
import time
from pathlib import Path

def wait(name):
    end = time.monotonic() + 60
    while not Path(name).exists():
        assert time.monotonic() < end
        time.sleep(0.02)

def test_first(): pass

def test_second():
    Path("second-runs").touch()
    wait("go-on")

def test_third(): pass
"""


@pytest.fixture
def gated(tmp_path: Path) -> Path:
    """A pack whose second test waits until somebody makes the file `go-on` in the attempt's work folder."""
    return write_pack(tmp_path / "pack", {"s/test_gated.py": GATED})


def started(attempt: Attempt, test: str) -> list[Record]:
    return [r for r in attempt.records("test_start") if r.fields["test"].endswith(test)]


def test_a_runner_that_is_killed_and_started_again_runs_no_finished_test_twice(
    attempts: Attempts, phone: fleet.Running, gated: Path
) -> None:
    attempt = attempts.make(phone, gated, "s")
    killed = attempt.start()
    eventually(lambda: (attempt.folder / "work" / "second-runs").exists())
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait(30)
    with (attempt.folder / "journal.jsonl").open("ab") as torn:
        torn.write(b'{"v":1,"seq":9')
    (attempt.folder / "work" / "go-on").touch()
    end = attempt.run()
    assert end.fields["outcome"] == "passed"
    assert [len(started(attempt, name)) for name in ("test_first", "test_second", "test_third")] == [1, 2, 1]
    assert len(attempt.records("start")) == 2
    assert [r.seq for r in attempt.records()] == list(range(len(attempt.records())))


def test_a_runner_that_is_ended_from_outside_says_so_in_the_log(
    attempts: Attempts, phone: fleet.Running, gated: Path
) -> None:
    attempt = attempts.make(phone, gated, "s")
    process = attempt.start()
    eventually(lambda: (attempt.folder / "work" / "second-runs").exists())
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)
    assert attempt.end().fields["reason"] == "the runner was ended by SIGTERM"
    assert attempt.log().endswith("\nrunner: infra-error: the runner was ended by SIGTERM\n")


def test_a_second_runner_on_the_same_folder_leaves_at_once(
    attempts: Attempts, phone: fleet.Running, gated: Path
) -> None:
    attempt = attempts.make(phone, gated, "s")
    attempt.start()
    eventually(lambda: (attempt.folder / "work" / "second-runs").exists())
    second = attempt.start()
    said = second.communicate(timeout=60)[0]
    assert second.returncode == 3, said
    identity = json.loads((attempt.folder / "runner.json").read_text())
    assert identity["pid"] == attempt.processes[0].pid
    (attempt.folder / "work" / "go-on").touch()
    attempt.processes[0].communicate(timeout=60)
    assert attempt.end().fields["outcome"] == "passed"


def test_a_runner_whose_attempt_has_ended_does_nothing(attempts: Attempts, phone: fleet.Running, gated: Path) -> None:
    attempt = attempts.make(phone, gated, "s")
    (attempt.folder / "work").mkdir()
    (attempt.folder / "work" / "go-on").touch()
    attempt.run()
    before = attempt.records()
    attempt.run()
    assert attempt.records() == before


def test_a_cancel_ends_the_suite_and_its_engine(attempts: Attempts, phone: fleet.Running, tmp_path: Path) -> None:
    text = "def test_long(engine):\n    engine.run(prompt_tokens=8, n_predict=100, repeat=100000, ignore_eos=True)\n"
    attempt = attempts.make(phone, write_pack(tmp_path / "pack", {"s/test_long.py": text}), "s")
    process = attempt.start()
    device = attempts.device(phone)
    engines = "ps -A -o ARGS | grep '[f]arm-engine --model' | wc -l"
    eventually(lambda: int(device.shell(engines).stdout) > 0)
    (attempt.folder / "cancel").touch()
    process.communicate(timeout=60)
    assert attempt.end().fields["outcome"] == "cancelled"
    assert attempt.outcomes() == {}
    eventually(lambda: int(device.shell(engines).stdout) == 0)


def test_a_runner_whose_lease_is_not_renewed_stops_itself(
    attempts: Attempts, phone: fleet.Running, gated: Path
) -> None:
    attempt = attempts.make(phone, gated, "s", fence_s=3.0)
    renewed = attempt.folder / "renewed"
    process = attempt.start()
    began = time.monotonic()

    def renew() -> bool:
        renewed.write_text(str(time.monotonic()))
        assert process.poll() is None, "it was renewed all the time"
        return time.monotonic() - began > 5

    eventually(renew, interval=0.2)
    process.communicate(timeout=60)
    assert attempt.end().fields["outcome"] == "infra-error"
    assert "fenced" in attempt.end().fields["reason"]


def test_a_device_in_other_hands_is_not_touched(
    attempts: Attempts, phone: fleet.Running, gated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = attempts.make(phone, gated, "s")
    lock = device_lock(Path(attempt.spec["locks_dir"]), phone.serial, phone.address)
    assert lock.try_acquire("somebody else")
    try:
        end = attempt.run()
    finally:
        lock.release()
    assert end.fields["outcome"] == "infra-error"
    assert "somebody else" in end.fields["reason"]
    assert not attempt.records("collected")


def test_a_lost_device_ends_the_attempt_and_leaves_its_test_to_be_run_again(
    attempts: Attempts, virtual_device: StartVirtualDevice, tmp_path: Path
) -> None:
    text = (
        "def test_before(): pass\n"
        "def test_long(engine):\n    engine.run(prompt_tokens=8, n_predict=100, repeat=100000, ignore_eos=True)\n"
        "def test_after(): pass\n"
    )
    device = virtual_device("rk3568", fresh=True)
    attempt = attempts.make(device, write_pack(tmp_path / "pack", {"s/test_long.py": text}), "s")
    process = attempt.start()
    eventually(lambda: attempt.records("stage") or started(attempt, "test_long"))
    fleet.fault(device.dir.parent, device.serial, "unplug")
    process.communicate(timeout=120)
    assert attempt.end().fields["outcome"] == "device-lost", attempt.end()
    assert attempt.outcomes() == {"test_before": "passed", "test_long": "error"}
    assert attempt.records("test_end")[-1].fields["cause"] == "device-lost"


def test_a_suite_may_have_the_time_it_needs_and_no_more(
    attempts: Attempts, phone: fleet.Running, tmp_path: Path
) -> None:
    text = "import time\ndef test_busy():\n    while True:\n        print('.', flush=True)\n        time.sleep(0.2)\n"
    pack = write_pack(tmp_path / "pack", {"s/test_busy.py": text}, s={"path": "s", "limits": {"suite_s": 4}})
    attempt = attempts.make(phone, pack, "s")
    end = attempt.run()
    assert end.fields["outcome"] == "timed-out"
    assert "used up its 4 s" in end.fields["reason"]
    assert "test_busy" in attempt.records("test_end")[0].fields["detail"]


def test_a_suite_that_used_up_its_time_is_told_with_the_test_and_the_call_that_it_waited_in(
    attempts: Attempts, phone: fleet.Running, tmp_path: Path
) -> None:
    text = "def test_long(device):\n    device.shell('sleep 60', timeout_s=60)\n"
    pack = write_pack(tmp_path / "pack", {"s/test_long.py": text}, s={"path": "s", "limits": {"suite_s": 4}})
    reason = attempts.make(phone, pack, "s").run().fields["reason"]
    assert reason.startswith("suite s used up its 4 s, in s/test_long.py::test_long: it waited in ")
    assert reason.endswith("shell, called at test_long.py line 2 in test_long")


def test_a_suite_that_waits_for_an_engine_at_work_is_not_silent(
    attempts: Attempts, phone: fleet.Running, tmp_path: Path
) -> None:
    text = "def test_long(engine):\n    engine.run(prompt_tokens=8, n_predict=100, repeat=100000, ignore_eos=True)\n"
    limits = {"suite_s": 25, "silence_s": 12}
    pack = write_pack(tmp_path / "pack", {"s/test_long.py": text}, s={"path": "s", "limits": limits})
    end = attempts.make(phone, pack, "s").run()
    assert "used up its 25 s" in end.fields["reason"]


def test_a_pack_that_cannot_be_collected_is_no_pass(attempts: Attempts, phone: fleet.Running, tmp_path: Path) -> None:
    files = {"s/test_broken.py": "import no_such_module\n", "s/test_fine.py": "def test_fine(): pass\n"}
    attempt = attempts.make(phone, write_pack(tmp_path / "pack", files), "s")
    end = attempt.run()
    assert end.fields["outcome"] == "failed"
    assert "no_such_module" in str(attempt.records("test_end")[0].fields)


def test_a_suite_without_a_test_is_no_pass(attempts: Attempts, phone: fleet.Running, tmp_path: Path) -> None:
    attempt = attempts.make(phone, write_pack(tmp_path / "pack", {"s/helper.py": "x = 1\n"}), "s")
    assert attempt.run().fields["outcome"] == "failed"
    assert "no test was found" in attempt.end().fields["reason"]


def test_a_test_process_that_dies_takes_only_its_attempt_along(
    attempts: Attempts, phone: fleet.Running, tmp_path: Path
) -> None:
    text = "import os\ndef test_fine(): pass\ndef test_dies(): os.kill(os.getpid(), 11)\n"
    attempt = attempts.make(phone, write_pack(tmp_path / "pack", {"s/test_dies.py": text}), "s")
    end = attempt.run()
    assert end.fields["outcome"] == "failed"
    assert attempt.outcomes() == {"test_fine": "passed", "test_dies": "failed"}
    assert "died by SIGSEGV in the middle of this test" in attempt.records("test_end")[-1].fields["message"]


def test_a_test_that_is_refused_memory_is_told_whose_limit_that_was(
    attempts: Attempts, phone: fleet.Running, tmp_path: Path
) -> None:
    text = "def test_greedy(): bytearray(8 << 30)\n"
    attempt = attempts.make(phone, write_pack(tmp_path / "pack", {"s/test_greedy.py": text}), "s")
    assert attempt.run().fields["outcome"] == "failed"
    assert "4 GB: the sandbox's limit" in attempt.records("test_end")[-1].fields["message"]


def test_the_sandbox_is_required(
    attempts: Attempts, phone: fleet.Running, gated: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    attempt = attempts.make(phone, gated, "s")
    end = attempt.run()
    assert end.fields["outcome"] == "infra-error"
    assert "bubblewrap is not installed" in end.fields["reason"]


def test_an_attempt_file_that_makes_no_sense_is_refused_in_words(
    attempts: Attempts, phone: fleet.Running, gated: Path
) -> None:
    attempt = attempts.make(phone, gated, "s")
    attempt.spec["devices"] = []
    process = attempt.start()
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 2
    assert "devices is empty" in said


def test_only_the_tests_that_are_left_run(attempts: Attempts, phone: fleet.Running, tmp_path: Path) -> None:
    text = "def test_a(): pass\ndef test_b(): pass\ndef test_c(): pass\n"
    pack = write_pack(tmp_path / "pack", {"s/test_abc.py": text})
    names = [f"s/test_abc.py::test_{letter}" for letter in "abc"]
    attempt = attempts.make(phone, pack, "s", tests=names[:2], finished=names[:1])
    assert attempt.run().fields["outcome"] == "passed"
    assert attempt.outcomes() == {"test_b": "passed"}
    assert attempt.records("collected")[0].fields["tests"] == names[:2]


def test_the_adb_server_that_dies_is_the_farms_trouble(
    adb_server: AdbServer, attempts: Attempts, phone: fleet.Running, tmp_path: Path
) -> None:
    text = "def test_long(engine):\n    engine.run(prompt_tokens=8, n_predict=100, repeat=100000, ignore_eos=True)\n"
    attempt = attempts.make(phone, write_pack(tmp_path / "pack", {"s/test_long.py": text}), "s")
    process = attempt.start()
    eventually(lambda: started(attempt, "test_long"))
    adb_server.run("kill-server")
    process.communicate(timeout=120)
    adb_server.connect(phone)
    assert attempt.end().fields["outcome"] in ("infra-error", "device-lost"), attempt.end()
    assert attempt.records("test_end")[-1].fields["outcome"] == "error"
