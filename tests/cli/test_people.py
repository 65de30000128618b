"""Logging in, tokens, users and teams from the command line, against a real server."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from farm.cli.credentials import Credentials, load_credentials
from farm.cli.errors import CliError
from farm.store.people import Scope
from tests.api.rows import an_attempt
from tests.cli.conftest import Done, farm
from tests.served import Served


def run(served: Served, *arguments: str, **env: str) -> Done:
    return farm(*arguments, state=served.settings.state, cwd=None, timeout=120, **env)


def log_in(served: Served, folder: Path, token: str, *more: str) -> subprocess.CompletedProcess[str]:
    """`farm login --url …` with the token on standard input."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FARM_")}
    return subprocess.run(
        [sys.executable, "-m", "farm.cli.main", "login", "--url", served.origin, "--token", *more],
        input=token + "\n", capture_output=True, text=True, timeout=120, cwd=folder, check=False,
        env=clean | {"FARM_CREDENTIALS": str(folder / "kept.json")},
    )  # fmt: skip


def test_a_token_is_kept_for_its_server_and_readable_by_its_owner_alone(farm_server: Served, tmp_path: Path) -> None:
    token = farm_server.new_token(Scope.READ)
    done = log_in(farm_server, tmp_path, token)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "as tester (team default; read)" in done.stderr
    assert token not in done.stderr
    kept = tmp_path / "kept.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert json.loads(kept.read_text())["tokens"] == {farm_server.origin: token}
    env = {"FARM_STATE": "", "FARM_CREDENTIALS": str(kept)}
    me = farm("whoami", "--json", state=tmp_path, cwd=tmp_path, timeout=120, **env).json()
    assert (me["name"], me["scopes"], me["url"]) == ("tester", ["read"], farm_server.origin)
    named = farm("whoami", state=tmp_path, FARM_URL=farm_server.origin, FARM_CREDENTIALS=str(kept))
    assert "tester" in named.out, "for a server that FARM_URL names as well"


def test_a_token_that_does_not_work_is_not_kept(farm_server: Served, tmp_path: Path) -> None:
    for token in ("farm_" + "x" * 43, "", "a b\x1b[2J", "x" * 400):
        done = log_in(farm_server, tmp_path, token)
        assert done.returncode == 3, token
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "kept.json").exists()


def test_what_is_kept_can_be_forgotten(farm_server: Served, tmp_path: Path) -> None:
    log_in(farm_server, tmp_path, farm_server.new_token(Scope.READ))
    env = {"FARM_CREDENTIALS": str(tmp_path / "kept.json"), "FARM_STATE": ""}
    assert farm("login", "--forget", state=tmp_path, cwd=tmp_path, timeout=120, **env).code == 0
    assert "no token is kept" in farm("login", "--forget", state=tmp_path, cwd=tmp_path, timeout=120, **env).err
    assert "farm up" in farm("whoami", state=tmp_path, cwd=tmp_path, timeout=120, **env).err


def test_logging_in_and_a_link_for_the_browser_in_one(farm_server: Served, tmp_path: Path) -> None:
    done = log_in(farm_server, tmp_path, farm_server.new_token(Scope.READ, Scope.SUBMIT), "--browser")
    assert done.stdout.startswith(farm_server.origin + "/login/once/")


@pytest.mark.parametrize("url", ["farm", "ftp://x", "http://x:y"])
def test_a_url_that_is_none_is_refused_by_its_option(tmp_path: Path, url: str) -> None:
    done = farm("login", "--url", url, state=tmp_path)
    assert done.code == 3
    assert "--url is" in done.err


def test_a_file_of_tokens_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    Credentials(path).keep("http://a", "t")
    assert load_credentials({"FARM_CREDENTIALS": str(path)}).token("http://a") == "t"
    path.chmod(0o644)
    with pytest.raises(CliError, match="can be read by others"):
        load_credentials({"FARM_CREDENTIALS": str(path)})


def test_a_file_that_holds_something_else_is_named(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.touch(0o600)
    for text in ("", "[]", "{}", '{"tokens": 3}', "\x00"):
        path.write_text(text)
        with pytest.raises(CliError, match="no file of tokens"):
            load_credentials({"FARM_CREDENTIALS": str(path)})


def test_tokens_are_made_listed_and_revoked(farm_server: Served) -> None:
    made = run(farm_server, "tokens", "create", "ci", "--scope", "read", "--max-devices", "2", "--days", "7")
    assert made.code == 0, made.err
    secret = made.out.strip()
    assert secret.startswith("farm_")
    me = run(farm_server, "whoami", "--json", FARM_URL=farm_server.origin, FARM_TOKEN=secret).json()
    assert (me["name"], me["scopes"], me["max_devices"]) == ("admin", ["read"], 2)
    listed = run(farm_server, "tokens", "list", "--json").json()["tokens"]
    ident = next(token["id"] for token in listed if token["name"] == "ci")
    assert secret not in run(farm_server, "tokens", "list").out
    assert run(farm_server, "tokens", "revoke", str(ident)).code == 0
    assert run(farm_server, "whoami", FARM_URL=farm_server.origin, FARM_TOKEN=secret).code == 3
    assert run(farm_server, "tokens", "revoke", str(ident)).code == 3


def test_who_gives_more_than_they_have_is_told_what_they_have(farm_server: Served) -> None:
    env = {"FARM_URL": farm_server.origin, "FARM_TOKEN": farm_server.new_token(Scope.READ, Scope.SUBMIT)}
    done = run(farm_server, "tokens", "create", "x", "--scope", "admin", **env)
    assert done.code == 3
    assert "cannot give the scope 'admin'" in done.err
    assert "read, submit" in done.err


def test_users_are_added_changed_and_listed(farm_server: Served) -> None:
    assert run(farm_server, "users", "add", "ann", "--team", "vision", "--role", "operator").code == 0
    assert "exists" not in run(farm_server, "users").out
    shown = run(farm_server, "users")
    assert "ann" in shown.out
    assert "operator" in shown.out
    assert run(farm_server, "users", "add", "ann").code == 3
    done = run(farm_server, "users", "set", "ann", "--role", "viewer", "--disable")
    assert "role viewer" in done.err
    ann = next(u for u in run(farm_server, "users", "list", "--json").json()["users"] if u["name"] == "ann")
    assert (ann["role"], ann["disabled_at"] is not None) == ("viewer", True)
    assert run(farm_server, "users", "set", "ann").code == 3


def test_teams_are_set_keep_what_is_not_named_and_go(farm_server: Served) -> None:
    assert run(farm_server, "teams", "set", "audio", "--weight", "2.5", "--max-devices", "3").code == 0
    assert run(farm_server, "teams", "set", "audio", "--max-waiting", "9").code == 0
    teams = {team["name"]: team for team in run(farm_server, "teams", "list", "--json").json()["teams"]}
    assert (teams["audio"]["weight"], teams["audio"]["max_devices"], teams["audio"]["max_waiting"]) == (2.5, 3, 9)
    run(farm_server, "teams", "set", "audio", "--max-devices", "-1")
    assert "9 waiting" in run(farm_server, "teams").out
    assert run(farm_server, "teams", "remove", "audio").code == 0
    assert run(farm_server, "teams", "remove", "audio").code == 3


def test_runs_are_listed_by_team(farm_server: Served) -> None:
    an_attempt(farm_server)
    assert run(farm_server, "runs", "--team", "default", "--json").json()["runs"]
    assert not run(farm_server, "runs", "--team", "nobodys", "--json").json()["runs"]
    assert "default" in run(farm_server, "runs").out
