"""What changes, as it changes: server-sent events over the bus of committed changes.

    id: 4711
    event: attempt
    data: {"id": 4711, "at": "…Z", "topic": "attempt", "ref": "17", "run": 5, "device": 2}

An event says *that* a thing changed; its state is read from its own route. A client that comes back with Last-Event-ID
gets what it missed; when that is no longer kept, `event: reset` tells it to read everything anew. A comment line every
few seconds shows that the stream lives.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse
from sqlalchemy import func, select

from farm.api.context import Context, Farm, Who
from farm.api.errors import ApiError
from farm.api.live import Live
from farm.store import people
from farm.store.bus import Change
from farm.store.people import Principal
from farm.store.tables import Change as ChangeTable

router = APIRouter(prefix="/api", tags=["events"])

#: Seconds between signs of life; as often it is asked whether the token that the stream came with still stands.
KEEP_ALIVE_S = 10.0
#: A stream ends after so long; the client comes back with its last id and is let in, or not, anew.
LIFE_S = 900.0
#: Streams at a time; each is one task and one bounded queue.
MAX_STREAMS = 256
MAX_ID = 2**63 - 1


@router.get("/events", summary="Live changes (server-sent events)", response_class=StreamingResponse)
async def events(
    request: Request,
    farm: Farm,
    who: Who,
    topics: Annotated[str, Query(max_length=200, description="only these, comma-separated; empty: all")] = "",
    run: Annotated[int | None, Query(ge=1, le=MAX_ID, description="only changes of this run")] = None,
    last_event_id: Annotated[str | None, Header(max_length=40)] = None,
) -> StreamingResponse:
    """A stream without end of changes as they are committed."""
    streams: set[object] = request.app.state.streams
    if len(streams) >= MAX_STREAMS:
        raise ApiError(503, "busy", f"{MAX_STREAMS} live streams are open already: close some pages, or poll instead.")
    since, lost = await asyncio.to_thread(_start, farm, last_event_id)
    wanted = frozenset(filter(None, (topic.strip() for topic in topics.split(","))))
    live: Live = request.app.state.live
    body = _stream(
        live,
        since,
        lost,
        (lambda change: (not wanted or change.topic in wanted) and (run is None or change.run_id == run))
        if wanted or run is not None
        else None,
        streams,
        lambda: _stands(farm, who),
    )
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(body, media_type="text/event-stream", headers=headers)


def _start(farm: Context, last_event_id: str | None) -> tuple[int, bool]:
    """(id after which to go on, whether something in between is lost)."""
    with farm.db.read() as session:
        first: int | None = session.scalar(select(func.min(ChangeTable.id)))
        newest = farm.db.newest_change(session)
        greatest: int = session.scalar(select(func.max(ChangeTable.id))) or 0
    if last_event_id is None or not last_event_id.isascii() or not last_event_id.isdigit():
        return newest, False
    since = int(last_event_id)
    lost = since > max(newest, greatest) or (first is not None and since < first - 1)
    return (newest, True) if lost else (since, False)


def _stands(farm: Context, who: Principal) -> bool:
    with farm.db.read() as session:
        return people.stands(session, who.token_id, farm.now())


async def _stream(
    live: Live,
    since: int,
    lost: bool,
    wanted: Callable[[Change], bool] | None,
    streams: set[object],
    stands: Callable[[], bool],
) -> AsyncIterator[bytes]:
    mark = object()
    streams.add(mark)
    until = time.monotonic() + LIFE_S
    ask_again = time.monotonic() + KEEP_ALIVE_S
    try:
        hello = "reset" if lost else "hello"
        yield f'retry: 2000\nid: {since}\nevent: {hello}\ndata: {{"id": {since}}}\n\n'.encode()
        async with aclosing(live.pieces(since, wanted, lambda: KEEP_ALIVE_S)) as pieces:
            async for text in pieces:
                now = time.monotonic()
                if now >= until:
                    return
                if now >= ask_again:
                    if not await asyncio.to_thread(stands):
                        return
                    ask_again = now + KEEP_ALIVE_S
                if text:
                    yield text
    finally:
        streams.discard(mark)
