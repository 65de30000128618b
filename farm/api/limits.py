"""Nobody sends more than a route asks for, and nobody sends it for ever.

An ASGI middleware counts the body's bytes as they come (a Content-Length that says too much is refused at once, one
that lies is found out) and gives every piece of it a time limit. The limit of a path is the first prefix that fits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from farm.api.errors import ApiError, answer

MIB = 1024 * 1024
#: (method, path prefix, bytes). A manifest of 20,000 files is about 4 MiB; a blob is a model at most.
LIMITS: tuple[tuple[str, str, int], ...] = (
    ("PUT", "/api/blobs/", 64 * 1024 * MIB),
    ("POST", "/api/bundles", 16 * MIB),
    ("POST", "/api/packs", 16 * MIB),
)
DEFAULT_LIMIT = MIB
#: Seconds that a sender may stay silent in the middle of a body.
PIECE_S = 60.0


def limit_of(method: str, path: str, limits: Sequence[tuple[str, str, int]] = LIMITS) -> int:
    for wanted, prefix, size in limits:
        if method == wanted and path.startswith(prefix):
            return size
    return DEFAULT_LIMIT


def too_large(limit: int) -> ApiError:
    size = f"{limit // MIB} MiB" if limit >= MIB else f"{limit} bytes"
    return ApiError(413, "too-large", f"The body is larger than the {size} that this address takes.", {"limit": limit})


class BodyLimit:
    """Bounds the body of every request that passes through."""

    def __init__(self, app: ASGIApp, limits: Sequence[tuple[str, str, int]] = LIMITS, piece_s: float = PIECE_S) -> None:
        self._app = app
        self._limits = limits
        self._piece_s = piece_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = limit_of(scope["method"], scope["path"], self._limits)
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
        if declared.isdigit() and int(declared) > limit:
            await answer(Request(scope), too_large(limit))(scope, receive, send)
            return
        came = 0
        complete = False

        async def bounded() -> Message:
            nonlocal came, complete
            if complete:  # what follows the body is the disconnect: that may take as long as the answer does
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), self._piece_s)
            except TimeoutError:
                raise ApiError(408, "too-slow", f"The body stopped coming for {self._piece_s:g} s.") from None
            came += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if came > limit:
                raise too_large(limit)
            return message

        await self._app(scope, bounded, send)
