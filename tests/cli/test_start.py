"""The command line starts light: what it does not need it does not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from farm.cli.main import COMMANDS
from tests.cli.conftest import farm

HEAVY = {
    "httpx", "pydantic", "sqlalchemy", "fastapi", "starlette", "uvicorn", "dbos", "adbutils", "requests", "jinja2",
    "rich", "yaml", "alembic", "fsspec", "pytest", "numpy", "farm.store", "farm.adb", "farm.work", "farm.api",
    "farm.app", "runner", "virtual", "dashboard", "engine",
}  # fmt: skip


def modules_after(tmp_path: Path, *arguments: str) -> set[str]:
    """What `farm …` has imported when it ends."""
    code = (
        "import sys\nsys.argv[1:] = sys.argv[1:]\n"
        "from farm.cli.main import main\n"
        "try:\n    main()\nfinally:\n    print('MODULES', *sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={"FARM_STATE": str(tmp_path), "PATH": ""},
    )
    return set(done.stderr.rpartition("MODULES ")[2].split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["--help"],
        ["devices"],
        ["runs", "--json"],
        ["run", "bundle", "--suite", "smoke"],
        ["show", "1"],
        ["logs", "1"],
        ["cancel", "1"],
        ["login"],
        ["whoami"],
        ["tokens", "list"],
        ["users"],
        ["teams", "list"],
        ["down"],
        ["bundle", "list"],
        ["suite", "list"],
    ],
)
def test_the_path_of_a_client_imports_nothing_heavy(tmp_path: Path, arguments: list[str]) -> None:
    modules = modules_after(tmp_path, *arguments)
    assert "farm.cli.main" in modules
    assert not {name for name in modules if name in HEAVY or name.partition(".")[0] in HEAVY}


def test_the_help_lists_every_command_without_importing_one(tmp_path: Path) -> None:
    modules = modules_after(tmp_path, "--help")
    assert not [name for name in COMMANDS if f"farm.cli.{name}" in modules]
    shown = farm("--help", state=tmp_path)
    assert shown.code == 0
    assert all(f"  {name} " in shown.out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(tmp_path: Path, name: str) -> None:
    shown = farm(name, "--help", state=tmp_path)
    assert shown.code == 0
    assert shown.out.startswith(f"Usage: farm {name}")


def test_the_package_is_the_command_too(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "farm", "devcies"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "did you mean devices" in done.stderr


def test_the_version_is_told(tmp_path: Path) -> None:
    assert farm("--version", state=tmp_path).out.startswith("farm 0.")


def test_a_mistyped_command_is_refused_with_the_one_that_was_meant(tmp_path: Path) -> None:
    done = farm("devcies", state=tmp_path)
    assert done.code == 3
    assert "did you mean devices" in done.err


@pytest.mark.parametrize(
    "arguments", [["show", "x"], ["run"], ["run", "b"], ["--nonsense"], ["logs", "1", "--which", "x"]]
)
def test_wrong_use_is_refused_with_3(tmp_path: Path, arguments: list[str]) -> None:
    done = farm(*arguments, state=tmp_path)
    assert (done.code, done.out) == (3, "")
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "arguments", [["devices"], ["runs"], ["show", "1"], ["run", "b", "--suite", "smoke"], ["cancel", "1"]]
)
def test_without_a_farm_the_next_command_is_named(tmp_path: Path, arguments: list[str]) -> None:
    done = farm(*arguments, state=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "farm up" in done.err
    assert len(done.err.splitlines()) == 2


def test_a_server_that_does_not_answer_is_told_in_one_line(tmp_path: Path) -> None:
    done = farm("devices", state=tmp_path, FARM_URL="http://127.0.0.1:1", FARM_TOKEN="x")
    assert done.code == 2
    assert "no farm answers at http://127.0.0.1:1" in done.err


@pytest.mark.parametrize("url", ["farm", "ftp://x", "http://x:y", "http://"])
def test_a_url_that_is_none_is_refused(tmp_path: Path, url: str) -> None:
    done = farm("devices", state=tmp_path, FARM_URL=url, FARM_TOKEN="x")
    assert done.code == 3
    assert "FARM_URL" in done.err


def test_a_port_that_is_none_is_named(tmp_path: Path) -> None:
    done = farm("devices", state=tmp_path, FARM_PORT="eighty")
    assert done.code == 3
    assert "FARM_PORT is 'eighty'" in done.err
