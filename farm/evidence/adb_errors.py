"""What adb says when something does not work: one class, and what it is about.

A text may hold several of its lines: the server was of another version, was restarted, and then the device was not
there yet. The rules stand in the order of what explains most; `ok` only where nothing failed. `1 file pushed` is
printed after a failed copy too and is no proof. Sources of the wordings: AOSP `packages/modules/adb` (client,
transport.cpp, adb_auth, file_sync_client.cpp) and its predecessors in `system/core/adb`, Android 4 to 15.
"""

from __future__ import annotations

import re

from farm.evidence.lines import Facts, Unknown, clean

NEEDLES = (
    "adb: error",
    "error: device",
    "protocol fault",
    "daemon not running",
    "doesn't match this client",
    "file pushed",
    "files pushed",
    "device unauthorized",
    "no devices/emulators",
    "more than one device",
    "failed to copy",
)

_RULES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.I))
    for name, pattern in (
        (
            "protocol_fault",
            r"protocol fault|unexpected (?:packet|data|reply)|failed to read (?:command|response): (?:no error"
            r"|undefined error)"
            r"|couldn't read status|invalid (?:checksum|packet)",
        ),
        (
            "daemon_start_failed",
            r"didn't ACK|cannot (?:bind|connect to daemon)|could not install \*?smartsocket\*? listener"
            r"|failed to start daemon"
            r"|could not (?:start|read ok from) (?:the )?adb (?:server|daemon)|adb: unable to start"
            r"|Address already in use|cannot open '?.{0,80}adb\.log"
            r"|daemon still not running|failed to check server version: cannot connect",
        ),
        ("device_unauthorized", r"unauthorized|still authorizing|vendor_keys"),
        (
            "usb_permission",
            r"no permissions|insufficient permissions|access denied \(insufficient"
            r"|user .{0,60}not in the plugdev|missing udev rules",
        ),
        (
            "ambiguous_device",
            r"more than one (?:device|emulator)|more than one .{0,30}connected|Multiple \(\d+\) ADB devices",
        ),
        (
            "no_space",
            r"No space left on device|INSTALL_FAILED_INSUFFICIENT_STORAGE|not enough space|disk (?:is )?full"
            r"|Requested internal only, but not enough"
            r"|ENOSPC",
        ),
        (
            "read_only",
            r"(?:remount|mount).{0,120}(?:Read-only|failed|not permitted)"
            r"|^\S{0,80}:? ?(?:mkdir|cannot create|touch|rm|cp|mv)\b"
            r".{0,200}Read-only file system|verity.{0,40}enabled",
        ),
        (
            "push_failed",
            r"failed to copy|cannot stat|stat failed when trying to (?:push|pull)|remote (?:couldn't|could not"
            r"|secure_mkdirs|fchown|write|object|open|fchmod|symlink|No such)"
            r"|secure_mkdirs failed|couldn't create file|(?:push|pull|sync) failed|failed to (?:stat|open|send"
            r"|read|write) (?:remote|local)? ?(?:object|file|'?/)"
            r"|target .{0,200} is not a directory|adb: error: (?:cannot|failed to (?:open|read|write|close|seek))",
        ),
        ("device_offline", r"device offline|device is offline|\boffline\b\s*$|error: device '.{0,200}' is offline"),
        ("device_not_found", r"device '.{0,200}' not found|device \S{1,200} not found|device not found|unknown device"),
        (
            "server_version_mismatch",
            r"server (?:version \(\d+\)|is out of date).{0,60}|doesn't match this client" r"|is newer than this client",
        ),
        (
            "device_not_found",
            r"no devices?(?:/emulators)?(?: found)?\b|no emulators found|device not found"
            r"|waiting for (?:any )?device",
        ),
        (
            "connection_lost",
            r"error: closed|^closed$|connection (?:reset|refused|timed out|closed|lost)|broken pipe"
            r"|failed to connect to|unable to connect to"
            r"|cannot connect to \S+:\d+|No route to host|connect failed|cannot resolve host|: closed$"
            r"|lost connection|device disconnected"
            r"|disconnected unexpectedly|transport (?:error|id .{0,20} not found)|\bEOF\b"
            r"|failed to get feature set: (?!device)|Network is unreachable|host is down|read from transport"
            r"|device .{0,80}was (?:removed|disconnected)",
        ),
        ("read_only", r"Read-only file system"),
    )
)
_OK = re.compile(
    r"(\d{1,9}) files? (pushed|pulled)(?:, (\d{1,9}) skipped)?\.?(?: (\d{1,9}(?:\.\d{1,6})?) ?MB/s)?(?"
    r": \((\d{1,18}) bytes in (\d{1,9}(?:\.\d{1,9})?)s\))?"
)
_OLD_OK = re.compile(r"^(\d{1,9}) KB/s \((\d{1,18}) bytes in (\d{1,9}\.\d{1,6})s\)")
_SUCCESS = re.compile(
    r"^\s*(?:Success|connected to \S+|already connected to \S+|restarting in TCP mode.*"
    r"|remount succeeded|restarting adbd as root"
    r"|adbd is already running as root)\s*$",
    re.I,
)
#: What the client prints on its way, and its advice: neither success nor failure.
_CHATTER = re.compile(
    r"daemon not running|daemon started successfully|^Performing (?:Streamed|Push|Incremental) Install"
    r"|^Try 'adb kill-server'"
    r"|^Otherwise check|^This adb server's",
    re.I,
)
_LISTED = re.compile(r"^\S.{0,200}\s(?:device|recovery|sideload|rescue)(?:\s|$)")
_VERSIONS = re.compile(r"server version \((\d{1,4})\) doesn't match this client \((\d{1,4})\)")
_STATUS = re.compile(r"protocol fault \(status ((?:[0-9a-f]{2} ?){1,8})")
_COPY = re.compile(r"failed to copy '(.{0,300}?)' to '(.{0,300}?)': (.{1,300})")
_SERIAL = re.compile(r"device '(.{1,200}?)' not found|host:transport:([^)\s]{1,200})")


class AdbErrors:
    """Feed it what adb printed, on either stream."""

    def __init__(self) -> None:
        self._rank: int | None = None
        self._message: str | None = None
        self._facts: Facts = {}
        self._good = False
        self._good_alone = False
        self._unknown = Unknown()
        self._classes: list[str] = []

    def feed(self, raw: str) -> None:
        line = clean(raw).strip()
        if not line or line.startswith("List of devices"):
            return
        self._detail(line)
        rank = next((index for index, (_, pattern) in enumerate(_RULES) if pattern.search(line)), None)
        if rank is not None:
            self._failed(rank, line)
        elif not self._succeeded(line) and not _CHATTER.search(line):
            self._unknown.add(line)

    def _failed(self, rank: int, line: str) -> None:
        name = _RULES[rank][0]
        if name not in self._classes:
            self._classes.append(name)
        if self._rank is None or rank < self._rank:
            self._rank, self._message = rank, line[:500]

    def _succeeded(self, line: str) -> bool:
        if match := _OK.search(line):
            self._good = True
            files, _, skipped, rate, size, seconds = match.groups()
            self._facts["files"] = int(files)
            self._sizes(skipped, rate, size, seconds)
            return True
        if match := _OLD_OK.match(line):
            self._good = True
            self._sizes(None, None, match[2], match[3])
            return True
        if _SUCCESS.match(line) or _LISTED.match(line):
            self._good_alone = True
            return True
        return False

    def _sizes(self, skipped: str | None, rate: str | None, size: str | None, seconds: str | None) -> None:
        """Bytes and seconds; adb's `MB/s` are mebibytes per second."""
        if skipped:
            self._facts["skipped"] = int(skipped)
        if rate and float(rate) > 0:
            self._facts["rate_MiB_per_s"] = float(rate)
        if size and seconds:
            self._facts["bytes"] = int(size)
            self._facts["seconds"] = float(seconds) if float(seconds) > 0 else None

    def _detail(self, line: str) -> None:
        if match := _VERSIONS.search(line):
            self._facts.update(server_version=int(match[1]), client_version=int(match[2]))
        if match := _STATUS.search(line):
            self._facts["status_bytes"] = match[1].strip()
            self._facts["status_text"] = "".join(
                chr(int(b, 16)) if 32 <= int(b, 16) < 127 else "." for b in match[1].split()
            )
        if match := _COPY.search(line):
            self._facts.update(source=match[1], target=match[2], reason=match[3])
        if match := _SERIAL.search(line):
            self._facts.setdefault("serial", match[1] or match[2])

    def finish(self) -> Facts:
        name = (
            _RULES[self._rank][0] if self._rank is not None else "ok" if self._good or self._good_alone else "unknown"
        )
        facts: Facts = {"class": name, "message": self._message, **self._facts}
        if len(self._classes) > 1:
            facts["also"] = [other for other in self._classes if other != name]
        if self._good and name != "ok":
            facts["success_line_is_no_proof"] = True
        return {**facts, **self._unknown.facts()}
