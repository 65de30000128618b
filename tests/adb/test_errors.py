"""Messages about devices are one short line of text, whatever the device wrote."""

from __future__ import annotations

import re

import pytest

from farm.adb import shell
from farm.adb import shell_protocol as protocol
from farm.adb.deadline import Deadline
from farm.adb.errors import RemoteError, ShellTimeout, last_words, seconds
from farm.adb.sync import _refusal

ENGINE = b"\nllm: loading \xc3\xa4 model\r\n\x1b[31mlayer\x00 12\xff of 24\n" * 40


class Talkative:
    """A command's stream that brings what an engine wrote, and then no end."""

    def __init__(self, *_arguments: object) -> None:
        self.ended, self._said = False, False

    def receive(self, _limit: Deadline, _outgoing: object) -> tuple[list[tuple[int, bytes]], int]:
        if self._said:
            raise ShellTimeout("no end")
        self._said = True
        return [(protocol.STDERR, ENGINE)], 0

    def kill(self) -> None: ...

    close = kill


class Here:
    address = "127.0.0.1:7000"


def test_a_command_that_does_not_end_is_told_on_one_short_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "ShellStream", Talkative)
    with pytest.raises(ShellTimeout) as told:
        shell.run(Here(), "sh", 14.7443, None)  # type: ignore[arg-type]
    message = str(told.value)
    head, _, words = message.partition("its last words: ")
    assert head == "127.0.0.1:7000: 'sh' did not end within 14.7 s; "
    assert "loading ä model" in words
    assert len(words) <= 80
    assert message.isprintable()  # no line break, no escape sequence
    assert not re.search(r"b'|\\x|\\n", message)


def test_an_unknown_answer_of_sync_is_told_as_text() -> None:
    refusal = _refusal(Here(), None, b"D\x00NE", 0, "/data/x", None)  # type: ignore[arg-type]
    assert isinstance(refusal, RemoteError)
    assert str(refusal) == "127.0.0.1:7000: /data/x: sync answered D\ufffdNE"


@pytest.mark.parametrize(
    ("wrote", "shown"),
    [
        (b"", "nothing"),
        (b" \r\n\t ", "nothing"),
        (b"one\n\ntwo\t three", "one two three"),
        (b"bad \xff byte", "bad \ufffd byte"),
        ("text\x1b[1m", "text\ufffd[1m"),
        (b"x" * 80, "x" * 80),
        (b"y" + b"x" * 80, "…" + "x" * 79),
        ("ä".encode() * 500 + b"z", "…" + "ä" * 78 + "z"),
    ],
)
def test_last_words_are_one_line_of_80_characters(wrote: bytes | str, shown: str) -> None:
    assert last_words(wrote) == shown


def test_a_full_disk_is_still_to_be_read_in_the_last_words() -> None:
    assert last_words("mv: /data/" + "long/" * 60 + "x: No space left on device\n").endswith(
        ": No space left on device"
    )


@pytest.mark.parametrize(("value", "shown"), [(14.7443, "14.7 s"), (0.05, "0.05 s"), (30, "30 s"), (1800.0, "1800 s")])
def test_a_limit_is_rounded_for_people(value: float, shown: str) -> None:
    assert seconds(value) == shown
