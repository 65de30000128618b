"""What the demo says when a part of it does not come up, and that signals do not break its clean-up."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from farm.cli.demo import Demo, demo_that_is_up
from farm.cli.demo_parts import DEVICES, Parts
from farm.cli.errors import CliError
from farm.cli.signals import stopped_by_signals
from farm.settings import load
from farm.store import tables
from tests.served import serve


class NoDevices:
    """A farm that has not seen any device yet."""

    def get(self, _path: str) -> Any:
        return {"devices": [], "unidentified": []}


def test_an_engine_that_cannot_be_built_is_told_as_that_and_not_as_devices_that_are_late(tmp_path: Path) -> None:
    settings = load({}, state=tmp_path)
    built: Future[Path] = Future()
    built.set_exception(CliError("the engine could not be built", "see build.log"))
    with pytest.raises(CliError, match="could not be built"):
        Demo(settings, Parts(settings))._wait_for_devices(NoDevices(), built)  # type: ignore[arg-type]


def test_a_device_that_dies_is_started_once_more_and_then_told_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = load({}, state=tmp_path)
    started: list[str] = []
    line = [sys.executable, "-c", "print(flush=True); input()", str(tmp_path / "virtual" / DEVICES[2].serial)]
    alive = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert alive.stdout is not None
    alive.stdout.readline()  # from here on the kernel tells its arguments
    for number, device in enumerate(DEVICES):
        folder = tmp_path / "virtual" / device.serial
        folder.mkdir(parents=True)
        pid = alive.pid if number else 1  # a pid that somebody else has by now
        (folder / "device.json").write_text(json.dumps({"pid": pid, "address": "127.0.0.1:5600"}))
        (folder / "hardware.log").write_text(f"ERROR the {number}. device burnt\n\n")
    monkeypatch.setattr(Parts, "start_device", lambda _parts, device: started.append(device.serial))
    try:
        with pytest.raises(CliError) as caught:
            Demo(settings, Parts(settings))._wait_for_devices(NoDevices(), Future())  # type: ignore[arg-type]
    finally:
        alive.communicate(timeout=30)
    first, second, third = (device.serial for device in DEVICES)
    assert started == [first, second]
    assert f"the virtual device {first} died twice: ERROR the 0. device burnt" in str(caught.value)
    said = capsys.readouterr().err
    assert f"{first} died (ERROR the 0. device burnt); starting it again" in said
    assert third not in said


@pytest.mark.parametrize(
    ("virtual", "connection", "health", "joined"),
    [(True, "device", "good", True), (True, "gone", "good", False), (True, "device", "bad", False),
     (False, "device", "good", False)],
)  # fmt: skip
def test_a_demo_that_is_up_is_joined_where_its_devices_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, virtual: bool, connection: str, health: str, joined: bool
) -> None:
    monkeypatch.setenv("FARM_URL", "http://127.0.0.1:9")  # another farm: a demo is that of its own state folder
    with serve(tmp_path / "s") as served:
        with served.farm.db.session() as session:
            session.add(tables.Host(name="local", drained=False, info={}))
            session.flush()
            for device in DEVICES:
                row = tables.Device(serial=device.serial, name=device.serial, host="local", labels={}, virtual=True)
                row.connection, row.seen_at = "device", served.farm.db.now(session) + timedelta(hours=1)
                session.add(row)
            row.virtual, row.connection, row.health = virtual, connection, health
        if joined:
            client = demo_that_is_up(served.settings)
            assert client is not None
            assert client.url == served.origin
        else:
            with pytest.raises(CliError, match=f"has no {DEVICES[-1].serial} that can be used") as refused:
                demo_that_is_up(served.settings)
            assert "farm down --all" in refused.value.hint


def test_where_none_is_up_a_demo_starts_its_own(tmp_path: Path) -> None:
    assert demo_that_is_up(load({}, state=tmp_path)) is None


def test_devices_that_are_late_are_told_of_while_one_waits_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Silent:
        def get(self, _path: str) -> Any:
            return {"devices": [], "unidentified": [{"address": "127.0.0.1:5600", "state": "silent", "remedy": "wait"}]}

    monkeypatch.setattr("farm.cli.demo.WAIT_TOLD_S", 0.0)
    monkeypatch.setattr("farm.cli.demo.READY_S", 0.5)
    monkeypatch.setattr(Parts, "death_of", lambda _parts, _device: None)
    settings = load({}, state=tmp_path)
    with pytest.raises(
        CliError, match=r"within 0.5 s: virtual-pixel-8-pro is not seen yet; .*127\.0\.0\.1:5600 is silent"
    ):
        Demo(settings, Parts(settings))._wait_for_devices(Silent(), Future())  # type: ignore[arg-type]
    assert "waiting for virtual-pixel-8-pro (not seen yet); " in capsys.readouterr().err


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ImpatientlyStopped:
    """Parts that are sent every ending signal again while each of them is being stopped."""

    def __init__(self) -> None:
        self.stopped: list[str] = []

    def resume(self) -> None:
        self._stop("the parts may work again")

    def stop_adb(self) -> None:
        self._stop("adb server")

    def stop_devices(self) -> None:
        self._stop("devices")

    def _stop(self, what: str) -> None:
        for number in ENDING:
            signal.raise_signal(number)
            assert signal.getsignal(number) != signal.SIG_IGN, "what is started from here would inherit that"
        self.stopped.append(what)


ALL = ["the parts may work again", "adb server", "devices"]


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_that_comes_twice_does_not_break_the_clean_up(tmp_path: Path, number: signal.Signals) -> None:
    parts, before = ImpatientlyStopped(), [signal.getsignal(one) for one in ENDING]
    demo = Demo(load({}, state=tmp_path), parts)  # type: ignore[arg-type]

    def interrupted() -> None:
        with stopped_by_signals(), contextlib.ExitStack() as stack:
            stack.callback(demo.stop)
            try:
                signal.raise_signal(number)
            finally:
                signal.raise_signal(number)  # while an inner part cleans up behind itself
                parts.stopped.append("what had begun")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert parts.stopped == ["what had begun", *ALL]
    assert [signal.getsignal(one) for one in ENDING] == before


def test_a_signal_during_the_clean_up_of_a_demo_that_went_well_does_not_break_it(tmp_path: Path) -> None:
    parts = ImpatientlyStopped()
    with stopped_by_signals():
        Demo(load({}, state=tmp_path), parts).stop()  # type: ignore[arg-type]
    assert parts.stopped == ALL
