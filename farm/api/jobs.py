"""Jobs: why one waits."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path

from farm.api.context import Farm
from farm.api.errors import not_found
from farm.api.json import encode
from farm.store.reads import why

router = APIRouter(prefix="/api/jobs", tags=["runs"])


@router.get("/{job_id}/why", summary="Why a job waits")
def show_why(farm: Farm, job_id: Annotated[int, Path(ge=1, le=2**63 - 1)]) -> dict[str, Any]:
    """Its place, what would satisfy it, who holds each candidate and until when, when it is expected to start, and how
    far such estimates were off lately."""
    with farm.db.read() as session:
        found = why.job_why(session, job_id, farm.db.now(session))
    if found is None:
        raise not_found(f"job {job_id}", "`farm show RUN` (its column JOB)")
    return dict(encode(found))
