"""The stamps of one device's cached files, in a file on the host: a suite that owns the device cannot forge them."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from farm.adb.file_tool import Stamp

log = logging.getLogger(__name__)


def load(path: Path | None) -> dict[str, Stamp]:
    """The stamps of an earlier deploy; a file that cannot be read means that nothing is known."""
    if path is None:
        return {}
    try:
        files = json.loads(path.read_text())["files"]
        return {str(sha): Stamp(**{key: int(value) for key, value in fields.items()}) for sha, fields in files.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("%s: %s; everything will be read back", path, error)
        return {}


def save(path: Path | None, stamped: Mapping[str, Stamp]) -> None:
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps({"format": 1, "files": {sha: asdict(stamp) for sha, stamp in stamped.items()}}))
    part.replace(path)
