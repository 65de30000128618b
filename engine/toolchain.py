"""Finds what compiles: the system's compiler, CMake and Ninja, or the same from Python wheels."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REMEDY = (
    "Install a C++ compiler, cmake and ninja (Debian: apt-get install g++ cmake ninja-build), "
    "or the wheels: pip install 'device-farm[build]'"
)
CHOICE = "FARM_ENGINE_TOOLCHAIN"
MUSL_TARGETS = {"x86_64": "x86_64-linux-musl"}


class ToolchainError(RuntimeError):
    """Nothing here can compile; the message names the remedy."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Commands to build with."""

    name: str  # "system" or "wheels"
    cc: str
    cxx: str
    ar: str | None  # None: CMake's own choice
    ranlib: str | None
    cmake: str
    ninja: str | None  # None: CMake's default generator (make)

    def cmake_arguments(self) -> list[str]:
        """What CMake has to be told."""
        arguments = [f"-DCMAKE_C_COMPILER={self.cc}", f"-DCMAKE_CXX_COMPILER={self.cxx}"]
        if self.ninja:
            arguments += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={self.ninja}"]
        if self.ar and self.ranlib:
            arguments += [f"-DCMAKE_AR={self.ar}", f"-DCMAKE_RANLIB={self.ranlib}"]
        return arguments

    def version(self) -> str:
        """First line of the compiler's own version text."""
        done = subprocess.run([self.cxx, "--version"], capture_output=True, text=True, timeout=120, check=False)
        return done.stdout.splitlines()[0] if done.stdout else "unknown"


def _tool(name: str) -> str | None:
    """A program on the path, or the one that a wheel put beside this Python."""
    beside = Path(sys.executable).parent / name
    return shutil.which(name) or (str(beside) if os.access(beside, os.X_OK) else None)


def _wrapper(folder: Path, name: str, *words: str) -> str:
    """A tiny program `name` that calls zig with some arguments first: CMake wants one word for a compiler."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    text = f'#!/bin/sh\nexec {shlex.join([sys.executable, "-m", "ziglang", *words])} "$@"\n'
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return str(path)


def _from_system() -> Toolchain | None:
    for cc, cxx in (("cc", "c++"), ("gcc", "g++"), ("clang", "clang++")):
        cmake = _tool("cmake")
        c_path, cxx_path = shutil.which(cc), shutil.which(cxx)
        ninja = _tool("ninja")
        if c_path and cxx_path and cmake and (ninja or shutil.which("make")):
            return Toolchain("system", c_path, cxx_path, None, None, cmake, ninja)
    return None


def _from_wheels(abi: str, wrappers: Path) -> Toolchain | None:
    cmake, ninja = _tool("cmake"), _tool("ninja")
    if importlib.util.find_spec("ziglang") is None or not cmake or not ninja or abi not in MUSL_TARGETS:
        return None
    target = ("-target", MUSL_TARGETS[abi])
    return Toolchain(
        name="wheels",
        cc=_wrapper(wrappers, "zig-cc", "cc", *target),
        cxx=_wrapper(wrappers, "zig-c++", "c++", *target),
        ar=_wrapper(wrappers, "zig-ar", "ar"),
        ranlib=_wrapper(wrappers, "zig-ranlib", "ranlib"),
        cmake=cmake,
        ninja=ninja,
    )


def find_toolchain(abi: str, wrappers: Path) -> Toolchain:
    """The system's tools where they are complete, else the wheels. `FARM_ENGINE_TOOLCHAIN` (system, wheels) decides."""
    choice = os.environ.get(CHOICE, "")
    if choice not in ("", "system", "wheels"):
        raise ToolchainError(f"{CHOICE}={choice}: only 'system' or 'wheels'")
    found = None
    if choice != "wheels":
        found = _from_system()
    if found is None and choice != "system":
        found = _from_wheels(abi, wrappers)
    if found is None:
        raise ToolchainError(f"nothing here can compile the engine ({choice or 'system and wheels'} tried). {REMEDY}")
    return found
