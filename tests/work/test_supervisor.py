"""The runner's process: known by more than its pid, and ended for certain."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from farm.work.supervisor import RunnerId, Supervisor, host_boot_id, is_process
from tests.waiting import eventually

STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "1000"])
print(child.pid, flush=True)
time.sleep(1000)
"""


def start_time(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
    except OSError:
        return True


def test_a_process_is_the_runner_only_with_its_start_time_and_boot() -> None:
    process = subprocess.Popen(["sleep", "100"], start_new_session=True)
    try:
        began, boot = start_time(process.pid), host_boot_id()
        assert is_process(RunnerId(process.pid, began, boot))
        assert not is_process(RunnerId(process.pid, began + 1, boot))
        assert not is_process(RunnerId(process.pid, began, "another boot"))
        assert not is_process(RunnerId(1, 0, boot))
    finally:
        process.kill()
    began_of_the_dead = RunnerId(process.pid, began, boot)
    eventually(lambda: not is_process(began_of_the_dead))  # a zombie is no runner
    process.wait(30)


def test_a_runner_that_does_not_want_to_go_is_killed_with_its_whole_group(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STUBBORN], start_new_session=True, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    identity = {"pid": process.pid, "start_time": start_time(process.pid), "boot_id": host_boot_id()}
    (tmp_path / "runner.json").write_text(json.dumps(identity))
    runner = Supervisor(tmp_path)
    assert runner.alive()
    assert runner.kill(wait_s=1.0)
    assert not runner.alive()
    eventually(lambda: gone(child))
    process.wait(30)
    process.stdout.close()


def test_a_folder_without_a_runner_has_none_and_nothing_is_killed(tmp_path: Path) -> None:
    runner = Supervisor(tmp_path)
    assert not runner.alive()
    assert runner.kill()
    (tmp_path / "runner.json").write_text('{"pid": "x"')
    assert not runner.alive()
    assert runner.last_words() == "it said nothing"


def test_a_dead_runner_is_spoken_for(tmp_path: Path) -> None:
    runner = Supervisor(tmp_path)
    assert runner.death() == "ended without its last record"
    runner.start()
    eventually(lambda: not runner.alive())
    assert runner.death() == "ended with exit code 2, without its last record"
    runner.start()
    assert runner._child is not None
    runner._child.kill()
    eventually(lambda: not runner.alive())
    assert runner.death() == "was killed by SIGKILL"
    (tmp_path / "runner.log").write_text("what a suite printed")
    runner.note("the runner was killed")
    assert (tmp_path / "runner.log").read_text() == "what a suite printed\nfarm: the runner was killed\n"


def test_a_runner_that_cannot_start_leaves_its_words(tmp_path: Path) -> None:
    runner = Supervisor(tmp_path)
    runner.start()
    eventually(lambda: not runner.alive())
    assert "attempt.json" in runner.last_words()
