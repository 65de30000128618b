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
import json
import time
from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from typing import Annotated, cast

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse
from sqlalchemy import func, select

from farm.api.context import Context, Farm, Who
from farm.api.errors import ApiError
from farm.api.json import encode
from farm.store import people
from farm.store.bus import Bus, Change
from farm.store.people import Principal
from farm.store.tables import Change as ChangeTable

router = APIRouter(prefix="/api", tags=["events"])

#: Seconds between signs of life; as often it is asked whether the token that the stream came with still stands.
KEEP_ALIVE_S = 10.0
#: What changes within so long is sent in one piece: many pages that watch much then cost little.
TOGETHER_S = 0.05
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
    body = _stream(
        farm.db.bus,
        since,
        lost,
        lambda change: (not wanted or change.topic in wanted) and (run is None or change.run_id == run),
        cast(asyncio.Event, request.app.state.stopping),
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
    bus: Bus,
    since: int,
    lost: bool,
    wanted: Callable[[Change], bool],
    stopping: asyncio.Event,
    streams: set[object],
    stands: Callable[[], bool],
) -> AsyncIterator[str]:
    changes = bus.batches(since)
    mark = object()
    streams.add(mark)
    pending = asyncio.ensure_future(anext(changes))
    stopped = asyncio.ensure_future(stopping.wait())
    until = time.monotonic() + LIFE_S
    ask_again = time.monotonic() + KEEP_ALIVE_S
    try:
        yield f'retry: 2000\nid: {since}\nevent: {"reset" if lost else "hello"}\ndata: {{"id": {since}}}\n\n'
        while time.monotonic() < until:
            done, _ = await asyncio.wait({pending, stopped}, timeout=KEEP_ALIVE_S, return_when=asyncio.FIRST_COMPLETED)
            if stopped in done:
                return
            if time.monotonic() >= ask_again:
                if not await asyncio.to_thread(stands):
                    return
                ask_again = time.monotonic() + KEEP_ALIVE_S
            if pending not in done:
                yield ": still here\n\n"
                continue
            text = "".join(_event(change) for change in pending.result() if wanted(change))
            pending = asyncio.ensure_future(anext(changes))
            if text:
                yield text
            await asyncio.sleep(TOGETHER_S)
    finally:
        streams.discard(mark)
        for task in (pending, stopped):
            task.cancel()
        await asyncio.gather(pending, stopped, return_exceptions=True)


@lru_cache(maxsize=4096)
def _event(change: Change) -> str:
    """The same text for every stream: written once."""
    data = {
        "id": change.id,
        "at": encode(change.at),
        "topic": change.topic,
        "ref": change.ref,
        "run": change.run_id,
        "device": change.device_id,
    }
    # json.dumps leaves no line break inside: a reference cannot begin a field of its own. The topic is ours.
    return f"id: {change.id}\nevent: {change.topic}\ndata: {json.dumps(data)}\n\n"
