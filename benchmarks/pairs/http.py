"""HTTP/1.1 over one kept connection, as little as a client of the farm needs: no library's time is measured."""

from __future__ import annotations

import asyncio
import json
from typing import Any


class Http:
    """One connection; questions one after the other."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """(status, JSON) of one question."""
        if self._writer is None or self._reader is None:
            await self.open()
        assert self._writer is not None
        assert self._reader is not None
        data = b"" if body is None else json.dumps(body).encode()
        self._writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: farm\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode()
            + data
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        size = next((int(line[15:]) for line in head.split(b"\r\n") if line[:15].lower() == b"content-length:"), 0)
        answer = await self._reader.readexactly(size)
        return status, json.loads(answer) if answer else None

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer = self._reader = None


async def watch(port: int, token: str, counts: list[int]) -> None:
    """A page that watches: takes every event and counts them until it is cancelled."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    writer.write(f"GET /api/events HTTP/1.1\r\nHost: farm\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    mine = len(counts)
    counts.append(0)
    try:
        while data := await reader.read(1 << 18):
            counts[mine] += data.count(b"\nevent: ")
    finally:
        writer.close()
