"""An attempt's log wherever it lies: in the store, on this machine, or still growing on another host.

What grows elsewhere is asked for over the channel of that host's agent, piece by piece. Only the server that holds the
channel can ask; anywhere else, and while the channel is away, there is no log until the attempt has been collected.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time

from sqlalchemy import select

from farm.api.channel import ChannelClosed, Channels
from farm.api.context import Context
from farm.domain.frames import FrameError
from farm.store.logs import MAX_PIECE, LogPiece, parse_head, read_log
from farm.store.tables import Attempt

log = logging.getLogger(__name__)

#: Longest wait for a piece of another host's log, seconds: whoever follows a log asks again.
ANSWER_S = 3.0
#: A host that did not answer is not asked for so long, and so many are asked at once: an agent that hangs must not hold
#: the threads of everybody else's requests.
DEAF_S, ASKING = 15.0, 8


class LiveLogs:
    """`read` may be called from any thread but the one of the channels."""

    def __init__(self, context: Context, channels: Channels) -> None:
        self._context, self._channels = context, channels
        self._asking = threading.BoundedSemaphore(ASKING)
        self._deaf: dict[str, float] = {}  # host → until when it is not asked

    def read(self, attempt_id: int, which: str, offset: int, limit: int) -> LogPiece | None:
        """As `farm.store.logs.read_log`; None: no such attempt, or no such log (yet)."""
        farm = self._context
        with farm.db.read() as session:
            piece = read_log(session, farm.artifacts, farm.state, attempt_id, which, offset, limit)
            row = session.execute(select(Attempt.host, Attempt.ended_at).where(Attempt.id == attempt_id)).first()
        if piece is not None or row is None:
            return piece
        limit = max(1, min(limit, MAX_PIECE))
        found = self._ask(row.host, attempt_id, which, offset, limit)
        if found is None:
            return None
        data, start = found
        return LogPiece(data, start, start + len(data), live=row.ended_at is None)

    def _ask(self, host: str, attempt_id: int, which: str, offset: int, limit: int) -> tuple[bytes, int] | None:
        loop = self._channels.loop
        if loop is None or host not in self._channels.hosts() or time.monotonic() < self._deaf.get(host, 0.0):
            return None
        if not self._asking.acquire(blocking=False):
            return None
        wanted = {"attempt": attempt_id, "which": which, "offset": offset, "limit": limit}
        answer = asyncio.run_coroutine_threadsafe(self._piece(host, wanted, limit), loop)
        try:
            return answer.result(ANSWER_S * 2)
        except (ChannelClosed, FrameError) as error:
            log.info("the log of attempt %d cannot be had from %s: %s", attempt_id, host, error)
        except TimeoutError:
            self._deaf[host] = time.monotonic() + DEAF_S
            log.warning("the agent of %s did not send a log within %g s; asked again in %g s", host, ANSWER_S, DEAF_S)
        finally:
            self._asking.release()
        return None

    async def _piece(self, host: str, wanted: dict[str, object], limit: int) -> tuple[bytes, int] | None:
        async with asyncio.timeout(ANSWER_S), self._channels.of(host).open("log", 0, **wanted) as stream:
            head = await stream.receive()
            if head is None:
                return None
            data = b""
            while len(data) < limit and (more := await stream.receive()) is not None:
                data += more
            return data[:limit], parse_head(head)
