"""`farm doctor`: what this machine has for being a farm's host, what it lacks, and the command that mends it.

Each check is a function that returns one `Finding`; a finding that is `needed` and not `ok` makes the exit code 2.
Nothing is changed and nothing is started but the tools themselves, to see that they answer.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import click

from farm.cli.client import here
from farm.cli.finding import Finding
from farm.cli.output import cell, console, print_json
from farm.domain.outcomes import ExitCode
from farm.domain.words import size
from farm.settings import Settings, load, port_is_free

#: Space for a few bundles with models, their artifacts and logs.
WANTED_BYTES = 5_000_000_000
_TOOL_S = 20


@click.command("doctor")
@click.option("--device", metavar="NAME", help="Whether --bundle can work on this device now.")
@click.option("--bundle", metavar="BUNDLE", help="A folder with a bundle.yaml, or a bundle's name or hash.")
@click.option("--state", type=click.Path(path_type=Path), help="State folder.  [default: as other commands find it]")
@click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")
def command(device: str | None, bundle: str | None, state: Path | None, as_json: bool) -> int:
    """What this machine has and lacks, with remedies. With --device and --bundle: can that bundle work there now?"""
    if device or bundle:
        if not (device and bundle):
            raise click.UsageError("--device and --bundle go together")
        from farm.cli import doctor_device

        return doctor_device.examine(device, bundle, as_json, load(state=state) if state else here())
    findings = examine(load(state=state) if state else here())
    if as_json:
        print_json({"ok": _healthy(findings), "findings": [dataclasses.asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            _print(finding)
    return 0 if _healthy(findings) else int(ExitCode.FARM_TROUBLE)


def _healthy(findings: list[Finding]) -> bool:
    return all(finding.ok for finding in findings if finding.needed)


def _print(finding: Finding) -> None:
    mark, style = ("✓", "green") if finding.ok else ("✗", "red") if finding.needed else ("–", "yellow")
    console().print(cell(mark, style), cell(f"{finding.name}: {finding.words}"))
    if not finding.ok and finding.remedy:
        console().print(cell(f"    {finding.remedy}", "bold"))


def examine(settings: Settings) -> list[Finding]:
    """Every check, in the order in which things are needed."""
    from farm.cli import doctor_farm

    return [
        python(),
        adb(),
        desk_adb(),
        system_tool("bwrap", "bubblewrap", "sandbox of suites and virtual devices"),
        sandbox(),
        system_tool("mksh", "mksh", "shell of virtual devices", needed=False),
        system_tool("toybox", "toybox", "tools of virtual devices", needed=False),
        compiler(),
        build_tool("cmake"),
        build_tool("ninja"),
        browser_libraries(),
        disk(settings.state),
        writable(settings.state),
        port(settings),
        limiter(),
        *doctor_farm.findings(settings),
    ]


def python() -> Finding:
    return Finding(
        "python",
        sys.version_info >= (3, 11),
        platform.python_version(),
        "install Python 3.11 or newer, then `make setup`",
    )


def adb() -> Finding:
    """The adb that adbutils brings: the farm uses no other."""
    spec = find_spec("adbutils")
    path = Path(spec.origin).parent / "binaries" / "adb" if spec and spec.origin else None
    if path is None or not path.exists():
        return Finding("adb", False, "adbutils' own adb is missing", "make setup")
    return _answers("adb", [str(path), "version"], "make setup", line_with="Version")


def desk_adb() -> Finding:
    """Another adb server would hold the USB devices: two servers cannot share one."""
    name = "desk adb server"
    if port_is_free(5037):
        return Finding(name, True, "none runs on port 5037", needed=False)
    return Finding(
        name,
        False,
        "one runs on port 5037 and holds the USB devices that it sees",
        "stop it while the farm runs: adb kill-server (virtual devices are not affected)",
        needed=False,
    )


def system_tool(command: str, package: str, what: str, *, needed: bool = True) -> Finding:
    found = shutil.which(command)
    return Finding(command, found is not None, found or f"missing ({what})", _install(package), needed)


def sandbox() -> Finding:
    """Whether bubblewrap may make namespaces here (some kernels and containers forbid it)."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return Finding("sandbox", False, "no bwrap to try", _install("bubblewrap"))
    line = [bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-net", "--unshare-pid", "true"]
    finding = _answers(
        "sandbox", line, "sysctl -w kernel.unprivileged_userns_clone=1  (or run in a privileged container)"
    )
    return dataclasses.replace(finding, words="namespaces can be made") if finding.ok else finding


def compiler() -> Finding:
    found = next((path for path in map(shutil.which, ("c++", "g++", "clang++")) if path), None)
    wheel = find_spec("ziglang") is not None
    words = found or ("ziglang wheel" if wheel else "none")
    return Finding("compiler", bool(found or wheel), words, "make setup  (brings one as a wheel)", needed=False)


def build_tool(name: str) -> Finding:
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    return Finding(name, found is not None, found or "missing", "make setup  (brings it as a wheel)", needed=False)


def browser_libraries() -> Finding:
    spec = find_spec("dashboard")
    folder = Path(spec.origin).parent / "static" / "vendor" if spec and spec.origin else None
    ok = folder is not None and folder.is_dir() and any(folder.iterdir())
    words = "present" if ok else "missing: pages work, but do not update by themselves"
    return Finding("browser libraries", ok, words, "make setup", needed=False)


def disk(state: Path) -> Finding:
    where = next(path for path in (state, *state.parents) if path.exists())
    free = shutil.disk_usage(where).free
    return Finding(
        "disk", free >= WANTED_BYTES, f"{size(free)} free at {where}", f"free at least {size(WANTED_BYTES)} there",
        needed=free < WANTED_BYTES // 10,
    )  # fmt: skip


def writable(state: Path) -> Finding:
    where = next(path for path in (state, *state.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=where):
            return Finding("state folder", True, str(state))
    except OSError as error:
        return Finding("state folder", False, f"{where}: {error.strerror}", "set FARM_STATE to a folder of yours")


def port(settings: Settings) -> Finding:
    from farm.cli.demo_parts import ROOT
    from farm.cli.processes import farm_at, running_server

    name = f"port {settings.port}"
    server = running_server(settings)
    if server is not None:
        return Finding(name, True, f"the farm runs already: {server['url']}")
    if settings.port == 0 or port_is_free(settings.port, settings.host):
        return Finding(name, True, "free")
    found = farm_at(settings.port)
    if found is None:
        return Finding(name, False, "taken by another program", "farm up --port 0  (any free one)")
    state, end = found[0], f"farm down --all --state {found[0]}"
    if state.is_relative_to(ROOT):
        whose = "demo" if state.name == "demo" else f"farm in {state.relative_to(ROOT)}"
        return Finding(name, True, f"the {whose} of this checkout is up there: {found[1]['url']}; `{end}` ends it")
    return Finding(name, False, f"taken by the farm of {state}", f"{end}, or beside it: farm up --port 0")


def limiter() -> Finding:
    """What slows virtual devices down when they throttle; the fallback is coarser, not wrong."""
    groups = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/cpu,cpuacct"), Path("/sys/fs/cgroup"))
    ok = any(os.access(group / "cgroup.procs", os.W_OK) for group in groups)
    words = "cgroups are writable: CFS quota" if ok else "cgroups are read-only: stop and continue, coarser"
    return Finding("throttling of virtual devices", ok, words, "run as root to have CFS quota", needed=False)


def _install(package: str) -> str:
    sudo = "" if os.geteuid() == 0 else "sudo "
    return (
        f"{sudo}apt-get install {package}"
        if shutil.which("apt-get")
        else f"install {package} with your package manager"
    )


def _answers(name: str, line: list[str], remedy: str, line_with: str = "") -> Finding:
    run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run
    try:
        done = run(line, capture_output=True, text=True, timeout=_TOOL_S, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(name, False, f"{line[0]} does not start: {error}", remedy)
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    words = next((text for text in lines if line_with in text), lines[0] if lines else f"exit code {done.returncode}")
    return Finding(name, done.returncode == 0, words, remedy)
