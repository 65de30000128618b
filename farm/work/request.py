"""What somebody wants run, and the answer when it cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What somebody wants run. `bundle` and `pack` are a hash, a hash's beginning (8 or more) or a name (newest)."""

    bundle: str
    suites: tuple[str, ...]
    selector: str = "*"
    pack: str | None = None  # None: the built-in pack
    klass: str = "manual"  # debug, pr, manual, nightly
    title: str | None = None
    #: A job per matching device; one job on whichever is free first; or `shards` jobs that share the tests out.
    mode: Literal["each", "any", "shard"] = "each"
    shards: int = 2
    tests: tuple[str, ...] | None = None
    env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # "*", device name or serial -> variables
    params: Mapping[str, Any] = field(default_factory=dict)
    confirm: bool = False  # run a failure of the engine again on a second device of the model
    created_by: str | None = None
    team: str = "default"
    token_id: int | None = None  # whose quota counts
    idempotency_key: str | None = None


class Refused(Exception):
    """A submission that cannot work, refused at once. `code` is stable; `detail` is JSON for tools."""

    def __init__(self, code: str, message: str, detail: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail: dict[str, Any] = dict(detail or {})
