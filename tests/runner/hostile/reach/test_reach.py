"""Tries to get at what is not this attempt's."""

import ctypes
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest


def _fails(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode != 0, f"{command} worked: {done.stdout}"
    return done.stdout + done.stderr


def test_other_device(params) -> None:
    """Through the adb that is there, and by hand."""
    adb = params["adb"]
    listed = subprocess.run([adb, "devices"], capture_output=True, text=True, timeout=30, check=True).stdout
    assert params["other"] not in listed
    _fails(adb, "-s", params["other"], "shell", "true")
    _fails(adb, "-s", params["other_address"], "shell", "true")
    assert (
        "connected to"
        not in subprocess.run(
            [adb, "connect", params["other_address"]], capture_output=True, text=True, timeout=30, check=False
        ).stdout
    )


def test_the_adb_server_itself(params) -> None:
    """kill-server and forward are not a suite's to ask for."""
    subprocess.run([params["adb"], "kill-server"], capture_output=True, timeout=30, check=False)
    _fails(params["adb"], "forward", "tcp:7777", "tcp:8888")
    assert subprocess.run([params["adb"], "devices"], capture_output=True, timeout=30, check=False).returncode == 0


def test_adb_on_another_port(params) -> None:
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", params["host_adb_port"]), timeout=5)


def test_network() -> None:
    with pytest.raises(OSError, match=r"unreachable|failure"):
        socket.create_connection(("192.0.2.1", 80), timeout=5)
    with pytest.raises(OSError, match=r"unreachable|refused|failure|not known"):
        socket.create_connection(("example.com", 80), timeout=5)


def test_network_by_a_program_of_its_own(tmp_path) -> None:
    """Not Python's socket: a raw connect of a shell's child."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.socket(2, 1, 0)
    address = b"\x02\x00\x00\x50" + bytes([198, 51, 100, 7]) + bytes(8)
    if os.fork() == 0:
        os._exit(libc.connect(fd, address, 16) == 0)
    assert os.wait()[1] == 0


def test_database(params) -> None:
    with pytest.raises(OSError, match="No such file"):
        os.open(params["database"], os.O_RDONLY)
    with pytest.raises(OSError, match="No such file"):
        os.unlink(params["database"])
    _fails("cat", params["database"])


def test_files_outside_of_the_attempt(params) -> None:
    for path in (params["journal"], params["secret"], params["neighbour"], "/etc/shadow", "/root/.ssh/id_ed25519"):
        with pytest.raises(OSError, match=r"No such file|denied"):
            os.open(path, os.O_RDONLY)
    for path in ("/farm/pack/new.py", "/usr/bin/new", "/new", "/farm/attempt.json"):
        with pytest.raises(OSError, match=r"Read-only|denied|No such file"):
            os.open(path, os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError, match=r"Read-only|denied"):
        shutil.rmtree("/farm/pack/journal")


def test_by_links_out_of_the_artifacts(params, artifact) -> None:
    """The supervisor must not follow them either: nothing of this may become an artifact."""
    here = Path.cwd() / "artifacts"
    here.mkdir(exist_ok=True)
    (here / "passwords").symlink_to("/etc/passwd")
    artifact("passwords")
    (here / "folder").symlink_to("/etc")


def test_other_processes() -> None:
    """Nobody else is to be seen: process 1 is the sandbox's own."""
    assert len([name for name in os.listdir("/proc") if name.isdigit()]) < 20
    assert os.getuid() != 0
    with pytest.raises(OSError, match=r"denied|permitted|Read-only|No such"):
        os.open("/proc/sys/kernel/domainname", os.O_WRONLY)  # opening is enough to know
    with pytest.raises(OSError, match=r"denied|permitted|Invalid|No space"):
        os.unshare(os.CLONE_NEWUSER) if hasattr(os, "unshare") else _unshare()


def _unshare() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def test_no_secrets_in_the_environment() -> None:
    assert not [name for name in os.environ if "TOKEN" in name or "SECRET" in name or "HOST_MARK" in name]
