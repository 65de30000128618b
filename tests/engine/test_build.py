"""The build: a pinned source, nothing unsafe unpacked, clear words when something is missing, the same bytes twice."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from engine import build, package, sources, toolchain
from farm.domain import bundles


def quiet(_: str) -> None:
    pass


def archive_with(path: Path, members: list[tuple[str, bytes | None, bytes]]) -> Path:
    """A tar of (name, link target or None, content)."""
    with tarfile.open(path, "w:gz") as tar:
        for name, link, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            if link is not None:
                info.type, info.linkname, info.size = tarfile.SYMTYPE, link.decode(), 0
            tar.addfile(info, io.BytesIO(content))
    return path


def pin(**changes: object) -> sources.Pin:
    values = {"distribution": "d", "version": "1", "file": "f.tar.gz", "sha256": "0" * 64, "root": "d-1/llama"}
    return sources.Pin(**{**values, "keep": ("ggml", "src"), **changes})  # type: ignore[arg-type]


def test_only_the_kept_folders_are_unpacked_and_no_links(tmp_path: Path) -> None:
    archive = archive_with(
        tmp_path / "a.tar.gz",
        [
            ("d-1/llama/ggml/a.c", None, b"a"),
            ("d-1/llama/models/big.bin", None, b"b"),
            ("d-1/setup.py", None, b"c"),
            ("d-1/llama/src/link", b"/etc/passwd", b""),
        ],
    )
    sources.unpack(archive, pin(), tmp_path / "out")
    assert [str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*") if p.is_file()] == ["ggml/a.c"]
    assert not (tmp_path / "out" / "src" / "link").is_symlink()


def test_a_name_that_leaves_the_folder_is_passed_over(tmp_path: Path) -> None:
    archive = archive_with(tmp_path / "a.tar.gz", [("d-1/llama/ggml/../../../evil", None, b"x")])
    sources.unpack(archive, pin(), tmp_path / "deep" / "out")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a.tar.gz"]


def test_an_archive_with_another_hash_is_removed_and_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "CACHE", tmp_path)
    (tmp_path / "f.tar.gz").write_bytes(b"something else")
    with pytest.raises(sources.SourceError, match="expected 0000"):
        sources.fetch(pin(), quiet)
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_pip_cannot_find_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "CACHE", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(
        sources.SourceError, match=r"(?s)pip could not download f\.tar\.gz.*FARM_LLAMA_SOURCE"
    ) as caught:
        sources.fetch(pin(distribution="no-such-distribution-here"), quiet)
    assert len(str(caught.value).splitlines()) == 2


def test_a_named_checkout_is_used_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARM_LLAMA_SOURCE", str(tmp_path))
    with pytest.raises(sources.SourceError, match="has no ggml/CMakeLists"):
        sources.ensure(quiet)
    (tmp_path / "ggml").mkdir()
    (tmp_path / "ggml" / "CMakeLists.txt").touch()
    assert sources.ensure(quiet).ggml == tmp_path / "ggml"


def test_a_machine_without_any_compiler_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(toolchain.ToolchainError, match=r"apt-get install g\+\+ cmake ninja-build.*pip install"):
        toolchain.find_toolchain("x86_64", tmp_path)


def test_the_wheels_stand_in_for_a_missing_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for tool in ("cmake", "ninja"):
        (tmp_path / tool).write_text("#!/bin/sh\n")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    found = toolchain.find_toolchain("x86_64", tmp_path / "wrappers")
    assert found.name == "wheels"
    assert Path(found.cxx).read_text().endswith('-m ziglang c++ -target x86_64-linux-musl "$@"\n')
    assert Path(found.cxx).stat().st_mode & stat.S_IXUSR


def test_an_unknown_choice_of_toolchain_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARM_ENGINE_TOOLCHAIN", "magic")
    with pytest.raises(toolchain.ToolchainError, match="only 'system' or 'wheels'"):
        toolchain.find_toolchain("x86_64", tmp_path)


def test_a_failing_tool_shows_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('the reason'); raise SystemExit(3)"]
    with pytest.raises(build.BuildError, match=r"(?s)status 3.*the reason"):
        build.run_tool(command, tmp_path, quiet)


def test_programs_are_static_and_hold_no_path_of_this_machine(engine_bin: Path, devtool_bin: Path) -> None:
    for program in (engine_bin, devtool_bin):
        data = program.read_bytes()
        kinds = {segment["p_type"] for segment in ELFFile(io.BytesIO(data)).iter_segments()}
        assert "PT_LOAD" in kinds
        assert not kinds & {"PT_INTERP", "PT_DYNAMIC"}
        assert str(build.PROJECT).encode() + b"/" not in data


def test_the_content_hash_follows_the_sources_and_the_pin() -> None:
    assert build.content_hash("sha256:a") == build.content_hash("sha256:a") != build.content_hash("sha256:b")


def test_the_bundle_is_one_that_the_farm_accepts(engine_bin: Path, tmp_path: Path) -> None:
    manifest = package.package(tmp_path / "bundle", 2, quiet, ["tiny-q4_0", "tiny-f32"])
    read = bundles.read_bundle(manifest.read_text())
    assert (read["name"], read["adapter"], read["entry"]) == ("reference", "events", "farm-engine")
    assert read["default_model"] in read["models"]
    paths = [*read["files"]["x86_64"].values(), *read["models"].values()]
    for path in paths:
        assert (tmp_path / "bundle" / path).is_file()
    assert os.access(tmp_path / "bundle" / read["files"]["x86_64"]["farm-engine"], os.X_OK)
    assert sorted(read["models"]) == ["tiny-f32", "tiny-q4_0"]


def test_a_bundle_carries_the_licence_of_ggml_wherever_it_goes(engine_bin: Path, tmp_path: Path) -> None:
    read = bundles.read_bundle(package.package(tmp_path, 2, quiet, ["tiny-q4_0"]).read_text())
    path = read["files"]["x86_64"]["THIRD-PARTY-NOTICES"]
    assert path in bundles.device_paths(read, "x86_64")
    text = (tmp_path / path).read_text()
    assert "MIT License" in text
    assert "The ggml authors" in text
    whole = sources.ensure(quiet).notices(whole=True)
    assert whole.startswith(text.rstrip())
    assert "jsonhpp" in whole


def test_a_checkout_without_a_licence_makes_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(sources.SourceError, match="must carry the licence"):
        sources.LlamaSource(tmp_path, "checkout").notices()


def test_nothing_is_said_of_compiling_where_nothing_is_compiled(engine_bin: Path) -> None:
    said: list[str] = []
    build.build("static-x86_64", build.DEFAULT_OUT, 2, said.append)
    assert not [text for text in said if "compiling" in text]


def test_what_is_compiled_is_said(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(t CXX)\nadd_executable(tiny tiny.cpp)\n"
    )
    (tmp_path / "tiny.cpp").write_text("int main() {}\n")
    tools = toolchain.find_toolchain("x86_64", tmp_path / "toolchain")
    said: list[str] = []
    folder = tmp_path / "built"
    build.run_tool([tools.cmake, "-S", str(tmp_path), "-B", str(folder), *tools.cmake_arguments()], tmp_path, quiet)
    build.compile_targets(tools, folder, 2, ["tiny"], said.append)
    assert said[0].startswith("compiling tiny with ")
    build.compile_targets(tools, folder, 2, ["tiny"], said.append)
    assert len([text for text in said if "compiling" in text]) == 1


def test_a_bundle_laid_out_again_copies_nothing_that_did_not_change(engine_bin: Path, tmp_path: Path) -> None:
    def inodes() -> dict[str, int]:
        files = (p for p in tmp_path.rglob("*") if p.is_file() and p.name != "bundle.yaml")
        return {str(path): path.stat().st_ino for path in files}

    package.package(tmp_path, 2, quiet, ["tiny-q4_0"])
    before = inodes()
    package.package(tmp_path, 2, quiet, ["tiny-q4_0"])
    assert inodes() == before


def test_a_model_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such model: huge-f32"):
        package.package(tmp_path, 2, quiet, ["huge-f32"])


@pytest.mark.slow
def test_two_builds_in_different_folders_are_the_same_bytes(engine_bin: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "engine.build", "--out", tmp_path / "elsewhere", "--jobs", "2", "--json"],
        cwd=build.PROJECT, capture_output=True, text=True, timeout=1800, check=True,
    )  # fmt: skip
    again = json.loads(done.stdout)
    for name in build.PROGRAMS:
        assert again["files"][name]["sha256"] == sources.sha256_of(engine_bin.parent / name), name
