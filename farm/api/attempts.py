"""Attempts: one try of a job, its logs and what was collected."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from farm.api.context import Farm
from farm.api.errors import ApiError, not_found
from farm.api.json import encode
from farm.api.live_logs import LiveLogs
from farm.store.logs import MAX_PIECE
from farm.store.reads import attempts as reads
from farm.store.tables import Attempt

router = APIRouter(prefix="/api", tags=["attempts"])

MAX_ID = 2**63 - 1
Id = Annotated[int, Path(ge=1, le=MAX_ID)]


@router.get("/attempts/{attempt_id}", summary="One attempt")
def show_attempt(farm: Farm, attempt_id: Id) -> dict[str, Any]:
    """Phases, tests, measurements, incidents, artifacts, lease."""
    with farm.db.read() as session:
        found = reads.attempt(session, attempt_id, farm.now())
    if found is None:
        raise not_found(f"attempt {attempt_id}", "`farm show RUN`")
    return dict(encode(found))


@router.get("/attempts/{attempt_id}/series", summary="What the device did meanwhile, over time")
def show_series(
    farm: Farm,
    attempt_id: Id,
    name: Annotated[str | None, Query(max_length=200, description="one series; left out: all")] = None,
    since: datetime | None = None,
    until: datetime | None = None,
    buckets: Annotated[int, Query(ge=1, le=5000, description="stretches of equal length, at most")] = 240,
) -> dict[str, Any]:
    """Lowest, highest and mean value and the number of points of each stretch (`at`: seconds since the epoch); those
    without points are left out. `absent`: series that this device could not give, and why."""
    begin, end = (None if at is None else at.replace(tzinfo=at.tzinfo or UTC) for at in (since, until))
    with farm.db.read() as session:
        if session.get(Attempt, attempt_id) is None:
            raise not_found(f"attempt {attempt_id}", "`farm show RUN`")
        found = reads.series_between(session, attempt_id, name, begin, end, buckets)
        absent = reads.absences(session, attempt_id)
    return {"series": encode(found), "absent": dict(absent)}


@router.get("/attempts/{attempt_id}/log", summary="A piece of a log", response_class=Response)
def show_log(
    farm: Farm,
    request: Request,
    attempt_id: Id,
    which: Literal["runner", "logcat"] = "runner",
    offset: Annotated[int, Query(ge=-MAX_PIECE, le=MAX_ID, description="negative: from the end")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_PIECE)] = 256 * 1024,
) -> Response:
    """Plain text. `X-Log-Offset` and `X-Log-Next` say where it begins and where to go on, `X-Log-Live` whether more may
    come. While the attempt has no such log the text is empty."""
    logs: LiveLogs = request.app.state.logs
    piece = logs.read(attempt_id, which, offset, limit)
    with farm.db.read() as session:
        row = session.get(Attempt, attempt_id)
        if row is None:
            raise not_found(f"attempt {attempt_id}", "`farm show RUN`")
    begin, follow, live = (piece.offset, piece.next_offset, piece.live) if piece else (0, 0, row.ended_at is None)
    return Response(
        piece.data if piece else b"",
        media_type="text/plain; charset=utf-8",
        headers={"X-Log-Offset": str(begin), "X-Log-Next": str(follow), "X-Log-Live": str(live).lower()},
    )


@router.get("/attempts/{attempt_id}/artifacts", summary="What an attempt left behind")
def list_artifacts(farm: Farm, attempt_id: Id) -> dict[str, Any]:
    """Logs, journal and whatever the tests kept."""
    with farm.db.read() as session:
        return {"artifacts": encode(reads.artifacts(session, attempt_id))}


@router.get("/artifacts/{artifact_id}", summary="Download an artifact", response_class=StreamingResponse)
def download(farm: Farm, artifact_id: Id) -> StreamingResponse:
    """Always as an attachment: what a device or a suite wrote never becomes a page of ours."""
    with farm.db.read() as session:
        row = reads.artifact(session, artifact_id)
    if row is None:
        raise not_found(f"artifact {artifact_id}", "GET /api/attempts/{id}/artifacts")
    if not farm.artifacts.has(row.sha256):
        raise ApiError(410, "gone", f"The bytes of artifact {artifact_id} are no longer kept.")
    headers = {
        "Content-Disposition": disposition(row.name),
        "Content-Length": str(row.bytes),
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "ETag": f'"{row.sha256}"',
    }
    pieces: Iterator[bytes] = farm.artifacts.chunks(row.sha256)
    return StreamingResponse(pieces, media_type="application/octet-stream", headers=headers)


def disposition(name: str) -> str:
    """Content-Disposition for a name that a stranger chose (RFC 6266)."""
    base = name.rsplit("/", 1)[-1]
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", base)[:120] or "artifact"
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(base[:200], safe='')}"
