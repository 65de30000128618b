"""The front door of the work: submit, preview, cancel, run again. API and pages call nothing else in this room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from farm.domain.selectors import Mismatch, SelectorError
from farm.store.db import Database


class Refused(Exception):
    """A submission that cannot work, refused at once. `code` is stable; `detail` is JSON for tools."""

    def __init__(self, code: str, message: str, detail: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail: dict[str, Any] = dict(detail or {})


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What somebody wants run. `bundle` and `pack` are a hash, a hash's beginning (8 or more) or a name (newest)."""

    bundle: str
    suites: tuple[str, ...]
    selector: str = "*"
    pack: str | None = None  # None: the built-in pack
    klass: str = "manual"  # debug, pr, manual, nightly
    title: str | None = None
    mode: Literal["each", "any"] = "each"  # a job per matching device, or one job on whichever is free first
    tests: tuple[str, ...] | None = None
    env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # "*", device name or serial -> variables
    params: Mapping[str, Any] = field(default_factory=dict)
    created_by: str | None = None
    team: str = "default"
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Matching:
    """A device that a selector picks, and whether it could start now."""

    device_id: int
    name: str
    serial: str
    virtual: bool
    availability: str
    why: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What a selector would pick. `error` is set when it cannot be read; then nothing matches."""

    matching: list[Matching]
    nearest: list[Mismatch]
    error: SelectorError | None = None


def submit(db: Database, request: RunRequest, now: datetime | None = None) -> int:
    """Check and queue a run; returns its id. Raises Refused."""
    raise NotImplementedError


def preview(db: Database, selector: str, bundle: str | None = None) -> Preview:
    """What `selector` picks now, and for what it does not pick, what differs."""
    raise NotImplementedError


def cancel(db: Database, run_id: int, by: str | None) -> None:
    """Ask a run to end: waiting jobs end at once, running ones after collecting and cleaning. Raises Refused."""
    raise NotImplementedError


def rerun_failed(db: Database, run_id: int, by: str | None) -> int:
    """A new run of the jobs that did not pass. Raises Refused when there is none or the run has not ended."""
    raise NotImplementedError
