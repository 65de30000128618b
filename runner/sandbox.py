"""The sandbox in which a suite pack runs: what it sees, and how it is started.

bubblewrap gives it user, process, network, IPC and host-name spaces of its own. Inside there is

    /farm/pack           the suite pack, read-only
    /farm/work           the attempt's folder: working directory, temporary files, artifacts/; the only place to write
    /farm/attempt.json   what the attempt is about, without the address of the real adb server
    /farm/lens.sock      the adb server that shows the leased devices alone
    /farm/runner.sock    the supervisor's ear

and, read-only, the system's programs, Python's environment and our own packages. No network, no home, no /etc but the
few files that the C library looks for, an environment of six variables, no capability.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

PACK = "/farm/pack"
WORK = "/farm/work"
SPEC = "/farm/attempt.json"
LENS = "/farm/lens.sock"
EAR = "/farm/runner.sock"
#: The port on which the relay offers the lens inside: adb's usual one, so that stock tools find it.
ADB_PORT = 5037
TMP_BYTES = 256 << 20

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime")
_SWITCHES = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/scsi", "/proc/acpi")
_PASSWD = "root:x:0:0::/nonexistent:/bin/false\nfarm:x:1000:1000:an attempt:/farm/work:/bin/sh\n"
_GROUP = "root:x:0:\nfarm:x:1000:\n"


class SandboxMissing(Exception):
    """There is no sandbox to be had on this machine; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What goes into the sandbox, as paths of the host."""

    folder: Path  # the attempt's
    sockets: Path  # where lens.sock and runner.sock are
    pack: Path
    python: tuple[Path, ...]  # environment, base installation, our packages: shown at their own places
    system: tuple[tuple[str, str], ...]  # (path, target of the link, or "" for a folder)
    etc: tuple[str, ...]
    switches: tuple[str, ...]  # below /proc: what root could change the kernel with

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def inside(self) -> Path:
        return self.folder / "inside"


def layout(folder: Path, sockets: Path, pack: Path) -> Layout:
    """Look at this machine: where Python, our packages and the system's programs are."""
    system = []
    for path in _SYSTEM:
        if os.path.islink(path):
            system.append((path, os.readlink(path)))
        elif os.path.isdir(path):
            system.append((path, ""))
    shown = [path for path, link in system if not link]
    python = [path for path in python_paths() if not any(path.is_relative_to(root) for root in shown)]
    etc, switches = (tuple(path for path in paths if os.path.exists(path)) for paths in (_ETC, _SWITCHES))
    return Layout(folder, sockets, pack.resolve(), tuple(python), tuple(system), etc, switches)


def python_paths() -> list[Path]:
    """The folders that this interpreter needs: environment, base installation, `farm` and `runner`."""
    found = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.base_exec_prefix)]
    found += [Path(os.path.realpath(sys.executable)).parent.parent]
    for name in ("farm", "runner"):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            found.append(Path(next(iter(spec.submodule_search_locations))))
    outermost: list[Path] = []
    for path in sorted({path for path in found if path != Path("/")}, key=lambda p: len(p.parts)):
        if not any(path.is_relative_to(root) for root in outermost):
            outermost.append(path)
    return outermost


def write_inside(where: Layout, spec: dict[str, object]) -> None:
    """The files that the sandbox gets instead of the host's."""
    where.inside.mkdir(parents=True, exist_ok=True)
    (where.work / "artifacts").mkdir(parents=True, exist_ok=True)
    (where.work / "tmp").mkdir(exist_ok=True)
    (where.inside / "attempt.json").write_text(json.dumps(spec))
    (where.inside / "passwd").write_text(_PASSWD)
    (where.inside / "group").write_text(_GROUP)
    (where.inside / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    (where.inside / "hosts").write_text("127.0.0.1 localhost attempt\n::1 localhost\n")


def argv(where: Layout, command: Sequence[str], *, block_fd: int, info_fd: int, extras: frozenset[str]) -> list[str]:
    """bubblewrap's command line for `command` (pure). `extras`: optional features that this bubblewrap has."""
    out = ["bwrap", "--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc"]
    out += ["--unshare-uts", "--unshare-cgroup-try", "--hostname", "attempt", "--uid", "1000", "--gid", "1000"]
    out += ["--cap-drop", "ALL", "--block-fd", str(block_fd), "--info-fd", str(info_fd), "--clearenv"]
    if "--disable-userns" in extras:
        out.append("--disable-userns")
    for name, value in environment().items():
        out += ["--setenv", name, value]
    for path, link in where.system:
        out += ["--symlink", link, path] if link else ["--ro-bind", path, path]
    for etc in where.etc:
        out += ["--ro-bind", etc, etc]
    for name in ("passwd", "group", "nsswitch.conf", "hosts"):
        out += ["--ro-bind", str(where.inside / name), f"/etc/{name}"]
    size = ["--size", str(TMP_BYTES)] if "--size" in extras else []
    out += ["--proc", "/proc", *_covers(where), "--dev", "/dev", *size, "--tmpfs", "/tmp"]
    for python in where.python:
        out += ["--ro-bind", str(python), str(python)]
    out += ["--ro-bind", str(where.pack), PACK, "--bind", str(where.work), WORK]
    out += ["--ro-bind", str(where.inside / "attempt.json"), SPEC]
    out += ["--bind", str(where.sockets / "lens.sock"), LENS, "--bind", str(where.sockets / "runner.sock"), EAR]
    return [*out, "--remount-ro", "/", "--chdir", WORK, "--", *command]


def _covers(where: Layout) -> list[str]:
    """The kernel's switches, read-only: they ask for the caller's user id on the host, which is root where we are."""
    return [word for path in where.switches for word in ("--ro-bind", path, path)]


def environment() -> dict[str, str]:
    """The whole environment inside."""
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": WORK,
        "TMPDIR": f"{WORK}/tmp",
        "LANG": "C.UTF-8",
        "FARM_ATTEMPT": SPEC,
        "ANDROID_ADB_SERVER_PORT": str(ADB_PORT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }


@cache
def features() -> frozenset[str]:
    """The optional switches that this machine's bubblewrap knows. Raises SandboxMissing."""
    if shutil.which("bwrap") is None:
        raise SandboxMissing(
            "bubblewrap is not installed: suites are strangers' code and run in a sandbox only. "
            "On Debian or Ubuntu: apt-get install bubblewrap"
        )
    shown = subprocess.run(["bwrap", "--help"], capture_output=True, text=True, timeout=30, check=False)
    text = shown.stdout + shown.stderr
    return frozenset(switch for switch in ("--disable-userns", "--size") if re.search(rf"^\s*{switch}\b", text, re.M))


@dataclass(frozen=True, slots=True)
class Started:
    """A sandbox that stands; its command waits until `go` is called. `child`: process 1 inside, as the host sees it."""

    process: subprocess.Popen[bytes]
    child: int
    release_fd: int

    @property
    def stdout(self) -> IO[bytes]:
        """What the inside prints, both streams."""
        assert self.process.stdout is not None, "started with a pipe"
        return self.process.stdout

    def go(self) -> None:
        os.write(self.release_fd, b"x")
        os.close(self.release_fd)


def start(where: Layout, command: Sequence[str]) -> Started:
    """Start bubblewrap; stdout and stderr of the inside come through `process.stdout`. Raises SandboxMissing."""
    extras = features()
    block_read, block_write = os.pipe()
    info_read, info_write = os.pipe()
    try:
        line = argv(where, command, block_fd=block_read, info_fd=info_write, extras=extras)
        process = subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(block_read, info_write),
            start_new_session=True,
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )
    finally:
        os.close(block_read)
        os.close(info_write)
    with os.fdopen(info_read, "rb") as info:
        answer = info.read(65536)
    try:
        child = int(json.loads(answer)["child-pid"])
    except (ValueError, KeyError, TypeError):
        os.close(block_write)
        said = process.communicate(timeout=30)[0].decode(errors="replace").strip()[-2000:]
        raise SandboxMissing(f"bubblewrap could not make a sandbox: {said or 'it said nothing'}") from None
    return Started(process, child, block_write)
