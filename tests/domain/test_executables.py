"""What a bundle's files say of themselves against what its declaration says of them."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from farm.domain.bundles import read_bundle
from farm.domain.executables import misfits
from farm.domain.manifests import ManifestError, content_hash

BUNDLE = """
format: 1
name: mine
version: 1.0.0
adapter: events
entry: engine
files: {arm64-v8a: {engine: bin/engine, helper: bin/helper}}
models: {}
"""
SCRIPT = b"#!/system/bin/sh\n exec"


def elf(machine: int, *, klass: int = 2, big: bool = False) -> bytes:
    order = ">" if big else "<"
    return b"\x7fELF" + bytes((klass, 2 if big else 1, 1)) + b"\0" * 9 + struct.pack(f"{order}HH", 2, machine)


def wrong(
    engine: bytes, helper: bytes = elf(183), scripts: str = "", engine_mode: int = 0o755, helper_mode: int = 0o644
) -> list[str]:
    content = {"bin/engine": {"mode": engine_mode}, "bin/helper": {"mode": helper_mode}}
    manifest = {**read_bundle(BUNDLE + scripts), "content": content}
    return misfits(manifest, {"bin/engine": engine, "bin/helper": helper}.__getitem__)


def test_a_program_for_the_declared_abi_fits() -> None:
    assert wrong(elf(183)) == []


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (elf(62), "bin/engine is declared for arm64-v8a but built for x86_64"),
        (elf(40, klass=1), "but built for armeabi-v7a"),
        (elf(183, klass=1), "but built for ELF machine 183, 32 bits"),
        (elf(22, big=True), "but built for ELF machine 22, 64 bits"),
        (SCRIPT, "is a script, declared as a program for arm64-v8a"),
        (b"PK\x03\x04" + b"\0" * 30, "is neither a program (ELF) nor a script"),
        (b"", "is neither a program (ELF) nor a script"),
        (b"\x7fELF", "is neither a program (ELF) nor a script"),
    ],
)
def test_an_entry_that_cannot_be_what_it_is_declared_to_be_is_told(head: bytes, words: str) -> None:
    [told] = wrong(head)
    assert words in told


def test_a_script_stands_where_the_manifest_says_so_and_nowhere_else() -> None:
    assert wrong(SCRIPT, scripts="scripts: [engine]") == []
    [told] = wrong(SCRIPT, helper=SCRIPT, scripts="scripts: [engine]")
    assert "bin/helper" in told
    [told] = wrong(elf(62), scripts="scripts: [engine]")
    assert "built for x86_64" in told, "a program stays a program"


def test_what_is_started_must_be_executable_and_the_way_out_is_told() -> None:
    assert wrong(elf(183), engine_mode=0o644) == ["bin/engine is not executable: chmod +x bin/engine"]
    told = wrong(SCRIPT, helper=SCRIPT, scripts="scripts: [engine, helper]", engine_mode=0o644)
    assert told == [f"bin/{name} is not executable: chmod +x bin/{name}" for name in ("engine", "helper")]
    assert wrong(elf(183), helper_mode=0o644) == [], "a library is loaded, not started"


def test_data_may_lie_beside_the_programs() -> None:
    assert wrong(elf(183), helper=b'{"backend": "npu"}') == []


def test_scripts_name_files_of_the_bundle() -> None:
    with pytest.raises(ManifestError, match="'engin' in scripts is no name in files; did you mean engine"):
        read_bundle(BUNDLE + "scripts: [engin]")


def test_a_bundle_without_scripts_keeps_the_hash_that_it_had_before_there_were_any() -> None:
    def hashed(text: str) -> str:
        declared: dict[str, Any] = read_bundle(text)
        return content_hash({**declared, "content": {}})

    assert "scripts" not in read_bundle(BUNDLE)
    assert hashed(BUNDLE) == hashed(BUNDLE + "scripts: []") != hashed(BUNDLE + "scripts: [engine]")
