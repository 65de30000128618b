"""What tells a runner that its lease lives: the file `renewed` in its folder, rewritten at every renewal.

The runner knows no database. When the file has not changed for the fence time on the runner's own clock, it stops
itself, before the server gives the device to somebody else.
"""

from __future__ import annotations

import os
import time
from pathlib import Path


def write_renewed(folder: Path) -> None:
    """Say that the lease was renewed just now; a folder that is gone needs no word."""
    partial = folder / f".renewed.{os.getpid()}"
    try:
        partial.write_text(f"{time.monotonic_ns()}\n")
        partial.replace(folder / "renewed")
    except FileNotFoundError:
        return
