"""Stamps and hashes of files on a device: one call for all of them.

The device-side tool (`farm-devtool stat|hash --list-file -`, JSON lines) does it fast; without it the system's own
`stat` and `sha256sum` do, several times slower.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from farm.adb.device import Device
from farm.adb.errors import RemoteError

#: The slowest flash that is waited for.
_SLOWEST_BYTES_PER_S = 20 << 20
#: A line about one file; a bundle has at most some ten thousand.
_MAX_OUTPUT = 32 << 20
_SECONDS_FORMAT = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a file looked like when its content was last read: any change of it shows here."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    def same_content(self, other: Stamp) -> bool:
        """Equal but for the inode's change time, which a new link or a chmod moves as well."""
        return (self.inode, self.size, self.mtime_ns) == (other.inode, other.size, other.mtime_ns)


@dataclass(frozen=True, slots=True)
class Hashed:
    stamp: Stamp
    sha256: str


class FileTool:
    """`program`: where the device-side tool is on the device; None: there is none."""

    def __init__(self, device: Device, program: str | None) -> None:
        self._device = device
        self._program = program

    def stat(self, paths: Sequence[str]) -> dict[str, Stamp]:
        """The stamps of those that are there; links are followed."""
        if not paths:
            return {}
        if self._program is not None:
            return {path: found for path, (found, _) in self._ask("stat", paths, 0).items()}
        text = self._device.shell(
            ["xargs", "-0", "stat", "-L", "-c", "%i|%s|%y|%z|%n"], 60, _nul(paths), _MAX_OUTPUT
        ).stdout
        return dict(_system_stats(text))

    def hash(self, paths: Sequence[str], total_bytes: int) -> dict[str, Hashed]:
        """The SHA-256 of those that are there. `total_bytes`, their size, decides how long it may take."""
        if not paths:
            return {}
        if self._program is not None:
            found = self._ask("hash", paths, total_bytes)
            return {path: Hashed(stamp, sha) for path, (stamp, sha) in found.items() if sha is not None}
        before = self.stat(paths)
        result = self._device.shell(["xargs", "-0", "sha256sum"], _limit(total_bytes), _nul(paths), _MAX_OUTPUT)
        if not result.stdout and result.exit_code == 127:
            raise RemoteError(f"{self._device.address} has no sha256sum", remedy="give the bundle a farm-devtool")
        after = self.stat(paths)
        return {
            path: Hashed(after[path], sha)
            for path, sha in _sums(result.stdout)
            if path in after and before.get(path) == after[path]
        }

    def _ask(self, verb: str, paths: Sequence[str], total_bytes: int) -> dict[str, tuple[Stamp, str | None]]:
        assert self._program is not None
        stdin = "".join(f"{path}\n" for path in paths).encode()
        result = self._device.shell(
            [self._program, verb, "--list-file", "-"], _limit(total_bytes), stdin, max_output=_MAX_OUTPUT
        )
        if result.exit_code not in (0, 1):  # 1: some are not there
            raise RemoteError(
                f"{self._device.address}: {self._program} {verb} ended with {result.exit_code}: {result.stderr[:200]}",
                remedy="the device-side tool of this bundle does not run on this device: is it built for its ABI?",
            )
        return dict(parse_tool_lines(result.stdout))


def parse_tool_lines(text: str) -> Iterable[tuple[str, tuple[Stamp, str | None]]]:
    """Lines of `farm-devtool stat` and `hash`; those that tell an error are left out."""
    for line in text.splitlines():
        try:
            entry = json.loads(line)
            stamp = Stamp(int(entry["inode"]), int(entry["size"]), int(entry["mtime_ns"]), int(entry["ctime_ns"]))
            sha = entry.get("sha256")
            yield str(entry["path"]), (stamp, str(sha) if sha is not None else None)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue


def _system_stats(text: str) -> Iterable[tuple[str, Stamp]]:
    for line in text.splitlines():
        inode, _, rest = line.partition("|")
        size, _, rest = rest.partition("|")
        mtime, _, rest = rest.partition("|")
        ctime, _, path = rest.partition("|")
        try:
            yield path, Stamp(int(inode), int(size), _nanoseconds(mtime), _nanoseconds(ctime))
        except ValueError:
            continue


def _nanoseconds(text: str) -> int:
    """`2026-11-29 22:02:58.343109561 +0000` → ns since 1970."""
    seconds, _, rest = text.partition(".")
    fraction, _, zone = rest.partition(" ")
    whole = datetime.strptime(f"{seconds} {zone}", f"{_SECONDS_FORMAT} %z")
    return int(whole.timestamp()) * 1_000_000_000 + int(fraction)


def _sums(text: str) -> Iterable[tuple[str, str]]:
    for line in text.splitlines():
        sha, blank, path = line.partition("  ")
        if blank and len(sha) == 64:
            yield path, sha


def _nul(paths: Sequence[str]) -> bytes:
    return b"".join(path.encode() + b"\0" for path in paths)


def _limit(total_bytes: int) -> float:
    return 60 + total_bytes / _SLOWEST_BYTES_PER_S
