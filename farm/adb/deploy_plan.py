"""What a deploy has to do, decided from what was seen: pure.

A file of a bundle is kept on the device once, under its hash, and hard-linked into every bundle that has it. After it
was pushed and read back, its stamp is noted on the host; as long as the device shows the same stamp, the content is the
same. Executables are read back in every deploy (once per lease), everything when there is doubt.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from farm.adb.file_tool import Stamp

#: What stays free after a deploy, for what the run itself writes.
RESERVE_BYTES = 32 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_REMOTE_MAX = 512


@dataclass(frozen=True, slots=True)
class FileSpec:
    """One file of a bundle. `remote` is relative to the target folder; of `mode` only "executable or not" counts."""

    remote: str
    local: Path
    sha256: str
    size: int
    mode: int = 0o644

    @property
    def executable(self) -> bool:
        return bool(self.mode & 0o111)


@dataclass(frozen=True, slots=True)
class DeployPlan:
    """`send`, `rehash` and `keep` part the different contents among them; `link` are files to put into the target."""

    send: tuple[FileSpec, ...]
    rehash: tuple[FileSpec, ...]
    keep: tuple[FileSpec, ...]
    link: tuple[FileSpec, ...]

    @property
    def bytes_to_send(self) -> int:
        return sum(spec.size for spec in self.send)


def check_files(files: Sequence[FileSpec]) -> None:
    """ValueError for a file that must not be deployed: a path that leaves the target, a name that breaks a line."""
    seen: set[str] = set()
    for spec in files:
        parts = spec.remote.split("/")
        if not spec.remote or any(part in ("", ".", "..") for part in parts) or len(spec.remote.encode()) > _REMOTE_MAX:
            raise ValueError(f"{spec.remote!r}: a remote path is relative, without '.', '..' or empty parts")
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in spec.remote):
            raise ValueError(f"{spec.remote!r}: a remote path has no control characters")
        if not _SHA256.match(spec.sha256):
            raise ValueError(f"{spec.remote}: {spec.sha256!r} is no SHA-256")
        if spec.remote in seen:
            raise ValueError(f"{spec.remote}: twice in one bundle")
        seen.add(spec.remote)
    for remote in seen:
        if any(parent in seen for parent in _parents(remote)):
            raise ValueError(f"{remote}: lies in a file of the same bundle")


def _parents(remote: str) -> Iterable[str]:
    while "/" in remote:
        remote = remote.rpartition("/")[0]
        yield remote


def contents(files: Sequence[FileSpec]) -> list[FileSpec]:
    """One spec per different content, in order; executable if any of them is."""
    chosen: dict[str, FileSpec] = {}
    for spec in files:
        if spec.sha256 not in chosen or (spec.executable and not chosen[spec.sha256].executable):
            chosen[spec.sha256] = spec
    return list(chosen.values())


def plan_deploy(
    files: Sequence[FileSpec],
    present: Mapping[str, Stamp],
    stamped: Mapping[str, Stamp],
    linked: Mapping[str, Stamp],
    *,
    doubt: bool = False,
) -> DeployPlan:
    """What to send, read back, trust and link.

    `present`: hash → the stamp that the cached file has now; `stamped`: hash → the stamp under which its content was
    last read; `linked`: remote path → the stamp of what is in the target now.
    """
    send, rehash, keep = [], [], []
    for spec in contents(files):
        stamp = present.get(spec.sha256)
        if stamp is None or stamp.size != spec.size:
            send.append(spec)
        elif doubt or spec.executable or stamped.get(spec.sha256) != stamp:
            rehash.append(spec)
        else:
            keep.append(spec)
    return DeployPlan(tuple(send), tuple(rehash), tuple(keep), files_to_link(files, present, linked, send))


def files_to_link(
    files: Sequence[FileSpec],
    present: Mapping[str, Stamp],
    linked: Mapping[str, Stamp],
    send: Sequence[FileSpec],
) -> tuple[FileSpec, ...]:
    """Files whose place in the target is not the cached file itself."""
    new = {spec.sha256 for spec in send}
    return tuple(
        spec
        for spec in files
        if spec.sha256 in new or spec.remote not in linked or linked[spec.remote].inode != present[spec.sha256].inode
    )


def carried(stamped: Mapping[str, Stamp], before: Mapping[str, Stamp], after: Mapping[str, Stamp]) -> dict[str, Stamp]:
    """`stamped` after we ourselves linked, unlinked or chmod-ed: what was right stays right under its new stamp."""
    result = {}
    for sha, stamp in stamped.items():
        right = before.get(sha) == stamp
        now = after.get(sha)
        if now is None or not right:
            result[sha] = stamp
        elif now.same_content(stamp):
            result[sha] = now
    return result


def plan_eviction(cached: Mapping[str, Stamp], needed_here: Collection[str], bytes_wanted: int) -> list[str]:
    """Which cached contents to delete so that `bytes_wanted` become free: the longest unused first, never one that is
    needed here. Empty when all of them together are not enough: then nothing is gained by deleting.
    """
    chosen: list[str] = []
    freed = 0
    for sha in sorted((sha for sha in cached if sha not in needed_here), key=lambda sha: cached[sha].ctime_ns):
        if freed >= bytes_wanted:
            break
        chosen.append(sha)
        freed += cached[sha].size
    return chosen if freed >= bytes_wanted else []


_PUT = """put() {
  [ -d "$2" ] && rm -rf "$2"
  ln -f "$1" "$2" 2>/dev/null || ln -sf "$1" "$2" 2>/dev/null ||
    { cp "$1" "$2.part" && mv -f "$2.part" "$2"; } || exit 1
}"""


def link_script(
    target: str, link: Sequence[FileSpec], extras: Sequence[str], changed: Collection[str], cached: Callable[[str], str]
) -> str:
    """A script for `sh` that removes `extras`, gives executables back their mode and puts `link` into `target`."""
    folders = sorted({os.path.dirname(f"{target}/{spec.remote}") for spec in link})
    lines = [_PUT]
    lines += [f"rm -rf {shlex.quote(path)}" for path in extras]
    lines += [f"mkdir -p {shlex.quote(folder)} || exit 1" for folder in folders]
    for spec in contents(link):
        path = cached(spec.sha256)
        if spec.executable:
            lines.append(f"[ -x {path} ] || chmod 755 {path}")
        elif spec.sha256 in changed:
            lines.append(f"[ -r {path} ] || chmod 644 {path}")
    lines += [f"put {cached(spec.sha256)} {shlex.quote(f'{target}/{spec.remote}')}" for spec in link]
    return "\n".join(lines) + "\n"
