"""Unix sockets in folders of any depth: an address has 107 bytes at most, and an open folder has a short one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """A name of `path` that is short enough to bind or connect to, good while the context lasts. Raises OSError when
    its folder is not there."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
