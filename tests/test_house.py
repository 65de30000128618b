"""The rules of the house that no linter knows: sizes, words that must not appear, what the documents promise.

Each rule is a function over text, tried here on a text that breaks it too.
"""

from __future__ import annotations

import ast
import graphlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("farm", "runner", "virtual", "dashboard", "engine")
LINES_AT_MOST = 400
#: Modules that may be longer, each with the reason.
LONGER: dict[str, str] = {}
#: Rooms whose modules may know each other's types: the services of one virtual Android share what they serve.
ENTWINED = ("virtual.android.",)
# Joined from pieces, or this file would break its own rule.
FORBIDDEN_WORDS = re.compile(
    "|".join(
        [
            "pypi" + r"\.org",
            "python" + r"hosted\.org",
            "npm" + r"js\.(?:org|com)",
            "deb" + r"\.debian\.org",
            "/work" + r"/(?:main|shared|\.library)",
            "/tmp" + "/brief",
            r"\.\./" + "shared/",
        ]
    )
)


def tracked() -> list[Path]:
    """The files of the project: what git tracks, and is there."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=60).stdout
    paths = [ROOT / name for name in listing.decode().split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def texts(*suffixes: str, under: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    for path in tracked():
        name = name_of(path)
        if (not suffixes or path.suffix in suffixes) and (not under or name.startswith(under)):
            data = path.read_bytes()
            if b"\0" not in data:
                yield name, data.decode(errors="replace")


def imported(source: str) -> set[str]:
    """Full names of every module that a source imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def circle(sources: dict[str, str]) -> list[str]:
    """Modules that import each other in a circle, be it for types alone; the first is named again at the end."""
    uses: dict[str, set[str]] = {}
    for module, source in sources.items():
        found = imported(source)
        # `from package import module` needs the package only in passing.
        passing = {name.rpartition(".")[0] for name in found if name in sources}
        uses[module] = {name for name in found - passing if name in sources} - {module}
    try:
        graphlib.TopologicalSorter(uses).prepare()
    except graphlib.CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def sleeps(source: str) -> list[int]:
    """Lines that call time.sleep, under whatever name it was imported."""
    tree = ast.parse(source)
    aliases = {"time.sleep"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            aliases.update(alias.asname or alias.name for alias in node.names if alias.name == "sleep")
        elif isinstance(node, ast.Import):
            aliases.update(f"{alias.asname}.sleep" for alias in node.names if alias.name == "time" and alias.asname)
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return sorted(call.lineno for call in calls if ast.unparse(call.func) in aliases)


def foreign_loads(page: str) -> list[str]:
    """What a template, style sheet or script would load from another host."""
    host = r"(?:https?:)?//[\w.-]+\.\w"
    return re.findall(
        rf"<(?:script|link|img|iframe|source|video|audio)\b[^>]*?\b(?:src|href)\s*=\s*['\"]?{host}[^>]*>"
        rf"|url\(\s*['\"]?{host}[^)]*\)|@import\s+['\"]{host}[^;]*|\b(?:import|from)\s*\(?['\"]{host}[^'\"]*['\"]",
        page,
    )


def requirement_names(project: dict[str, object]) -> set[str]:
    """Distribution names of the dependencies and of every extra."""
    lines = list(project["dependencies"])  # type: ignore[call-overload]
    for extra in project.get("optional-dependencies", {}).values():  # type: ignore[attr-defined]
        lines += extra
    return {re.split(r"[\s\[<>=!~;]", line)[0] for line in lines}


def test_the_rules_notice_what_breaks_them() -> None:
    assert sleeps("import time\ntime.sleep(1)\n") == [2]
    assert sleeps("from time import sleep as nap\n\nnap(0.1)\n") == [3]
    assert sleeps("import asyncio\nasyncio.sleep(0)\n'time.sleep(1)'\n") == []
    assert foreign_loads('<script defer src="https://cdn.example.com/htmx.js"></script>')
    assert foreign_loads("<link rel=stylesheet href=//cdn.example.com/a.css>")
    assert foreign_loads("a { background: url(https://example.com/a.png) }")
    assert not foreign_loads('<script src="/static/vendor/htmx.min.js"></script> <a href="https://example.com">x</a>')
    assert imported("from farm.store import leases\nimport runner.journal") >= {"farm.store.leases", "runner.journal"}
    assert circle({"a": "from b import c", "b": "import a"})
    assert not circle({"a": "from b import c", "b": "import os"})
    assert FORBIDDEN_WORDS.search("see https://" + "pypi" + ".org/simple")


def test_no_module_is_longer_than_the_house_allows() -> None:
    lengths = {name: text.count("\n") for name, text in texts(".py", ".cpp", ".h", ".hpp", ".js", ".css")}
    too_long = {name: lines for name, lines in lengths.items() if lines > LINES_AT_MOST and name not in LONGER}
    assert not too_long, f"split them (limit {LINES_AT_MOST} lines): {too_long}"
    stale = [name for name in LONGER if lengths.get(name, 0) <= LINES_AT_MOST]
    assert not stale, f"no longer long (or no longer there), take them out of LONGER: {stale}"


def test_no_modules_import_each_other() -> None:
    sources = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): text
        for name, text in texts(".py", under=tuple(f"{room}/" for room in ROOMS))
    }
    found = circle({name: text for name, text in sources.items() if not name.startswith(ENTWINED)})
    assert not found, f"let one of them be given what it needs: {' → '.join(found)}"


def test_no_file_names_a_package_registry_or_a_path_of_one_machine() -> None:
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if FORBIDDEN_WORDS.search(line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-build.lock", "dashboard/package-lock.json"])
def test_a_lock_file_pins_hashes_and_names_no_host(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "sha256:" in text or "sha512-" in text
    assert not re.findall(r"https?://\S+", text)


def test_every_dependency_has_its_line_of_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    scripts = json.loads((ROOT / "dashboard" / "package.json").read_text())
    wanted = requirement_names(project) | set(scripts["dependencies"]) | set(scripts["devDependencies"])
    document = (ROOT / "docs" / "dependencies.md").read_text()
    named = set(re.findall(r"^\|\s*`([^`]+)`", document, re.MULTILINE))
    assert not wanted - named, f"docs/dependencies.md has no line for: {sorted(wanted - named)}"


def test_pages_load_nothing_from_another_host() -> None:
    found = {
        name: loads
        for name, text in texts(".html", ".jinja", ".j2", ".css", ".js", ".svg", under=("dashboard/",))
        if (loads := foreign_loads(text))
    }
    assert not found


def test_the_commands_of_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    commands = set(re.findall(r"^\s*make ([a-z-]+)", readme, re.MULTILINE))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test"} <= commands
    assert commands <= targets


def test_every_room_says_what_it_is() -> None:
    silent = [
        name
        for name, text in texts(".py", under=tuple(f"{room}/" for room in ROOMS))
        if name.endswith("/__init__.py") and not ast.get_docstring(ast.parse(text))
    ]
    assert not silent, f"packages without a docstring: {silent}"
    assert all((ROOT / room / "__init__.py").is_file() for room in ROOMS)


def test_tests_wait_for_conditions_and_never_sleep() -> None:
    found = {
        name: lines
        for name, text in texts(".py", under=("tests/",))
        if name != "tests/waiting.py" and (lines := sleeps(text))
    }
    assert not found, f"use tests.waiting.eventually: {found}"


def test_suites_know_the_runner_alone() -> None:
    others = tuple(f"{room}." for room in ROOMS if room != "runner")
    found = {
        name: wrong
        for name, text in texts(".py", under=("suites/",))
        if (wrong := sorted(module for module in imported(text) if f"{module}.".startswith(others)))
    }
    assert not found


@pytest.mark.skipif(not (ROOT / "farm/cli/main.py").exists(), reason="the command line is not there yet")
@pytest.mark.parametrize("words", [["--help"], ["devices", "--help"], ["run", "--help"]])
def test_the_command_line_starts_without_the_slow_libraries(words: list[str]) -> None:
    start = "import sys; from farm.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", start, *words],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    modules = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "farm.cli" in modules
    slow = {"httpx", "pydantic", "sqlalchemy", "fastapi", "dbos", "adbutils", "numpy"}
    assert not {module for module in modules if module.split(".")[0] in slow}
