"""Builds the reference engine and the device-side tool.

    python -m engine.build [--flavour static-x86_64] [--out build/engine] [--jobs 2] [--json]

Incremental; several builds at once wait for each other. The same sources and compiler give the same bytes.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine import sources, toolchain

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
DEFAULT_OUT = PROJECT / "build" / "engine"
VERSION = "0.1.0"
PROGRAMS = ("farm-engine", "farm-devtool", "farm-app")
BUILD_TIMEOUT_S = 3600


class BuildError(RuntimeError):
    """The build failed; the message holds the compiler's last words."""


@dataclass(frozen=True, slots=True)
class Flavour:
    """One way to build the engine."""

    name: str
    abi: str  # as Android names it
    static: bool
    sanitize: bool
    build_type: str
    flags: str  # for a reader of --describe


FLAVOURS = {
    flavour.name: flavour
    for flavour in (
        Flavour("static-x86_64", "x86_64", True, False, "Release", "static, kernels for x86-64-v3 (AVX2, FMA, F16C)"),
        Flavour("sanitize", "x86_64", False, True, "RelWithDebInfo", "address and undefined behaviour sanitizers"),
    )
}


@dataclass(frozen=True, slots=True)
class Built:
    """What a build left behind."""

    flavour: str
    abi: str
    toolchain: str
    compiler: str
    content: str  # hash over our sources and the pinned ggml
    seconds: float
    programs: dict[str, Path]

    def to_json(self) -> dict[str, object]:
        """For `--json`."""
        files = {
            name: {"path": str(path), "bytes": path.stat().st_size, "sha256": sources.sha256_of(path)}
            for name, path in self.programs.items()
        }
        return {
            "flavour": self.flavour,
            "abi": self.abi,
            "toolchain": self.toolchain,
            "compiler": self.compiler,
            "content": self.content,
            "seconds": round(self.seconds, 1),
            "files": files,
        }


def content_hash(source_identity: str) -> str:
    """Hash over what decides the binary's content, paths relative: the C++ sources, the CMake file, the pinned ggml."""
    digest = hashlib.sha256(source_identity.encode())
    files = [HERE / "CMakeLists.txt", *(p for d in ("common", "src", "devtool", "app") for p in (HERE / d).glob("*"))]
    for path in sorted(files):
        digest.update(f"\0{path.relative_to(HERE)}\0".encode())
        digest.update(path.read_bytes())
    return f"sha256:{digest.hexdigest()}"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One at a time in this folder; others wait. The lock falls with its process."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_tool(command: list[str], cwd: Path, say: sources.Say, hear: sources.Say = lambda _line: None) -> None:
    """Runs a build tool, shows ninja's progress now and then, and keeps its last lines for the error message.

    `hear` gets every line.
    """
    # ggml asks git for a commit; inside our own checkout that would be ours. The binary must not depend on it.
    environment = {**os.environ, "GIT_DIR": os.devnull, "LC_ALL": "C"}
    tail: deque[str] = deque(maxlen=40)
    deadline = time.monotonic() + BUILD_TIMEOUT_S
    said = time.monotonic()
    with subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            tail.append(line.rstrip())
            hear(line)
            now = time.monotonic()
            if line.startswith("[") and now - said > 2:
                say(line.strip()[:100])
                said = now
            if now > deadline:
                process.kill()
                raise BuildError(f"{Path(command[0]).name} took longer than {BUILD_TIMEOUT_S} s and was stopped")
    if process.returncode != 0:
        raise BuildError(f"{' '.join(command)} failed with status {process.returncode}:\n" + "\n".join(tail))


def compile_targets(
    tools: toolchain.Toolchain, folder: Path, jobs: int, targets: Sequence[str], say: sources.Say
) -> None:
    """Compiles in a configured folder, and says so where something is out of date."""
    told = False

    def hear(line: str) -> None:
        nonlocal told
        if not told and " Building " in line:  # ninja's word and make's, once the first object is there
            told = True
            say(f"compiling {', '.join(targets)} with {tools.version()}")

    run_tool([tools.cmake, "--build", str(folder), "-j", str(jobs), "--target", *targets], PROJECT, say, hear)


def build(flavour_name: str, out: Path, jobs: int, say: sources.Say) -> Built:
    """Builds one flavour below `out`. Errors: SourceError, ToolchainError, BuildError."""
    flavour = FLAVOURS[flavour_name]
    begin = time.monotonic()
    with locked(out):  # what all flavours share
        source = sources.ensure(say)
        tools = toolchain.find_toolchain(flavour.abi, out / "toolchain")
    folder = out / f"{flavour.name}-{tools.name}"
    with locked(folder):
        content = content_hash(source.identity)
        configure = [tools.cmake, "-S", str(HERE), "-B", str(folder), *tools.cmake_arguments()]
        configure += [f"-DCMAKE_BUILD_TYPE={flavour.build_type}", f"-DGGML_SOURCE={source.ggml}"]
        configure += [f"-DFARM_FLAVOUR={flavour.name}", f"-DFARM_ABI={flavour.abi}", f"-DFARM_VERSION={VERSION}"]
        configure += [f"-DFARM_CONTENT={content}", f"-DFARM_FLAGS={flavour.flags}"]
        configure += [f"-DFARM_STATIC={'ON' if flavour.static else 'OFF'}"]
        configure += [f"-DFARM_SANITIZE={'ON' if flavour.sanitize else 'OFF'}"]
        run_tool(configure, PROJECT, say)
        compile_targets(tools, folder, jobs, PROGRAMS, say)
    programs = {name: folder / name for name in PROGRAMS}
    return Built(flavour.name, flavour.abi, tools.name, tools.version(), content, time.monotonic() - begin, programs)


def printer(begin: float) -> sources.Say:
    """Progress on standard error, with seconds."""
    return lambda text: print(f"[{time.monotonic() - begin:5.1f} s] {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Command line. Exit 1 with one clear message when the build is not possible."""
    parser = argparse.ArgumentParser(prog="python -m engine.build", description="Build engine and device-side tool.")
    parser.add_argument("--flavour", choices=sorted(FLAVOURS), default="static-x86_64")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="folder for everything that the build makes")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true", help="print what was built as JSON")
    arguments = parser.parse_args()
    try:
        built = build(arguments.flavour, arguments.out.resolve(), arguments.jobs, printer(time.monotonic()))
    except (sources.SourceError, toolchain.ToolchainError, BuildError) as error:
        print(f"engine.build: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps(built.to_json(), indent=1))
    else:
        for name, path in built.programs.items():
            print(f"{name}: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
