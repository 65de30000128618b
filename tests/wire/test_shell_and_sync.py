"""Shell and sync services on this machine's own processes and files, without any sandbox."""

from __future__ import annotations

import asyncio
import os
import stat
import struct
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.adb.wire.packets import Command
from farm.adb.wire.server import ServiceRegistry
from farm.adb.wire.shell import FrameReader, LocalSpawner, ShellRequest, ShellService
from farm.adb.wire.sync import RootedTree, SyncError, SyncService
from tests.wire.peer import Peer, serve

HEAD = struct.Struct("<4sI")


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def services(root: Path = Path("/")) -> ServiceRegistry:
    shell = ShellService(LocalSpawner())
    return ServiceRegistry({"shell": shell, "exec": shell, "sync": SyncService(RootedTree(root))})


def frames(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for kind, piece in FrameReader().feed(data):
        found[kind] = found.get(kind, b"") + bytes(piece)
    return found


# --- shell


@given(st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=40)), max_size=8), st.integers(1, 13))
def test_shell_frames_are_read_however_they_are_cut(sent: list[tuple[int, bytes]], size: int) -> None:
    data = b"".join(struct.pack("<BI", kind, len(body)) + body for kind, body in sent)
    reader, found = FrameReader(), dict[int, bytes]()
    for start in range(0, len(data), size):
        for kind, piece in reader.feed(data[start : start + size]):
            found[kind] = found.get(kind, b"") + bytes(piece)
    expected: dict[int, bytes] = {}
    for kind, body in sent:
        expected[kind] = expected.get(kind, b"") + body
    assert found == expected


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        ("shell:ls -l", ShellRequest("ls -l", protocol_v2=False, pty=False)),
        ("shell:", ShellRequest("", protocol_v2=False, pty=True)),
        ("shell,v2,TERM=xterm,raw:a:b", ShellRequest("a:b", protocol_v2=True, pty=False, term="xterm")),
        ("shell,v2,TERM=x;rm$,pty:", ShellRequest("", protocol_v2=True, pty=True, term="xrm")),
        ("exec:cat", ShellRequest("cat", protocol_v2=False, pty=False)),
    ],
)
def test_service_strings_are_read_as_adbd_reads_them(service: str, expected: ShellRequest) -> None:
    assert ShellRequest.parse(service) == expected


def test_shell_v2_separates_output_errors_and_exit_code() -> None:
    async def work() -> None:
        async with serve(services()) as peer:
            await peer.connect()
            remote = await peer.open("shell,v2,raw:echo out; echo err >&2; exit 3")
            assert frames(await peer.read_to_end(remote)) == {1: b"out\n", 2: b"err\n", 3: b"\x03"}

    run(work())


def test_shell_v2_feeds_standard_input_and_closes_it() -> None:
    async def work() -> None:
        async with serve(services()) as peer:
            await peer.connect()
            remote = await peer.open("shell,v2,raw:cat; echo done")
            message = struct.pack("<BI", 0, 5) + b"hello" + struct.pack("<BI", 4, 0)
            peer.send(Command.WRTE, 1, remote, message)
            assert frames(await peer.read_to_end(remote)) == {1: b"hellodone\n", 3: b"\0"}

    run(work())


def test_shell_v1_and_exec_give_plain_bytes() -> None:
    async def work() -> None:
        async with serve(services()) as peer:
            await peer.connect()
            assert await peer.read_to_end(await peer.open("shell:printf 'a\\nb'; echo c >&2")) == b"a\nbc\n"
            assert await peer.read_to_end(await peer.open("exec:printf 'a\\nb'", 2), 2) == b"a\nb"

    run(work())


def test_a_terminal_has_the_size_that_the_client_says() -> None:
    async def work() -> None:
        async with serve(services()) as peer:
            await peer.connect()
            remote = await peer.open("shell,v2,TERM=vt100,pty:read x; stty size; tty >/dev/null && echo $TERM")
            size = b"40x100,0x0\0"
            text = struct.pack("<BI", 5, len(size)) + size + struct.pack("<BI", 0, 1) + b"\n"
            peer.send(Command.WRTE, 1, remote, text)
            output = frames(await peer.read_to_end(remote))
            assert output[1].replace(b"\r\n", b"\n").endswith(b"40 100\nvt100\n")

    run(work())


def test_closing_the_stream_kills_the_whole_process_group(tmp_path: Path) -> None:
    async def work() -> None:
        async with serve(services()) as peer:
            await peer.connect()
            command = f"trap '' HUP; sleep 4712 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/leader; wait"
            remote = await peer.open(f"shell,v2,raw:{command}")
            while not (tmp_path / "leader").exists() or not (tmp_path / "leader").read_text().strip():
                await asyncio.sleep(0.01)
            pids = [int((tmp_path / name).read_text()) for name in ("child", "leader")]
            peer.send(Command.CLSE, 1, remote)
            while any(_alive(pid) for pid in pids):
                await asyncio.sleep(0.02)

    run(work())


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- sync


async def push(peer: Peer, remote: int, path: str, mode: int, data: bytes, mtime: int = 1_600_000_000) -> bytes:
    name = f"{path},{mode}".encode()
    message = HEAD.pack(b"SEND", len(name)) + name
    for start in range(0, len(data), 65536):
        piece = data[start : start + 65536]
        message += HEAD.pack(b"DATA", len(piece)) + piece
    message += HEAD.pack(b"DONE", mtime)
    for start in range(0, len(message), 100_001):
        await peer.exchange(remote, message[start : start + 100_001])
    return await answer(peer, remote)


async def answer(peer: Peer, remote: int) -> bytes:
    packet = await peer.expect(Command.WRTE)
    peer.send(Command.OKAY, 1, remote)
    return bytes(packet.payload)


def test_a_pushed_file_has_content_mode_and_time_and_is_read_back(tmp_path: Path) -> None:
    data = os.urandom(300_000)

    async def work() -> None:
        async with serve(services(tmp_path)) as peer:
            await peer.connect()
            remote = await peer.open("sync:")
            assert await push(peer, remote, "/sub/file", stat.S_IFREG | 0o751, data) == HEAD.pack(b"OKAY", 0)
            await peer.exchange(remote, HEAD.pack(b"STAT", 9) + b"/sub/file")
            mode, size, mtime = struct.unpack("<III", (await answer(peer, remote))[4:])
            assert (mode & 0o777, size, mtime) == (0o751, len(data), 1_600_000_000)
            await peer.exchange(remote, HEAD.pack(b"RECV", 9) + b"/sub/file")
            received = b""
            while not received.endswith(HEAD.pack(b"DONE", 0)):
                received += await answer(peer, remote)
            body, view = b"", received
            while view[:4] == b"DATA":
                count = HEAD.unpack(view[:8])[1]
                body, view = body + view[8 : 8 + count], view[8 + count :]
            assert body == data

    run(work())
    assert (tmp_path / "sub/file").read_bytes() == data


def test_a_failed_push_says_why_and_the_session_goes_on(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()

    async def work() -> None:
        async with serve(services(tmp_path)) as peer:
            await peer.connect()
            remote = await peer.open("sync:")
            failure = await push(peer, remote, "/folder", 0o100644, bytes(200_000))
            assert failure[:4] == b"FAIL"
            assert b"directory" in failure
            assert (await push(peer, remote, "/fine", 0o100644, b"x"))[:4] == b"OKAY"

    run(work())


def test_listing_and_stat_v2_tell_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "name").write_bytes(b"12345")

    async def work() -> None:
        async with serve(services(tmp_path)) as peer:
            await peer.connect()
            remote = await peer.open("sync:")
            for request, size, name_at in ((b"LIST", 20, 16), (b"LIS2", 76, 72)):
                await peer.exchange(remote, HEAD.pack(request, 1) + b"/")
                listing = await answer(peer, remote)
                end = await answer(peer, remote)
                assert struct.unpack_from("<I", listing, name_at)[0] == 4
                assert listing[size:] == b"name"
                assert (end[:4], len(end)) == (b"DONE", size)
            await peer.exchange(remote, HEAD.pack(b"STA2", 5) + b"/none")
            assert struct.unpack("<4sI", (await answer(peer, remote))[:8]) == (b"STA2", 2)

    run(work())


@given(st.binary(max_size=200))
def test_any_bytes_in_a_sync_session_end_it_or_get_an_answer(data: bytes) -> None:
    async def work() -> None:
        async with serve(services(Path("/nonexistent-root"))) as peer:
            await peer.connect()
            remote = await peer.open("sync:")
            peer.send(Command.WRTE, 1, remote, data or b"\0")
            peer.send(Command.CLSE, 1, remote)
            while (packet := await peer.receive()) is not None and packet.command is not Command.CLSE:
                pass

    run(work())


@pytest.mark.parametrize("path", ["/../outside", "/link/secret", "link/../../outside", "/.."])
def test_no_path_leads_out_of_the_tree(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (root / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SyncError, match="leads out"):
        RootedTree(root).locate(path)
