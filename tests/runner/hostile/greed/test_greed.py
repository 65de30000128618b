"""Tries to use up the machine."""

import os
import resource
from pathlib import Path

import pytest


def test_fork_bomb() -> None:
    """Processes end at a bound; the machine goes on."""
    children = []
    refused = False
    try:
        for _ in range(5000):
            pid = os.fork()
            if pid == 0:
                os.pause() if hasattr(os, "pause") else __import__("signal").pause()
                os._exit(0)
            children.append(pid)
    except OSError:
        refused = True
    finally:
        for pid in children:
            os.kill(pid, 9)
        for pid in children:
            os.waitpid(pid, 0)
    assert refused
    assert len(children) < 1000


def test_huge_file() -> None:
    resource_limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    assert resource_limit <= 1 << 30
    with pytest.raises(ValueError, match="limit"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, 1 << 40))


def test_memory() -> None:
    with pytest.raises(MemoryError):
        bytearray(8 << 30)


def test_temporary_files_are_bounded() -> None:
    with Path("/tmp/big").open("wb", buffering=0) as file:
        file.write(bytes(200 << 20))
        with pytest.raises(OSError, match="No space"):
            [file.write(bytes(1 << 20)) for _ in range(300)]
    Path("/tmp/big").unlink()


def test_output_flood(capsys) -> None:
    with capsys.disabled():
        for _ in range(300):
            print("x" * 65536)
