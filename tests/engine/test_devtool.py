"""The device-side tool: hashes like hashlib, stamps like stat, probes that answer plausibly."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

Line = dict[str, Any]


def run(tool: Path, *arguments: str | Path, code: int = 0, stdin: str = "", portable: bool = False) -> list[Line]:
    done = subprocess.run(
        [tool, *arguments],
        capture_output=True,
        text=True,
        input=stdin,
        timeout=120,
        check=False,
        env={**os.environ, **({"FARM_DEVTOOL_PORTABLE": "1"} if portable else {})},
    )
    assert done.returncode == code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def odd_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Files of the sizes where padding and blocks go wrong, with a few beyond the read block."""
    folder = tmp_path_factory.mktemp("odd")
    chance = random.Random(7)
    sizes = [*range(0, 140), 1 << 20, (1 << 20) - 1, (1 << 20) + 1, 3_000_017]
    files = []
    for size in sizes:
        path = folder / f"{size}.bin"
        path.write_bytes(chance.randbytes(size))
        files.append(path)
    return files


@pytest.mark.parametrize("portable", [False, True])
def test_hashes_equal_hashlib_for_odd_sizes(devtool_bin: Path, odd_files: list[Path], portable: bool) -> None:
    lines = run(devtool_bin, "hash", *odd_files, portable=portable)
    assert [line["sha256"] for line in lines] == [hashlib.sha256(p.read_bytes()).hexdigest() for p in odd_files]


def test_the_stamp_is_that_of_the_file(devtool_bin: Path, odd_files: list[Path]) -> None:
    path = odd_files[77]
    found = path.stat()
    expected = {
        "path": str(path),
        "size": found.st_size,
        "mtime_ns": found.st_mtime_ns,
        "ctime_ns": found.st_ctime_ns,
        "inode": found.st_ino,
    }
    (hashed,) = run(devtool_bin, "hash", path)
    (stated,) = run(devtool_bin, "stat", path)
    assert {key: hashed[key] for key in expected} == expected
    assert stated == {**expected, "mode": found.st_mode & 0o7777, "regular": True}


def test_a_list_of_files_comes_from_standard_input_or_a_file(
    devtool_bin: Path, odd_files: list[Path], tmp_path: Path
) -> None:
    some = [str(path) for path in odd_files[:5]]
    listing = tmp_path / "list"
    listing.write_text("\n".join(some))  # no newline at the end
    for lines in (
        run(devtool_bin, "hash", "--list-file", "-", stdin="".join(f"{path}\n" for path in some)),
        run(devtool_bin, "hash", "--list-file", listing),
    ):
        assert [line["path"] for line in lines] == some


def test_files_that_cannot_be_read_are_told_one_by_one_and_end_with_1(
    devtool_bin: Path, odd_files: list[Path], tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    names = [tmp_path / "missing", odd_files[0], tmp_path, pipe, tmp_path / ("x" * 5000)]
    lines = run(devtool_bin, "hash", *names, code=1)
    assert [line["path"] for line in lines] == [str(name) for name in names]
    assert ["sha256" in line for line in lines] == [False, True, False, False, False]
    assert lines[0]["message"] == "No such file or directory"
    assert lines[2]["message"] == "Is a directory"


def test_hostile_names_stay_one_valid_line_each(devtool_bin: Path, tmp_path: Path) -> None:
    names = [b'a"b', b"new\nline", b"\xff\xfe", "ünï".encode(), b"; rm -rf ~", b"--list-file"]
    for name in names:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(name)
    done = subprocess.run(
        [os.fsencode(devtool_bin), b"hash", *(os.fsencode(tmp_path) + b"/" + name for name in names)],
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.decode("utf-8").splitlines()]
    assert [line["sha256"] for line in lines] == [hashlib.sha256(name).hexdigest() for name in names]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["explode"],
        ["hash"],
        ["hash", "--list-file"],
        ["hash", "--list-file", "/no/such/list"],
        ["probe"],
        ["probe", "weather"],
        ["probe", "membw", "--seconds", "soon"],
        ["probe", "membw", "--threads", "0"],
        ["probe", "cpu", "now"],
    ],
)
def test_a_wrong_command_line_ends_with_2_and_prints_nothing_to_parse(devtool_bin: Path, arguments: list[str]) -> None:
    assert run(devtool_bin, *arguments, code=2) == []


@pytest.mark.parametrize("threads", [1, 2])
def test_memory_bandwidth_is_a_list_of_plausible_figures(devtool_bin: Path, threads: int) -> None:
    arguments = ("--seconds", "0.2", "--mb", "16", "--threads", str(threads))
    (line,) = run(devtool_bin, "probe", "membw", *arguments)
    assert (line["unit"], line["threads"], line["array_mb"]) == ("GB/s", threads, 16)
    for kernel in ("copy", "triad"):
        assert len(line[kernel]) >= 3
        # From a starved virtual machine to the fastest memory that is sold.
        assert all(0.01 < figure < 3000 for figure in line[kernel])
        assert len(set(line[kernel])) > 1


def test_the_cpu_probe_agrees_with_the_kernel(devtool_bin: Path) -> None:
    (line,) = run(devtool_bin, "probe", "cpu")
    assert line["abi"] == "x86_64"
    assert line["page_size"] == os.sysconf("SC_PAGESIZE")
    assert line["cores_online"] == os.sysconf("SC_NPROCESSORS_ONLN")
    assert line["cores_allowed"] == len(os.sched_getaffinity(0))
    flags = next(s for s in Path("/proc/cpuinfo").read_text().splitlines() if s.startswith("flags")).split()
    ours_for_kernels = {"sse3": "pni", "avx512_vbmi": "avx512vbmi"}
    for feature in line["features"]:
        assert ours_for_kernels.get(feature, feature) in flags
    assert ("avx2" in flags) == ("avx2" in line["features"])
