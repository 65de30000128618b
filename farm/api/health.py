"""Whether the server is up: the one thing that may be asked without a token."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from sqlalchemy import text

from farm.api.context import Farm

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Is the server up")
def healthz(farm: Farm) -> dict[str, Any]:
    """200 when the server answers and its database does."""
    with farm.db.read() as session:
        session.execute(text("SELECT 1"))
    return {"ok": True}
