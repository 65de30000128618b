"""What tells a runner that its lease lives: the file `renewed` in its folder, rewritten at every renewal.

The runner knows no database. When the file has not changed for the fence time on the runner's own clock, it stops
itself, before the server gives the device to somebody else.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path


def write_renewed(folder: Path) -> None:
    """Say that the lease was renewed just now; a folder that is gone needs no word. Raises OSError.

    Written in place, for a host whose disk is full keeps its leases: any other text than before is a renewal.
    """
    data = f"{time.monotonic_ns():020d}\n".encode()
    partial = folder / f".renewed.{os.getpid()}"
    with suppress(FileNotFoundError), (folder / "renewed").open("r+b", buffering=0) as file:
        file.write(data)
        return
    try:
        partial.write_bytes(data)
        partial.replace(folder / "renewed")
    except FileNotFoundError:
        return
