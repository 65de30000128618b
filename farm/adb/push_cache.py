"""Getting a bundle onto a device by sending only what it lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from farm.adb.device import Device

FARM_DIR = "/data/local/tmp/farm"
CAS_DIR = f"{FARM_DIR}/cas"
BUNDLES_DIR = f"{FARM_DIR}/b"


@dataclass(frozen=True, slots=True)
class FileSpec:
    """One file of a bundle. `remote` is relative to the target folder; `mode` is 0o755 or 0o644."""

    remote: str
    local: Path
    sha256: str
    size: int
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a file looked like when its content was last read: any change of it shows here."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True, slots=True)
class DeployPlan:
    send: tuple[FileSpec, ...]
    rehash: tuple[FileSpec, ...]
    keep: tuple[FileSpec, ...]
    link: tuple[FileSpec, ...]


@dataclass(frozen=True, slots=True)
class DeployReport:
    bytes_sent: int
    bytes_kept: int
    files_sent: int
    verified: int  # files whose content was read back and hashed in this deploy
    seconds_push: float
    seconds_verify: float
    bytes_evicted: int = 0


def plan_deploy(
    files: Sequence[FileSpec],
    present: Mapping[str, Stamp],
    stamped: Mapping[str, Stamp],
    linked: Mapping[str, Stamp],
    *,
    doubt: bool = False,
) -> DeployPlan:
    """What to send, hash again, trust and link (pure)."""
    raise NotImplementedError


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
    """Make `target_dir` hold `files`. `stamps`: this device's stamp file on the host; without one all is hashed.

    `progress(bytes_done, bytes_total)`. Raises NoSpace, Cancelled, DeviceUnavailable, AdbServerGone, RemoteError.
    """
    raise NotImplementedError
