"""One job that waits: its place, what would satisfy it, who holds that and until when, when it should start."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from dashboard.errors import gone
from dashboard.house import MAX_ID, House
from farm.store.reads import why as reads
from farm.store.reads.why import JobWhy

JobId = Annotated[int, Path(ge=1, le=MAX_ID)]


def view(told: JobWhy) -> dict[str, object]:
    """Everything that the template shows."""
    return {"told": told, "now": told.at, "live": told.position is not None}


def add(routes: APIRouter, house: House) -> None:
    def find(job_id: int) -> JobWhy:
        with house.context.db.read() as session:
            found = reads.job_why(session, job_id, house.context.clock())
        if found is None:
            raise gone("job", job_id, ("/runs", "to the runs"))
        return found

    @routes.get("/jobs/{job_id:int}")
    def page(request: Request, job_id: JobId) -> Response:
        viewer = house.viewer(request)
        return house.page(request, "job.html", view(find(job_id)), viewer=viewer)

    @routes.get("/ui/jobs/{job_id:int}")
    def piece(request: Request, job_id: JobId) -> Response:
        viewer = house.viewer(request)
        return house.page(request, "job_live.html", view(find(job_id)), viewer=viewer)
