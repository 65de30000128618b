"""`farm up` and `farm down`: one server per state folder, found again, ended cleanly, survived by its data."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm import server
from farm.cli import doctor, processes
from farm.settings import load, port_is_free
from farm.store import inventories, tables
from tests.api.rows import an_attempt
from tests.cli.conftest import Done, farm
from tests.served import serve
from tests.waiting import eventually


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A state folder whose server, if one is left, is stopped at the end."""
    yield tmp_path / "farm"
    farm("down", "--all", state=tmp_path / "farm")
    processes.wait_until(lambda: processes.running_server(load({}, state=tmp_path / "farm")) is None, 60, "the end")


def up(state: Path, *arguments: str) -> Done:
    inventory = state.parent / "devices.yaml"
    inventory.write_text("virtual: false\n")
    return farm("up", "--detach", "--port", "0", "--inventory", str(inventory), *arguments, state=state)


def server_of(state: Path) -> dict[str, object]:
    return dict(json.loads((state / "server.json").read_text()))


def test_a_farm_goes_up_and_down(state: Path) -> None:
    started = up(state)
    assert started.code == 0, started.err
    url = str(server_of(state)["url"])
    assert url in started.out
    assert "/login/once/" in started.out
    assert farm("devices", "--json", state=state).json()["devices"] == []
    assert farm("down", state=state).code == 0
    assert not (state / "server.json").exists()
    assert port_is_free(int((state / "adb" / "port").read_text())), "the farm's adb server is still there"
    assert farm("devices", state=state).code == 2
    assert "No farm runs" in farm("down", state=state).err


def test_the_first_start_alone_tells_the_admin_token_and_no_log_keeps_it(state: Path) -> None:
    first = up(state)
    assert first.err.count("Admin token, shown this once: farm_") == 1
    token = first.err.partition("Admin token, shown this once: ")[2].split()[0]
    farm("down", state=state)
    assert "Admin token" not in up(state).err
    assert token not in (state / "server.log").read_text()


def test_a_second_start_says_that_it_runs(state: Path) -> None:
    up(state)
    again = up(state)
    assert again.code == 0
    assert "runs already" in again.err


def test_two_servers_never_share_a_state_folder(state: Path) -> None:
    import subprocess

    up(state)
    line = processes.server_command(load({}, state=state, port=0))
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "runs already" in done.stderr


def test_a_killed_server_leaves_a_folder_that_starts_again(state: Path) -> None:
    up(state)
    pid = int(str(server_of(state)["pid"]))
    token = (state / "cli-token").read_text()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: processes.start_time(pid) is None)
    stale = farm("devices", state=state)
    assert stale.code == 2
    assert "no farm answers" in stale.err
    assert up(state).code == 0
    assert (state / "cli-token").read_text() == token
    assert farm("runs", "--json", state=state).json()["runs"] == []


def test_a_taken_port_is_told_with_the_way_out(state: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = farm("up", "--detach", "--port", str(taken.getsockname()[1]), state=state)
    assert done.code == 2
    assert "--port 0" in done.err


def test_the_end_of_an_answer_is_not_held_back_until_its_beginning_is_acknowledged(state: Path) -> None:
    with server._listen(load({}, state=state, port=0)) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()):
            accepted = listener.accept()[0]
            with accepted:
                # What asyncio asks before it sets TCP_NODELAY on a connection.
                assert (accepted.type, accepted.proto) == (socket.SOCK_STREAM, socket.IPPROTO_TCP)


def test_another_process_with_the_same_pid_is_not_stopped(state: Path) -> None:
    state.mkdir()
    me = {"pid": os.getpid(), "start_time": "1", "url": "http://127.0.0.1:1"}
    (state / "server.json").write_text(json.dumps(me))
    assert "No farm runs" in farm("down", state=state).err


def test_down_all_ends_a_server_that_was_killed_before_it_could_tidy_up(state: Path) -> None:
    up(state)
    pid = int(str(server_of(state)["pid"]))
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: processes.start_time(pid) is None)
    port = int((state / "adb" / "port").read_text())
    assert not port_is_free(port), "the adb server outlives the farm: runners may use it"
    assert farm("down", "--all", state=state).code == 0
    assert port_is_free(port)


def test_the_demos_farm_is_found_without_naming_its_folder(tmp_path: Path) -> None:
    with serve(tmp_path / ".farm" / "demo"):
        done = farm("devices", "--json", state=tmp_path, cwd=tmp_path, FARM_STATE="")
    assert done.code == 0, done.err
    assert done.json()["devices"] == []


def findings(tmp_path: Path, *arguments: str) -> dict[str, dict[str, object]]:
    done = farm("doctor", "--json", *arguments, state=tmp_path, cwd=tmp_path, FARM_STATE="")
    return {finding["name"]: finding for finding in done.json()["findings"]}


def test_the_doctor_finds_the_demos_farm_and_says_what_is_wrong_with_its_devices(tmp_path: Path) -> None:
    state = tmp_path / ".farm" / "demo"
    with serve(state) as served:
        an_attempt(served)
        with served.farm.db.session() as session:
            now = served.farm.db.now(session)
            session.get_one(tables.Device, 1).connection = "gone"
            inventories.note(session, "local", "devices.yaml", ["devices.yaml:4: unknown key 'serail'"], now)
        found = findings(tmp_path)
        assert found["state folder"]["words"] == str(state)
        assert (found["devices"]["ok"], found["devices"]["words"]) == (
            False, "0 of 1 ready; d1 is gone: adb does not list it",
        )  # fmt: skip
        assert found["inventory"]["words"] == "devices.yaml:4: unknown key 'serail'"
        assert not found["inventory"]["ok"]
        assert found["farm's adb server"]["words"] == "none was started yet"
        assert not found["farm's adb server"]["ok"]
    served.settings.server_file.unlink()
    assert findings(tmp_path)["state folder"]["words"] == str(tmp_path / ".farm")
    found = findings(tmp_path, "--state", str(state))
    assert found["devices"]["words"] == "not asked, the farm is not up"
    assert "farm up --state .farm/demo" in str(found["devices"]["remedy"])
    assert found["farm's adb server"]["ok"]
    assert found["inventory"]["ok"]
    (tmp_path / "devices.yaml").write_text("devices: [{serail: d1}]\n")
    wrong = findings(tmp_path)["inventory"]
    assert (wrong["ok"], "devices.yaml:1: unknown key 'serail'" in str(wrong["words"])) == (False, True)


def test_a_demos_farm_that_is_down_is_named_where_it_is_started_again(tmp_path: Path) -> None:
    def told() -> str:
        return farm("devices", state=tmp_path, cwd=tmp_path, FARM_STATE="").err

    assert "start one with `farm up`, or see `farm demo`" in told()
    with serve(tmp_path / ".farm" / "demo") as served:
        said = served.settings.server_file.read_text()
    served.settings.server_file.unlink()
    assert "start it again with `farm up --state .farm/demo`" in told()
    served.settings.server_file.write_text(said)  # it was killed, and could not take it back
    assert "no farm answers" in told()
    assert "start it again with `farm up --state .farm/demo`" in told()
    served.settings.server_file.unlink()
    (tmp_path / ".farm" / "farm.sqlite").touch()  # a farm of one's own beside it
    assert "start one with `farm up`, or the demo again with `farm up --state .farm/demo`" in told()


@pytest.fixture
def demo_state(tmp_path: Path) -> Iterator[Path]:
    """Where a demo of a checkout in `tmp_path` keeps its farm; what is up there at the end is stopped."""
    yield tmp_path / ".farm" / "demo"
    farm("down", "--all", state=tmp_path / ".farm" / "demo")


def test_doctor_names_the_farm_that_has_the_port_and_what_ends_it(
    demo_state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo_state.mkdir(parents=True)
    (tmp_path / "devices.yaml").write_text("virtual: false\n")
    up = farm("up", "--detach", "--port", "0", "--inventory", str(tmp_path / "devices.yaml"), state=demo_state)
    assert up.code == 0, up.err
    port = int(str(server_of(demo_state)["url"]).rpartition(":")[2])
    mine = load({}, state=tmp_path / ".farm", port=port)
    found = doctor.port(mine)
    assert not found.ok
    assert (found.words, found.remedy.startswith(f"farm down --all --state {demo_state}")) == (
        f"taken by the farm of {demo_state}", True,
    )  # fmt: skip
    monkeypatch.setattr("farm.cli.demo_parts.ROOT", tmp_path)
    found = doctor.port(mine)
    assert found.ok
    assert found.words.startswith("the demo of this checkout is up there: http://")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        stranger = doctor.port(load({}, state=tmp_path / ".farm", port=other.getsockname()[1]))
    assert (stranger.ok, stranger.words) == (False, "taken by another program")
    down = farm("down", state=tmp_path, cwd=tmp_path, FARM_STATE="")
    assert f"The farm of {demo_state} has stopped" in down.err


def test_a_demo_never_takes_over_a_farm_that_is_up(tmp_path: Path) -> None:
    with serve(tmp_path / "s") as served:
        done = farm("demo", "--once", state=served.settings.state)
        assert done.code == 2
        assert (
            f"a farm is up in {served.settings.state} already, and not a demo to queue a run on: {served.origin}"
            in done.err
        )
        assert farm("devices", state=served.settings.state).code == 0
