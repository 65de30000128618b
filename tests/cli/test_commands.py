"""Commands against a real server: what they print for programs, for people, and when there is nothing yet."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from farm.store import tables as t
from farm.store.people import Scope
from tests.api.rows import an_attempt
from tests.api.test_bundles import bundle_folder, pack_folder
from tests.cli.conftest import Done, farm
from tests.served import Served, serve


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of a farm in which nothing has happened yet."""
    return tmp_path_factory.mktemp("empty")


def run(served: Served, *arguments: str, **env: str) -> Done:
    return farm(*arguments, state=served.settings.state, **env)


def test_an_empty_farm_says_what_to_do_first(tmp_path: Path) -> None:
    with serve(tmp_path) as served:
        for arguments, hint in (
            (["devices"], "farm demo"),
            (["runs"], "farm run"),
            (["bundle", "list"], "farm bundle build"),
        ):
            done = run(served, *arguments)
            assert (done.code, done.out) == (0, ""), arguments
            assert hint in done.err


def test_devices_as_a_table_and_as_json(farm_server: Served) -> None:
    an_attempt(farm_server)
    shown = run(farm_server, "devices")
    assert shown.code == 0
    assert "d1" in shown.out
    listed = run(farm_server, "devices", "--json").json()
    assert [device["facts"]["name"] for device in listed["devices"]] == ["d1"]
    assert run(farm_server, "devices", "--json", "--on", "name=d1").json()["devices"]
    assert not run(farm_server, "devices", "--json", "--on", "name=other").json()["devices"]


def test_a_selector_that_cannot_be_read_is_refused(farm_server: Served) -> None:
    done = run(farm_server, "devices", "--on", "name==")
    assert done.code == 3
    assert "selector" in done.err


def test_runs_and_one_run(farm_server: Served) -> None:
    number, attempt = an_attempt(farm_server, ended=True)
    assert "a run" in run(farm_server, "runs").out
    page = run(farm_server, "runs", "--json", "--state", "ended", "--limit", "1").json()
    assert [entry["id"] for entry in page["runs"]] == [number]
    shown = run(farm_server, "show", str(number))
    assert (shown.code, "● passed" in shown.out, "d1" in shown.out) == (0, True, True)
    assert run(farm_server, "show", str(number), "--json").json()["jobs"][0]["attempts"][0]["id"] == attempt


def test_a_run_that_is_not_there_is_refused(farm_server: Served) -> None:
    for arguments in (["show", "9999"], ["cancel", "9999"], ["logs", "9999"], ["logs", "a9999"]):
        done = run(farm_server, *arguments)
        assert (done.code, done.out) == (3, ""), arguments
        assert "Traceback" not in done.err


def test_logs_of_a_run_of_its_device_and_of_an_attempt(farm_server: Served) -> None:
    number, attempt = an_attempt(farm_server, ended=True)
    folder = farm_server.settings.state / "attempts" / str(attempt)
    folder.mkdir(parents=True)
    (folder / "runner.log").write_text("hello from the runner\n")
    for target in (str(number), f"{number}:d1", f"a{attempt}"):
        assert run(farm_server, "logs", target).out == "hello from the runner\n"
    assert run(farm_server, "logs", str(number), "--tail", "7").out == "runner\n"
    done = run(farm_server, "logs", f"{number}:d2")
    assert done.code == 3
    assert "no attempt on 'd2'" in done.err


def test_following_a_log_ends_with_the_attempt(farm_server: Served) -> None:
    number, attempt = an_attempt(farm_server)
    folder = farm_server.settings.state / "attempts" / str(attempt)
    folder.mkdir(parents=True)
    (folder / "runner.log").write_text("the only line\n")
    with farm_server.farm.db.session() as session:
        row = session.get(t.Attempt, attempt)
        assert row is not None
        row.ended_at = farm_server.farm.db.now()
    assert run(farm_server, "logs", "-f", str(number)).out == "the only line\n"


def test_cancel_marks_the_run(farm_server: Served) -> None:
    number, _ = an_attempt(farm_server)
    assert run(farm_server, "cancel", str(number)).code == 0
    with farm_server.farm.db.read() as session:
        row = session.get(t.Run, number)
        assert row is not None
        assert row.cancel_by == "admin"


def test_a_bundle_is_checked_built_and_listed(farm_server: Served, tmp_path: Path) -> None:
    folder = str(bundle_folder(tmp_path / "b", "from-the-command-line"))
    checked = run(farm_server, "bundle", "check", folder)
    assert checked.code == 0
    built = run(farm_server, "bundle", "build", folder, "--json").json()
    assert checked.out.strip() == built["hash"]
    assert built["hash"] in [row["hash"] for row in run(farm_server, "bundle", "list", "--json").json()["bundles"]]
    assert "from-the-command-line" in run(farm_server, "bundle", "list").out


def test_a_folder_that_is_no_bundle_is_refused_in_words(farm_server: Served, tmp_path: Path) -> None:
    done = run(farm_server, "bundle", "check", str(tmp_path))
    assert (done.code, "has no bundle.yaml" in done.err) == (3, True)
    folder = bundle_folder(tmp_path / "b")
    (folder / "bundle.yaml").write_text("format: 1\nname: x\nadaptor: events\n")
    done = run(farm_server, "bundle", "check", str(folder))
    assert done.code == 3
    assert "bundle.yaml" in done.err
    assert "adapter" in done.err


def test_an_executable_of_another_abi_is_refused_before_anything_is_sent(farm_server: Served, tmp_path: Path) -> None:
    folder = bundle_folder(tmp_path / "b", "wrong-abi")
    arm64 = b"\x7fELF\x02\x01\x01" + b"\0" * 11 + (183).to_bytes(2, "little") + b"\0" * 44
    (folder / "bin" / "engine").write_bytes(arm64)
    for command in ("check", "build"):
        done = run(farm_server, "bundle", command, str(folder))
        assert done.code == 3
        assert "declared for x86_64 but built for arm64-v8a" in done.err


def test_an_engine_that_may_not_be_started_is_refused_with_what_to_type(farm_server: Served, tmp_path: Path) -> None:
    folder = bundle_folder(tmp_path / "b", "not-executable")
    (folder / "bin" / "engine").chmod(0o644)
    for command in ("check", "build"):
        done = run(farm_server, "bundle", command, str(folder))
        assert done.code == 3
        assert "bin/engine is not executable: chmod +x bin/engine" in done.err


def test_a_script_that_is_declared_as_a_program_is_refused(farm_server: Served, tmp_path: Path) -> None:
    folder = bundle_folder(tmp_path / "b", "a-script")
    text = (folder / "bundle.yaml").read_text().replace("x86_64", "arm64-v8a").replace("scripts: [engine]\n", "")
    (folder / "bundle.yaml").write_text(text)
    done = run(farm_server, "bundle", "check", str(folder))
    assert done.code == 3
    assert "bin/engine is a script, declared as a program for arm64-v8a" in done.err
    (folder / "bundle.yaml").write_text(text.replace("models:", "scripts: [engine]\nmodels:").replace("tiny: ", "a: "))
    assert "2 files" in run(farm_server, "bundle", "check", str(folder)).err


def test_a_bundle_for_another_abi_than_the_devices_is_refused_before_it_is_sent(
    farm_server: Served, tmp_path: Path
) -> None:
    an_attempt(farm_server)
    folder = bundle_folder(tmp_path / "b", "for-other-phones", os.urandom(1000))
    text = (folder / "bundle.yaml").read_text()
    (folder / "bundle.yaml").write_text(text.replace("x86_64", "arm64-v8a"))
    done = run(farm_server, "run", str(folder), "--suite", "smoke", "--pack", "p", "--no-wait")
    assert done.code == 3, done.err
    assert "bundle for-other-phones has files for arm64-v8a and none for" in done.err
    assert "Sending" not in done.err
    assert "for-other-phones" not in run(farm_server, "bundle", "list").out


def test_a_suite_pack_is_sent_and_listed(farm_server: Served, tmp_path: Path) -> None:
    made = run(farm_server, "suite", "pack", str(pack_folder(tmp_path / "p")), "--json").json()
    assert made["name"] == "mine"
    assert made["hash"] in [row["hash"] for row in run(farm_server, "suite", "list", "--json").json()["packs"]]


def test_a_run_that_is_refused_says_why_and_exits_with_3(farm_server: Served) -> None:
    an_attempt(farm_server)
    done = run(farm_server, "run", "no-such-bundle", "--suite", "smoke")
    assert (done.code, done.out) == (3, "")
    assert "no-such-bundle" in done.err


def test_a_selector_that_matches_nothing_names_the_nearest_device(farm_server: Served) -> None:
    an_attempt(farm_server)
    done = run(farm_server, "run", "b", "--suite", "smoke", "--pack", "p", "--on", "name=d2")
    assert done.code == 3
    assert "d1" in done.err


def test_a_wait_that_expires_exits_with_4_and_the_run_goes_on(farm_server: Served) -> None:
    an_attempt(farm_server)
    with farm_server.farm.db.session() as session:
        device = session.get(t.Device, 1)
        assert device is not None
        device.labels = {"abi": "x86_64"}
    arguments = ["run", "b", "--suite", "smoke", "--pack", "p", "--on", "name=d1"]
    done = run(farm_server, *arguments, "--timeout", "0.5")
    assert done.code == 4, done.err
    assert "it goes on" in done.err
    queued = run(farm_server, *arguments, "--no-wait", "--json").json()
    assert run(farm_server, "show", str(queued["id"]), "--json").json()["run"]["state"] == "queued"


def test_a_variable_that_is_none_is_refused(farm_server: Served) -> None:
    done = run(farm_server, "run", "b", "--suite", "smoke", "--env", "nonsense")
    assert done.code == 3
    assert "KEY=VALUE" in done.err


def test_a_login_link_is_printed_that_works_once(farm_server: Served) -> None:
    link = run(farm_server, "login").out.strip()
    assert link.startswith(farm_server.origin + "/login/once/")
    assert farm_server.client.get(link).headers["location"] == "/"
    assert farm_server.client.get(link).headers["location"] == "/login?error=expired-link"
    farm_server.client.cookies.clear()


def test_a_token_that_may_only_read_is_told_so(farm_server: Served) -> None:
    token = farm_server.new_token(Scope.READ)
    env = {"FARM_URL": farm_server.origin, "FARM_TOKEN": token}
    assert run(farm_server, "runs", **env).code == 0
    done = run(farm_server, "cancel", "1", **env)
    assert done.code == 3
    assert "lacks the scope 'submit'" in done.err


def test_what_a_stranger_wrote_does_not_steer_the_terminal(farm_server: Served) -> None:
    number, _ = an_attempt(farm_server, ended=True)
    with farm_server.farm.db.session() as session:
        row = session.get(t.Run, number)
        assert row is not None
        row.title = "evil \x1b[2J\x1b]0;title\x07 [bold]markup[/bold]"
    for arguments in (["runs"], ["show", str(number)]):
        out = run(farm_server, *arguments).out
        assert "\x1b" not in out
        assert "\x07" not in out
    assert "[bold]markup" in run(farm_server, "show", str(number)).out


def test_the_doctor_of_a_device_that_cannot_be_asked_says_so_in_one_line(farm_server: Served, tmp_path: Path) -> None:
    an_attempt(farm_server)
    asked = ("doctor", "--device", "d1", "--bundle", str(tmp_path / "none"))

    def put(connection: str, address: str | None) -> Done:
        with farm_server.farm.db.session() as session:
            row = session.get_one(t.Device, 1)
            row.connection, row.address = connection, address
        return run(farm_server, *asked)

    for connection, address in (("gone", "127.0.0.1:5555"), ("gone", None), ("device", None)):
        done = put(connection, address)
        assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 2), done.err
        assert "d1 cannot be asked" in done.err
    done = put("device", "127.0.0.1:5555")
    assert "there is no bundle" in done.err, done.err  # its address is known: the bundle is looked for next
