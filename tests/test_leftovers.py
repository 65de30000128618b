"""A killed test session leaves nothing for long, and a living one is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import leftovers
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parent.parent
SESSION = """
import os, subprocess, sys
from pathlib import Path
from tests import leftovers

leftovers.NOTES = Path(sys.argv[1])
folder = leftovers.folder("left-")
by_environment = {"env": os.environ | {"FARM_LOCKS": str(folder)}}
by_argument = ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done", str(folder / "x")]
quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "start_new_session": True}
started = [subprocess.Popen(["sleep", "1000"], **quiet, **by_environment), subprocess.Popen(by_argument, **quiet)]
print(folder, *(process.pid for process in started), flush=True)
sys.stdin.read()
"""


def runs(pid: int) -> bool:
    return leftovers._start_time(pid) is not None


def test_what_a_killed_session_left_is_ended_and_a_living_sessions_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "NOTES", tmp_path / "notes")
    monkeypatch.setattr(leftovers, "END_S", 1.0)
    command = [sys.executable, "-c", SESSION, str(tmp_path / "notes")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    killed, living = (subprocess.Popen(command, **pipes) for _ in range(2))  # type: ignore[call-overload]
    try:
        folder, *pids = killed.stdout.readline().split()
        other, *others = living.stdout.readline().split()
        assert leftovers.sweep() == [], "both owners live"
        killed.kill()
        killed.wait(30)
        assert len(leftovers.sweep()) >= 2
        eventually(lambda: not any(runs(int(pid)) for pid in pids))
        assert not Path(folder).exists()
        assert Path(other).exists()
        assert all(runs(int(pid)) for pid in others)
    finally:
        for session in (killed, living):
            session.kill()
            session.communicate(timeout=30)
        leftovers.sweep()
    assert not any(runs(int(pid)) for pid in others)
    assert not os.listdir(tmp_path / "notes")


def test_a_session_that_ends_in_order_leaves_no_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "NOTES", tmp_path / "notes")
    leftovers.own(tmp_path, keep=True)
    assert len(list((tmp_path / "notes").iterdir())) == 1
    leftovers.forget()
    assert not list((tmp_path / "notes").iterdir())
    assert tmp_path.exists()
