"""Installed packages: an APK's manifest, its program, and what was granted. Lives below /data, so it survives a reboot.

A virtual device runs no bytecode. Its APKs have a manifest in plain text and, in place of classes.dex, a program of the
device's ABI that stands for the app's process:

    <manifest package="com.farm.bench">
      <uses-permission android:name="android.permission.WAKE_LOCK"/>
      <instrumentation android:name=".Bench" android:targetPackage="com.farm.bench"/>
      <meta-data android:name="farm.virtual.program" android:value="lib/x86_64/libfarmapp.so"/>
    </manifest>
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

FILE = Path("/data/system/packages.json")
APPS = Path("/data/app")
_MANIFEST_MAX, _PROGRAM_MAX = 1 << 20, 256 << 20
_PACKAGE = re.compile(rb"""<manifest\b[^>]*\bpackage=["']([A-Za-z]\w*(?:\.[A-Za-z]\w*)+)["']""")
_TAG = re.compile(r"<(uses-permission|instrumentation|meta-data)\b([^>]*)>")
_ATTRIBUTE = re.compile(r"""android:(\w+)=["']([^"'<>]{1,300})["']""")


class InstallError(Exception):
    """`pm install` refuses; the message is its `Failure [...]`."""


@dataclass(frozen=True, slots=True)
class Package:
    """One installed package."""

    name: str
    instrumentation: str | None = None  # class of the runner
    permissions: list[str] = field(default_factory=list)  # asked for
    granted: list[str] = field(default_factory=list)
    runs: bool = False  # it has a program

    @property
    def folder(self) -> Path:
        return APPS / self.name

    @property
    def apk(self) -> Path:
        return self.folder / "base.apk"

    @property
    def program(self) -> Path:
        """Named as the package, so that the process's name is the package's."""
        return self.folder / self.name


def installed() -> dict[str, Package]:
    """What was installed since the device was made."""
    return {one["name"]: Package(**one) for one in json.loads(FILE.read_text())} if FILE.is_file() else {}


def _keep(packages: dict[str, Package]) -> None:
    temporary = FILE.with_suffix(".new")
    temporary.write_text(json.dumps([asdict(packages[name]) for name in sorted(packages)]))
    os.replace(temporary, FILE)


def install(path: Path, *, replace: bool, grant: bool) -> Package:
    """Unpack and register. Raises InstallError with Android's words."""
    try:
        with zipfile.ZipFile(path) as archive:
            package, program = _read(archive, grant)
            known = installed()
            if package.name in known and not replace:
                raise InstallError(
                    f"INSTALL_FAILED_ALREADY_EXISTS: Attempt to re-install {package.name} without first uninstalling."
                )
            shutil.rmtree(package.folder, ignore_errors=True)
            package.folder.mkdir(parents=True)
            shutil.copyfile(path, package.apk)
            if program is not None:
                with archive.open(program) as source, package.program.open("wb") as target:
                    shutil.copyfileobj(source, target)
                package.program.chmod(0o755)
    except (zipfile.BadZipFile, KeyError, NotImplementedError, RuntimeError) as error:
        raise InstallError("INSTALL_PARSE_FAILED_NOT_APK: no archive with a manifest in plain text") from error
    except OSError as error:
        if error.errno == 28:
            raise InstallError("INSTALL_FAILED_INSUFFICIENT_STORAGE") from error
        raise InstallError(f"INSTALL_PARSE_FAILED_NOT_APK: {error.strerror}") from error
    _keep({**known, package.name: package})
    return package


def _read(archive: zipfile.ZipFile, grant: bool) -> tuple[Package, zipfile.ZipInfo | None]:
    with archive.open("AndroidManifest.xml") as manifest:
        raw = manifest.read(_MANIFEST_MAX)
    name = _PACKAGE.search(raw)
    if name is None:
        raise InstallError("INSTALL_PARSE_FAILED_NOT_APK: no archive with a manifest in plain text")
    tags = [(tag, dict(_ATTRIBUTE.findall(rest))) for tag, rest in _TAG.findall(raw.decode("utf-8", "replace"))]
    permissions = [found["name"] for tag, found in tags if tag == "uses-permission" and "name" in found]
    runner = next((found.get("name") for tag, found in tags if tag == "instrumentation"), None)
    wanted = next((f.get("value", "") for tag, f in tags if f.get("name") == "farm.virtual.program"), None)
    program = None if wanted is None else _program(archive, wanted)
    package = name[1].decode()
    full = f"{package}{runner}" if runner and runner.startswith(".") else runner
    return Package(package, full, permissions, permissions if grant else [], program is not None), program


def _program(archive: zipfile.ZipFile, wanted: str) -> zipfile.ZipInfo:
    abi = wanted.split("/")[1] if wanted.count("/") == 2 else ""
    if abi != os.uname().machine:
        raise InstallError("INSTALL_FAILED_NO_MATCHING_ABIS: Failed to extract native libraries, res=-113")
    found = archive.getinfo(wanted)
    if found.file_size > _PROGRAM_MAX:
        raise InstallError("INSTALL_FAILED_INSUFFICIENT_STORAGE")
    return found


def uninstall(name: str) -> bool:
    """Whether it was there."""
    known = installed()
    package = known.pop(name, None)
    if package is None:
        return False
    shutil.rmtree(package.folder, ignore_errors=True)
    _keep(known)
    return True


def grant(name: str, permission: str, allowed: bool) -> str | None:
    """Grant or revoke; the error's words where that cannot be."""
    known = installed()
    package = known.get(name)
    if package is None:
        return f"Exception occurred while executing 'grant': Unknown package: {name}"
    if permission not in package.permissions:
        return f"Exception occurred while executing 'grant': Package {name} has not requested permission {permission}"
    granted = [one for one in package.granted if one != permission] + ([permission] if allowed else [])
    _keep({**known, name: Package(name, package.instrumentation, package.permissions, granted, package.runs)})
    return None
