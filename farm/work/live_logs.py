"""A log that grows on this host, read piece by piece for a server: the service `log` of the agent's channel.

Request: {"service": "log", "attempt": id, "which": "runner" | "logcat", "offset": bytes, negative from the end,
"limit": bytes}. Answer: a head (`farm.store.logs.head`), then the bytes; nothing where there is no such log.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from farm.domain.frames import MAX_PAYLOAD
from farm.store.logs import FILES, MAX_PIECE, head, local_piece
from farm.work.channel import AgentStream, Refusal, Service


def log_service(state: Path) -> Service:
    """Serves the attempts below the state folder."""

    async def serve(stream: AgentStream) -> None:
        attempt_id, which, offset, limit = _asked(stream)
        found = await asyncio.to_thread(local_piece, state, attempt_id, which, offset, limit)
        if found is None:
            return
        data, start = found
        await stream.send(head(start))
        for begin in range(0, len(data), MAX_PAYLOAD):
            await stream.send(data[begin : begin + MAX_PAYLOAD])

    return serve


def _asked(stream: AgentStream) -> tuple[int, str, int, int]:
    """Raises Refusal for a request that makes no sense."""
    request = stream.request
    numbers = [request.get(key) for key in ("attempt", "offset", "limit")]
    attempt_id, offset, limit = (n if isinstance(n, int) and abs(n) < 2**63 else None for n in numbers)
    which = str(request.get("which"))
    if attempt_id is None or attempt_id < 1 or offset is None or limit is None or which not in FILES:
        raise Refusal("the request names no piece of a log")
    return attempt_id, which, offset, max(1, min(limit, MAX_PIECE))
