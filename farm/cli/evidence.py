"""`farm evidence KIND FILE|-`: what a device or an engine printed, as facts in JSON. It needs no farm.

A file may be plain text in UTF-8 or UTF-16, compressed (gzip, zstd), or a bugreport's archive (zip). It is read as a
stream; lines, files and the whole are bounded, and nothing of it is ever executed or written.
"""

from __future__ import annotations

import gzip
import io
import itertools
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

import click

from farm.cli.errors import CliError
from farm.cli.output import print_json
from farm.domain.names import did_you_mean
from farm.domain.outcomes import ExitCode

MAX_LINE = 1 << 18
#: Bounds of an archive: files looked at, bytes of each when unpacked, bytes of an archive that comes from a pipe.
MAX_FILES = 5_000
MAX_FILE_BYTES = 4 << 30
MAX_PIPED_BYTES = 2 << 30
_ENGINE = "engine:"
_ZIP, _GZIP, _ZSTD = b"PK\x03\x04", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_PEEK = 60
#: What of a bugreport's archive is text that tells something; the report itself first.
_WANTED = (
    re.compile(r"(?:^|/)bugreport[^/]*\.txt$|(?:^|/)dumpstate[^/]*\.txt$"),
    re.compile(r"^[^/]+\.(?:txt|log)$"),
    re.compile(r"(?:^|/)(?:anr|tombstones)/[^/]+$"),
    re.compile(
        r"(?:^|/)dropbox/[^/]+\.(?:txt|gz)$|(?:^|/)last_kmsg[^/]*$|(?:^|/)console-ramoops[^/]*$|(?:^|/)bootstat/"
    ),
)
_BINARY = re.compile(r"\.(?:pb|proto|png|jpg|db|dat|perfetto-trace|pftrace|zip|apk|so)$")


@click.command("evidence")
@click.argument("kind", required=False)
@click.argument("file", required=False, type=click.Path(path_type=Path))
def command(kind: str | None, file: Path | None) -> int:
    """Facts from what a device or an engine printed, as JSON.

    KIND is a kind of evidence, engine:TOOL, or auto: recognise it, also inside a log or a bugreport. FILE may be - for
    standard input. Without arguments: the kinds.
    """
    if kind is None:
        _list()
        return 0
    _check(kind)
    if file is None:
        raise CliError("evidence: no FILE", f"farm evidence {kind} FILE, or - for standard input", ExitCode.REFUSED)
    try:
        with _open(file) as stream:
            print_json(read(kind, stream, str(file)))
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        raise CliError(
            f"{file}: {error}", "is it a text, or one compressed with gzip, zstd or zip?", ExitCode.REFUSED
        ) from error
    return 0


def _list() -> None:
    from farm.evidence import engines
    from farm.evidence.registry import KINDS

    for entry in KINDS.values():
        click.echo(f"{entry.name:<18}{entry.words}")
    click.echo(f"{'auto':<18}recognise it, also inside a log or a bugreport (text, gzip, zip)")
    click.echo(f"{'engine:TOOL':<18}{', '.join(engines.tools())}")


def _check(kind: str) -> None:
    from farm.evidence import engines
    from farm.evidence.registry import KINDS

    known = [*KINDS, "auto", *(_ENGINE + tool for tool in engines.tools())]
    if kind in known:
        return
    if kind.startswith(_ENGINE):
        try:
            engines.parse(kind.removeprefix(_ENGINE), [])
        except engines.UnknownTool as error:
            raise CliError(str(error), "`farm evidence` lists them", ExitCode.REFUSED) from error
        return
    hint = did_you_mean(kind, known) or "`farm evidence` lists them"
    raise CliError(f"there is no kind of evidence {kind!r}", hint, ExitCode.REFUSED)


def _open(file: Path) -> IO[bytes]:
    if str(file) != "-":
        if not file.is_file():
            raise CliError(f"{file} is no file", "give the path of a file, or - for standard input", ExitCode.REFUSED)
        return file.open("rb")
    stream = sys.stdin.buffer
    if _peek(stream) != _ZIP:
        return stream
    spool = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
    copied = 0
    while chunk := stream.read(1 << 20):
        copied += len(chunk)
        if copied > MAX_PIPED_BYTES:
            raise CliError("the archive on standard input is too large", "give its path instead", ExitCode.REFUSED)
        spool.write(chunk)
    spool.seek(0)
    return spool


def read(kind: str, stream: IO[bytes], name: str) -> dict[str, Any]:
    """The facts of `kind` in an open file. An archive is taken apart; a whole bugreport is read by its sections."""
    from farm.evidence.auto import Auto

    head = _peek(stream)
    if head == _ZIP:
        auto = Auto()
        for entry, lines in _entries(stream):
            auto.feed_file(entry, lines)
        return _of_kind(kind, auto.finish())
    lines = _lines(_unpacked(stream, head))
    if kind.startswith(_ENGINE):
        from farm.evidence import engines

        return engines.parse(kind.removeprefix(_ENGINE), lines).to_json()
    start = list(itertools.islice(lines, _PEEK))
    report = any(line.startswith(("== dumpstate: ", "Bugreport format version: ")) for line in start)
    return _read_text(kind, itertools.chain(start, lines), report)


def _read_text(kind: str, lines: Iterable[str], report: bool) -> dict[str, Any]:
    from farm.evidence.auto import Auto
    from farm.evidence.registry import parse

    if kind != "auto" and not report:
        return parse(kind, lines)
    auto = Auto()
    for line in lines:
        auto.feed(line)
    return _of_kind(kind, auto.finish())


def _of_kind(kind: str, answer: dict[str, Any]) -> dict[str, Any]:
    """What `auto` found of one kind."""
    from farm.evidence.registry import parse

    if kind == "auto":
        return answer
    if kind.startswith(_ENGINE):
        raise CliError("an engine's output is no archive", "unpack it and give the file", ExitCode.REFUSED)
    if answer["kind"] == kind:
        return {key: value for key, value in answer.items() if key not in ("also", "lines")}
    return answer["also"].get(kind) or parse(kind, [])


def _unpacked(stream: IO[bytes], head: bytes) -> IO[bytes]:
    if head.startswith(_GZIP):
        return cast(IO[bytes], gzip.GzipFile(fileobj=stream))
    if head == _ZSTD:
        import zstandard

        return cast(
            IO[bytes], io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True))
        )
    return stream


def _peek(stream: IO[bytes]) -> bytes:
    peek = getattr(stream, "peek", None)
    if peek is not None:
        return bytes(peek(4)[:4])
    head = stream.read(4)
    stream.seek(0)
    return head


def _entries(stream: IO[bytes]) -> Iterator[tuple[str, Iterator[str]]]:
    with zipfile.ZipFile(stream) as archive:
        infos = [
            info
            for info in archive.infolist()[: 10 * MAX_FILES]
            if not info.is_dir() and not _BINARY.search(info.filename)
        ]
        ranked = [(rank, info) for info in infos if (rank := _rank(info.filename)) is not None]
        for _, info in sorted(ranked, key=lambda entry: (entry[0], entry[1].filename))[:MAX_FILES]:
            if info.file_size > MAX_FILE_BYTES or info.flag_bits & 1:
                continue
            with archive.open(info) as packed:
                head = _GZIP if info.filename.endswith(".gz") else b""
                yield info.filename, _lines(_unpacked(packed, head), MAX_FILE_BYTES)


def _rank(name: str) -> int | None:
    return next((rank for rank, pattern in enumerate(_WANTED) if pattern.search(name)), None)


def _lines(stream: IO[bytes], most: int | None = None) -> Iterator[str]:
    """Lines of bounded length; what is beyond is dropped with its line, and bytes that are no text are marked."""
    encoding, taken = "utf-8", 0
    first = stream.readline(MAX_LINE)
    if first[:2] in (b"\xff\xfe", b"\xfe\xff"):
        yield from _utf16(stream, first)
        return
    whole = True
    for raw in itertools.chain([first.removeprefix(b"\xef\xbb\xbf")], iter(lambda: stream.readline(MAX_LINE), b"")):
        taken += len(raw)
        if most is not None and taken > most:
            return
        if whole and raw:
            yield raw.decode(encoding, errors="replace")
        whole = raw.endswith(b"\n")


def _utf16(stream: IO[bytes], first: bytes) -> Iterator[str]:
    """What a Windows shell writes when output is redirected."""
    import codecs

    decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
    rest = decoder.decode(first)
    while chunk := stream.read(1 << 16):
        rest += decoder.decode(chunk)
        *lines, rest = rest.split("\n")
        yield from lines
        rest = rest[:MAX_LINE]
    yield rest
