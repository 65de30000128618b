"""One virtual device's process: its hardware, and the control socket at which hands on its test bench are asked for.

Argument: a `Config` as JSON. It reports on standard output, once, {"ready": …} or {"error": …}.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from virtual import faults, profiles, sandbox
from virtual.bench import Bench
from virtual.hardware import Config, Hardware, report
from virtual.sockets import short_path

#: A control connection that asks for nothing for so long is closed, seconds.
_SILENCE_S = 60.0


@contextlib.asynccontextmanager
async def _controlled(folder: Path, bench: faults.Faulty) -> AsyncIterator[None]:
    """The control socket, for as long as the block lasts: one request and one answer per line."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ValueError, asyncio.TimeoutError):
            while line := await asyncio.wait_for(reader.readline(), _SILENCE_S):
                try:
                    request = json.loads(line)
                except ValueError:
                    request = None
                writer.write(json.dumps(await faults.dispatch(bench, request)).encode() + b"\n")
                await writer.drain()
        writer.close()

    with short_path(folder / "control.sock") as address:
        server = await asyncio.start_unix_server(serve, address, limit=1 << 16)
    try:
        yield
    finally:
        server.close()


async def _live(config: Config) -> None:
    try:
        sandbox.require_tools()
        hardware = Hardware(config)
    except (OSError, profiles.ProfileError, sandbox.SandboxError) as error:
        report({"error": str(error)})
        return
    async with _controlled(hardware.folder, Bench(hardware)):
        await hardware.run()


def main() -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    asyncio.run(_live(Config(**json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
