"""The audit log, for admins."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from farm.api.auth import needs
from farm.api.context import Farm
from farm.api.json import encode
from farm.store import audit
from farm.store.people import Scope

router = APIRouter(prefix="/api/audit", tags=["people"])

Word = Annotated[str | None, Query(max_length=200)]


@router.get("", summary="Who did what", dependencies=[needs(Scope.ADMIN)])
def show_audit(
    farm: Farm,
    before: Annotated[int | None, Query(ge=1, le=2**63 - 1, description="only lines with a smaller id")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    who: Word = None,
    action: Annotated[str | None, Query(max_length=60, description="`token.create`, or a noun: `token`")] = None,
    target: Word = None,
) -> dict[str, Any]:
    """A page of lines, newest first; `before` in the answer asks for the next one. No line holds a secret."""
    with farm.db.read() as session:
        page = encode(audit.page(session, before=before, limit=limit, who=who, action=action, target=target))
    return {"lines": page["rows"], "before": page["before"]}
