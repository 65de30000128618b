"""Getting a bundle onto a device by sending only what it lacks.

    /data/local/tmp/farm/cas/<sha256>      each content once; `.part` while it arrives
    /data/local/tmp/farm/b/<bundle>/…      a bundle: hard links into the cache (symbolic ones, or copies, where these
                                           are not allowed)

What is decided from what is in `deploy_plan`; this module looks and does.
"""

from __future__ import annotations

import logging
import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from farm.adb import stamp_file
from farm.adb.deploy_plan import (
    RESERVE_BYTES,
    DeployPlan,
    FileSpec,
    carried,
    check_files,
    contents,
    files_to_link,
    link_script,
    plan_deploy,
    plan_eviction,
)
from farm.adb.device import Device
from farm.adb.errors import Cancelled, NoSpace, RemoteError, WrongContent
from farm.adb.file_tool import FileTool, Stamp

__all__ = [
    "BUNDLES_DIR",
    "CAS_DIR",
    "FARM_DIR",
    "DeployPlan",
    "DeployReport",
    "FileSpec",
    "Stamp",
    "deploy",
    "plan_deploy",
]

log = logging.getLogger(__name__)

FARM_DIR = "/data/local/tmp/farm"
CAS_DIR = f"{FARM_DIR}/cas"
BUNDLES_DIR = f"{FARM_DIR}/b"

#: Contents are read back, and so kept whatever happens next, after every so many bytes.
_VERIFY_EVERY_BYTES = 64 << 20
#: Tries per file: the content on the device differs from what was sent only when something is badly wrong.
_TRIES = 2


@dataclass(frozen=True, slots=True)
class DeployReport:
    bytes_sent: int
    bytes_kept: int
    files_sent: int
    verified: int  # contents that were read back and hashed in this deploy
    seconds_push: float
    seconds_verify: float
    bytes_evicted: int = 0


def deploy(
    device: Device,
    files: Sequence[FileSpec],
    target_dir: str,
    *,
    devtool: FileSpec | None,
    stamps: Path | None = None,
    doubt: bool = False,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> DeployReport:
    """Make `target_dir` hold `files` and nothing else.

    `devtool`: the device-side tool for this device's ABI; without it the system's `stat` and `sha256sum` do its work,
    slower. `stamps`: this device's stamp file on the host; without one everything is read back. `progress` gets the
    bytes sent and to be sent. After an error the target is not to be used; nothing half sent stays under a final name,
    and the next deploy goes on from what was read back.

    Raises NoSpace (nothing was sent), Cancelled, RemoteError, ValueError (a file that must not be deployed),
    DeviceUnavailable, AdbServerGone.
    """
    check_files(files)
    check_files([devtool] if devtool else [])  # it may be one of the bundle's own files
    return _Deploy(device, files, target_dir, stamps, doubt, progress, cancelled).run(devtool)


def cached_path(sha256: str) -> str:
    return f"{CAS_DIR}/{sha256}"


class _Deploy:
    """One deploy under way: what was seen, and what was done so far."""

    def __init__(
        self,
        device: Device,
        files: Sequence[FileSpec],
        target_dir: str,
        stamps: Path | None,
        doubt: bool,
        progress: Callable[[int, int], None] | None,
        cancelled: Callable[[], bool] | None,
    ) -> None:
        self.device, self.files, self.target = device, files, target_dir.rstrip("/")
        self.stamps_file, self.doubt = stamps, doubt
        self.progress, self.cancelled = progress or (lambda done, total: None), cancelled or (lambda: False)
        self.stamped = stamp_file.load(stamps)
        self.tool = FileTool(device, None)
        self.present: dict[str, Stamp] = {}  # hash → what is in the cache now
        self.proven: set[str] = set()  # hashes of what is in the cache and was read back already
        self.changed: set[str] = set()  # hashes whose stamp was not the noted one
        self.sent_tool: set[str] = set()
        self.free: int | None = None
        self.extras: list[str] = []
        self.sent = self.files_sent = self.verified = self.evicted = 0
        self.seconds_push = self.seconds_verify = 0.0

    def run(self, devtool: FileSpec | None) -> DeployReport:
        self.proven = self._prepare(devtool)
        try:
            plan = self._plan()
            self._make_room(plan)
            self._send(plan.send, plan.bytes_to_send)
            if plan.link or self.extras:
                self._link(plan)
        finally:
            stamp_file.save(self.stamps_file, self.stamped)
        return DeployReport(
            bytes_sent=self.sent,
            bytes_kept=sum(spec.size for spec in (*plan.keep, *plan.rehash) if spec.sha256 not in self.sent_tool),
            files_sent=self.files_sent,
            verified=self.verified,
            seconds_push=round(self.seconds_push, 3),
            seconds_verify=round(self.seconds_verify, 3),
            bytes_evicted=self.evicted,
        )

    # ---- looking ----

    def _prepare(self, devtool: FileSpec | None) -> set[str]:
        """Folders, left-overs, free space, the device-side tool. Returns the hashes that are proven already."""
        self._check_cancelled()
        tool_path = cached_path(devtool.sha256) if devtool else None
        quoted = shlex.quote(self.target)
        script = [
            f"mkdir -p {CAS_DIR} {quoted} || exit 9",
            f"rm -f {CAS_DIR}/*.part",
            f"stat -f -c 'free %a %S' {FARM_DIR}",
            f"sha256sum {tool_path} 2>/dev/null" if tool_path else "",
            "echo files",
            f"find {quoted} ! -type d -print0",
        ]
        with self._verifying():
            result = self.device.shell("\n".join(script), timeout_s=120, max_output=16 << 20)
        head, found, listing = result.stdout_bytes.partition(b"files\n")
        if not found:
            raise RemoteError(f"{self.device.address}: cannot prepare {self.target}: {result.stderr.strip()[:300]}")
        lines = head.decode("utf-8", "replace").splitlines()
        self.free = next((_product(line) for line in lines if line.startswith("free ")), None)
        wanted = {f"{self.target}/{spec.remote}".encode() for spec in self.files}
        self.extras = [os.fsdecode(path) for path in listing.split(b"\0") if path and path not in wanted]
        if devtool is None or tool_path is None:
            return set()
        if f"{devtool.sha256}  {tool_path}" not in lines:
            self._send_tool(devtool, tool_path)
        self.verified += 1
        self.tool = FileTool(self.device, tool_path)
        return {devtool.sha256}

    def _send_tool(self, devtool: FileSpec, path: str) -> None:
        """The tool is read back by the system's own sha256sum: it cannot vouch for itself."""
        self._require_space(devtool.size)
        with self._pushing():
            self.sent += self.device.send(devtool.local, f"{path}.part", 0o755, cancelled=self.cancelled)
        self.files_sent += 1
        self.sent_tool = {devtool.sha256}
        with self._verifying():
            found = self.tool.hash([f"{path}.part"], devtool.size)
        if found.get(f"{path}.part") is None or found[f"{path}.part"].sha256 != devtool.sha256:
            raise WrongContent(f"{self.device.address}: the device-side tool differs after the push")
        self.device.check_shell(["mv", "-f", f"{path}.part", path])

    def _plan(self) -> DeployPlan:
        with self._verifying():
            found = self.tool.stat([*map(cached_path, self._hashes()), *map(self._place, self.files)])
        present = {sha: found[cached_path(sha)] for sha in self._hashes() if cached_path(sha) in found}
        linked = {spec.remote: found[self._place(spec)] for spec in self.files if self._place(spec) in found}
        plan = plan_deploy(self.files, present, self.stamped, linked, doubt=self.doubt)
        self.present = present
        self.changed = {spec.sha256 for spec in plan.rehash if self.stamped.get(spec.sha256) != present[spec.sha256]}
        bad = self._rehash([spec for spec in plan.rehash if spec.sha256 not in self.proven])
        for spec in plan.rehash:
            if spec.sha256 in self.proven:
                self.stamped[spec.sha256] = present[spec.sha256]
        send = (*plan.send, *bad)
        return DeployPlan(
            send=send,
            rehash=tuple(spec for spec in plan.rehash if spec not in bad),
            keep=plan.keep,
            link=files_to_link(self.files, present, linked, send),
        )

    def _rehash(self, specs: Sequence[FileSpec]) -> list[FileSpec]:
        """Read back; those whose content is another are returned, and no longer trusted."""
        bad = []
        with self._verifying():
            found = self.tool.hash([cached_path(spec.sha256) for spec in specs], sum(spec.size for spec in specs))
        for spec in specs:
            self.verified += 1
            hashed = found.get(cached_path(spec.sha256))
            if hashed is not None and hashed.sha256 == spec.sha256:
                self.stamped[spec.sha256] = self.present[spec.sha256] = hashed.stamp
            else:
                log.warning("%s: %s is not what it was: sending it again", self.device.address, spec.remote)
                self.stamped.pop(spec.sha256, None)
                bad.append(spec)
        return bad

    # ---- doing ----

    def _make_room(self, plan: DeployPlan) -> None:
        if self.free is None or plan.bytes_to_send + RESERVE_BYTES <= self.free:
            return
        if plan.send:
            self._evict(plan.bytes_to_send + RESERVE_BYTES - self.free)
            self._require_space(plan.bytes_to_send)

    def _evict(self, bytes_wanted: int) -> None:
        """Delete other bundles' trees, and the contents that were not used for longest."""
        listing = self.device.check_shell(["ls", CAS_DIR]).split()
        hashes = [name for name in listing if len(name) == 64]
        before = self._stat_cached(hashes)
        victims = plan_eviction(before, {*self._hashes(), *self.proven}, bytes_wanted)
        if not victims:
            return
        here = shlex.quote(self.target)
        trees = f'for tree in {BUNDLES_DIR}/*; do [ "$tree" = {here} ] || rm -rf "$tree"; done'
        names = " ".join(cached_path(sha) for sha in victims)
        self.device.check_shell("sh", 120, f"{trees}\nrm -f {names}\n".encode())
        after = self._stat_cached([sha for sha in hashes if sha not in victims])
        self.stamped = carried({s: v for s, v in self.stamped.items() if s not in victims}, before, after)
        self.present |= {sha: stamp for sha, stamp in after.items() if sha in self.present}
        self.evicted = sum(before[sha].size for sha in victims)
        self.free = self.device.free_bytes(FARM_DIR)
        log.info("%s: %d cached files made room for a bundle (%d bytes)", self.device, len(victims), self.evicted)

    def _require_space(self, needed: int) -> None:
        if self.free is not None and needed + RESERVE_BYTES > self.free:
            raise NoSpace(
                f"{self.device.address}: {needed} bytes are to be sent, {self.free} are free in /data/local/tmp, "
                f"and {RESERVE_BYTES} must stay free",
                needed=needed,
                free=self.free,
            )

    def _send(self, specs: Sequence[FileSpec], total: int) -> None:
        done, batch, batch_bytes = 0, [], 0
        for spec in specs:
            self._push(spec, done, total)
            done += spec.size
            batch.append(spec)
            batch_bytes += spec.size
            if batch_bytes >= _VERIFY_EVERY_BYTES:
                self._accept(batch)
                batch, batch_bytes = [], 0
        self._accept(batch)

    def _push(self, spec: FileSpec, done: int, total: int) -> None:
        self._check_cancelled()
        part = f"{cached_path(spec.sha256)}.part"
        with self._pushing():
            sent = self.device.send(
                spec.local,
                part,
                0o755 if spec.executable else 0o644,
                progress=lambda here: self.progress(done + here, total),
                cancelled=self.cancelled,
            )
        self.sent += sent
        self.files_sent += 1

    def _accept(self, specs: Sequence[FileSpec]) -> None:
        """Read back what was pushed, and give it its final name. What differs is pushed once more."""
        for attempt in range(_TRIES):
            good, bad = self._read_back(specs)
            if good:
                moves = [f"mv -f {cached_path(s.sha256)}.part {cached_path(s.sha256)} || exit 1" for s in good]
                self.device.check_shell("sh", 60, "\n".join(moves).encode() + b"\n")
                stamps = self._stat_cached([spec.sha256 for spec in good])
                self.stamped |= stamps
                self.present |= stamps
            if not bad:
                return
            if attempt + 1 < _TRIES:
                for spec in bad:
                    self._push(spec, 0, spec.size)
            specs = bad
        raise WrongContent(
            f"{self.device.address}: {specs[0].remote} differs from what was sent, twice",
            remedy="is the file being changed on the host, or is the device's storage failing?",
        )

    def _read_back(self, specs: Sequence[FileSpec]) -> tuple[list[FileSpec], list[FileSpec]]:
        parts = {f"{cached_path(spec.sha256)}.part": spec for spec in specs}
        with self._verifying():
            found = self.tool.hash(list(parts), sum(spec.size for spec in specs))
        self.verified += len(specs)
        good = [spec for part, spec in parts.items() if part in found and found[part].sha256 == spec.sha256]
        return good, [spec for spec in specs if spec not in good]

    def _link(self, plan: DeployPlan) -> None:
        self._check_cancelled()
        script = link_script(self.target, plan.link, self.extras, self.changed, cached_path)
        self.device.check_shell("sh", 60 + self.sent / (20 << 20), os.fsencode(script))
        with self._verifying():
            found = self.tool.stat([*map(cached_path, self._hashes()), *map(self._place, self.files)])
        after = {sha: found[cached_path(sha)] for sha in self._hashes() if cached_path(sha) in found}
        self.stamped = carried(self.stamped, self.present, after)
        copies = [spec for spec in self.files if not self._is_linked(spec, found)]
        if copies:
            self._check_copies(copies)

    def _is_linked(self, spec: FileSpec, found: Mapping[str, Stamp]) -> bool:
        cached, placed = found.get(cached_path(spec.sha256)), found.get(self._place(spec))
        return cached is not None and placed is not None and cached.inode == placed.inode

    def _check_copies(self, copies: Sequence[FileSpec]) -> None:
        with self._verifying():
            found = self.tool.hash([self._place(spec) for spec in copies], sum(spec.size for spec in copies))
        for spec in copies:
            self.verified += 1
            placed = found.get(self._place(spec))
            if placed is None or placed.sha256 != spec.sha256:
                raise WrongContent(f"{self.device.address}: {self._place(spec)} is not what was put there")

    # ---- small things ----

    def _hashes(self) -> list[str]:
        return [spec.sha256 for spec in contents(self.files)]

    def _place(self, spec: FileSpec) -> str:
        return f"{self.target}/{spec.remote}"

    def _stat_cached(self, hashes: Sequence[str]) -> dict[str, Stamp]:
        with self._verifying():
            found = self.tool.stat([cached_path(sha) for sha in hashes])
        return {sha: found[cached_path(sha)] for sha in hashes if cached_path(sha) in found}

    def _check_cancelled(self) -> None:
        if self.cancelled():
            raise Cancelled(f"{self.device.address}: the deploy was cancelled after {self.sent} bytes")

    @contextmanager
    def _pushing(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds_push += time.monotonic() - began

    @contextmanager
    def _verifying(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds_verify += time.monotonic() - began


def _product(line: str) -> int | None:
    _, _, numbers = line.partition(" ")
    first, _, second = numbers.partition(" ")
    return int(first) * int(second) if first.isdigit() and second.isdigit() else None
