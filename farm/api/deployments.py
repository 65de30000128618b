"""Deployment failure rate."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query

from farm.api.context import Farm
from farm.api.json import encode
from farm.store.reads import deployments as reads

router = APIRouter(prefix="/api/deployments", tags=["evidence"])


@router.get("", summary="Deployment failure rate")
def rates(
    farm: Farm,
    days: Annotated[int, Query(ge=1, le=366, description="how far to look back")] = 30,
    bundle: Annotated[str | None, Query(max_length=200, description="a name or a hash")] = None,
) -> dict[str, Any]:
    """Attempts whose bundle did not get onto the device or whose model did not load, by cause, bundle, device model and
    day, with 95 % intervals; and how often a passed precheck was followed by a failure that it covers."""
    with farm.db.read() as session:
        return dict(encode(reads.deployments(session, farm.db.now(session), timedelta(days=days), bundle)))
