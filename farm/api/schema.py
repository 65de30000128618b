"""What the generated schema does not know by itself: how a client shows who it is, and the one shape of errors."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, Field

from farm.api.auth import COOKIE, is_public


class ErrorDetail(BaseModel):
    """What went wrong."""

    code: str = Field(description="for programs; does not change its meaning")
    message: str = Field(description="one sentence for a person: what, where, what to do")
    detail: Any = Field(description="depends on the code; may be null")


class Error(BaseModel):
    """Every answer with a status of 400 or more."""

    error: ErrorDetail


#: For every route: `include_router(…, responses=ERRORS)`.
ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Error, "description": "Refused: no token, not allowed, not found, bad input, or cannot work."},
    "5XX": {
        "model": Error,
        "description": "The farm's own fault; its log has the cause under the mark in the message.",
    },
}


def describe(app: FastAPI) -> None:
    """Complete the schema that FastAPI makes of the routes; called once they are all there."""
    schema = app.openapi()
    app.openapi = lambda: schema  # type: ignore[method-assign]  # FastAPI's own way of replacing it
    schema["components"]["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "a token of the scopes that the route needs"},
        "session": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "made by POST /login"},
    }
    schema["security"] = [{"token": []}, {"session": []}]
    for path, operations in schema["paths"].items():
        if is_public(path):
            for operation in operations.values():
                operation["security"] = []
