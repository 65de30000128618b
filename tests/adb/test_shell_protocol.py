"""Frames, lines and pids of the shell protocol: pure, for any bytes in any pieces."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from farm.adb import shell_protocol as protocol

FRAMES = st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=200)), max_size=12)


def _pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(edges)]


@given(FRAMES, st.lists(st.integers(0, 5000), max_size=8))
def test_frames_come_out_as_they_went_in_however_they_are_cut(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    decoder = protocol.Decoder()
    found: dict[int, bytes] = {}
    for piece in _pieces(b"".join(protocol.frame(kind, data) for kind, data in frames), cuts):
        for kind, data in decoder.feed(piece):
            found[kind] = found.get(kind, b"") + data
    wanted: dict[int, bytes] = {}
    for kind, data in frames:
        wanted[kind] = wanted.get(kind, b"") + data
    assert found == {kind: data for kind, data in wanted.items() if data}


@given(st.lists(st.binary(max_size=2000), max_size=20))
def test_no_bytes_make_the_decoder_fail_or_hold_more_than_a_head(chunks: list[bytes]) -> None:
    decoder = protocol.Decoder()
    for chunk in chunks:
        assert sum(len(data) for _, data in decoder.feed(chunk)) <= len(chunk)
        assert len(decoder._head) < 5


@given(st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"])), max_size=10), st.data())
def test_lines_come_out_whole_however_they_are_cut(lines: list[str], data: st.DataObject) -> None:
    splitter = protocol.Lines()
    whole = "\n".join(lines).encode()
    cuts = data.draw(st.lists(st.integers(0, max(1, len(whole))), max_size=6))
    found = [line for piece in _pieces(whole, cuts) for line in splitter.feed(piece)] + list(splitter.end())
    assert found == (lines if lines and lines[-1] else lines[:-1])


def test_a_line_without_end_is_not_held() -> None:
    splitter = protocol.Lines()
    count = sum(1 for _ in range(40) for _ in splitter.feed(b"x" * 100_000))
    assert count >= 3
    assert len(splitter._rest) <= protocol.MAX_LINE


@given(st.integers(1, 10**9), st.binary(max_size=60), st.lists(st.integers(0, 100), max_size=5))
def test_the_pid_is_taken_out_of_stderr_and_nothing_else(pid: int, rest: bytes, cuts: list[int]) -> None:
    announced = protocol.Announced.of(["true"])
    pid_filter = protocol.PidFilter(announced.nonce)
    stream = f"{announced.nonce}{pid}\n".encode() + rest
    out = b"".join(pid_filter.feed(piece) for piece in _pieces(stream, cuts)) + pid_filter.end()
    assert (pid_filter.pid, out) == (pid, rest)


@given(st.binary(max_size=200), st.lists(st.integers(0, 100), max_size=5))
def test_stderr_without_an_announcement_is_left_alone(stream: bytes, cuts: list[int]) -> None:
    pid_filter = protocol.PidFilter("pid-0123456789ab:")
    out = b"".join(pid_filter.feed(piece) for piece in _pieces(stream, cuts)) + pid_filter.end()
    assert out == stream
    assert pid_filter.pid is None
