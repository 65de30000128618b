"""The pages put together: one router for the application."""

from __future__ import annotations

from fastapi import APIRouter

from dashboard.context import Context


def router(context: Context) -> APIRouter:
    """Every page, fragment (/ui/…) and static file (/static/…); static files and /login alone need no session."""
    raise NotImplementedError
