"""What an executable file is, told by its first bytes: an ELF program for one machine, a script, or neither.

ELF header: System V ABI, chapter 4 (e_ident at 0, e_machine at 18); machine numbers: the ELF gABI's registry.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Set
from typing import Any

#: So many bytes of a file tell what it is.
HEAD = 20
#: ELF e_machine and class of each ABI name that Android uses.
MACHINES = {"x86_64": (62, 2), "arm64-v8a": (183, 2), "armeabi-v7a": (40, 1), "x86": (3, 1), "riscv64": (243, 2)}
_CLASSES = {1: "32", 2: "64"}


def is_script(head: bytes) -> bool:
    return head.startswith(b"#!")


def built_for(head: bytes) -> tuple[int, int] | None:
    """(e_machine, class) of an ELF file that begins with `head`; None when it is none."""
    if len(head) < HEAD or not head.startswith(b"\x7fELF"):
        return None
    (machine,) = struct.unpack_from(">H" if head[5] == 2 else "<H", head, 18)
    return machine, head[4]


def misfits(manifest: Mapping[str, Any], head_of: Callable[[str], bytes]) -> list[str]:
    """What a bundle's files for each ABI say against the declaration, in words; empty when they agree.

    A program must be built for the ABI that it is declared for. A script fits every ABI and says nothing of the
    engine's build, so it stands only where `scripts` names it. Whatever else there is (data of a backend) may lie
    beside the programs, but not be the entry. What is started by its name must be executable, or the device
    refuses it. `head_of` gives the first `HEAD` bytes of a file of the bundle.
    """
    scripts = manifest.get("scripts") or ()
    if manifest.get("adapter") == "app":  # the entry is installed, not started
        return _not_apks(manifest, head_of) + [
            words
            for abi, files in manifest["files"].items()
            for name, path in files.items()
            if name not in _apk_names(manifest) and (words := _misfit(path, head_of(path), abi, name in scripts, False))
        ]
    return [
        words
        for abi, files in manifest["files"].items()
        for name, path in files.items()
        if (words := _misfit(path, head_of(path), abi, name in scripts, name == manifest["entry"]))
    ] + _not_executable(manifest, {manifest["entry"], *scripts})


def _apk_names(manifest: Mapping[str, Any]) -> set[str]:
    return {manifest["entry"], *((manifest.get("app") or {}).get("apks") or ())}


def _not_apks(manifest: Mapping[str, Any], head_of: Callable[[str], bytes]) -> list[str]:
    """An APK is a zip archive: APPNOTE.TXT, section 4.3.7."""
    paths = {
        path for files in manifest["files"].values() for name, path in files.items() if name in _apk_names(manifest)
    }
    return [f"{path} is no APK: it is no zip archive" for path in sorted(paths) if head_of(path)[:4] != b"PK\x03\x04"]


def _not_executable(manifest: Mapping[str, Any], started: Set[str]) -> list[str]:
    content = manifest["content"]
    paths = {path for files in manifest["files"].values() for name, path in files.items() if name in started}
    return [f"{path} is not executable: chmod +x {path}" for path in sorted(paths) if not content[path]["mode"] & 0o111]


def _misfit(path: str, head: bytes, abi: str, declared_script: bool, entry: bool) -> str | None:
    found, wanted = built_for(head), MACHINES.get(abi)
    if found is not None:
        if wanted is None or found == wanted:
            return None
        machine, klass = found
        known = next((name for name, entry in MACHINES.items() if entry == found), None)
        told = known or f"ELF machine {machine}, {_CLASSES.get(klass, '?')} bits"
        return f"{path} is declared for {abi} but built for {told}"
    if declared_script:
        return None
    if is_script(head):
        return f"{path} is a script, declared as a program for {abi}: if that is meant, name it in scripts"
    if entry:
        return f"{path}, the entry for {abi}, is neither a program (ELF) nor a script that is named in scripts"
    return None
