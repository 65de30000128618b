"""What an engine adapter is, what it is asked and what it answers.

An adapter knows how to start one kind of engine on a device and which parser of `farm.evidence.engines` reads what it
prints. `run` never returns a half-truth: an engine that crashed, hung, was killed or ended with an error raises an
`EngineFailure` that carries the cause and its evidence; a lost device raises the error of `farm.adb`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Protocol

from farm.domain.measurements import Better
from farm.domain.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class BundleOnDevice:
    """A bundle as it lies on one device. `files` and `models`: name in the manifest -> absolute path on the device."""

    name: str
    version: str
    adapter: str
    entry: str
    directory: PurePosixPath
    files: Mapping[str, PurePosixPath]
    models: Mapping[str, PurePosixPath]
    default_model: str | None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    budgets: Mapping[str, float] = field(default_factory=dict)
    generic: Mapping[str, Any] | None = None
    app: Mapping[str, Any] | None = None

    @property
    def entry_path(self) -> PurePosixPath:
        return self.files[self.entry]


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One start of the engine. None: the bundle's parameter of that name, else the engine's own default.

    Either `prompt` (text) or `prompt_tokens` (that many tokens of the engine's choice). `repeat` measured iterations
    follow `warmup` unmeasured ones in the same process. `silence_s` limits how long the engine may say nothing.
    """

    prompt: str | None = None
    prompt_tokens: int | None = None
    n_predict: int | None = None
    model: str | None = None
    threads: int | None = None
    ctx: int | None = None
    seed: int | None = None
    repeat: int = 1
    warmup: int = 0
    ignore_eos: bool = False
    extra: Sequence[str] = ()
    silence_s: float | None = None
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Figure:
    """Values that the engine itself reported, in the order in which they were taken; never zero, infinite or NaN."""

    name: str
    unit: str
    better: Better
    values: tuple[float, ...]
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StageSpan:
    """A stage of the engine. `began_s`: seconds since the engine's start, by its own monotonic clock."""

    name: str
    iteration: int | None
    began_s: float
    duration_s: float
    counters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EngineResult:
    """What one start of an engine gave. A thing that the engine does not report is None or empty, never zero."""

    command: str
    exit_code: int
    seconds: float  # wall time on the host, start and end of the process included
    began: float | None = None  # the engine's start on the host's monotonic clock, as near as it can be told
    figures: tuple[Figure, ...] = ()
    texts: tuple[str, ...] = ()  # output text per measured iteration
    stages: tuple[StageSpan, ...] = ()
    memory: Mapping[str, int] = field(default_factory=dict)  # the peak of each: rss_kb, hwm_kb, pss_kb, kv_bytes, …
    facts: Mapping[str, Any] = field(default_factory=dict)  # engine, version, build, model, … as reported
    stderr_tail: str = ""
    stdout_tail: str = ""
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str | None:
        """The output of the first measured iteration; None when the engine reports none."""
        return self.texts[0] if self.texts else None

    def figure(self, name: str, **labels: str) -> Figure | None:
        """The first figure of that name whose labels hold `labels`."""
        for figure in self.figures:
            if figure.name == name and all(figure.labels.get(k) == v for k, v in labels.items()):
                return figure
        return None


class EngineFailure(Exception):
    """The engine did not do what it was started for. `cause` is the outcome of the attempt, `evidence` bounded text."""

    cause: Outcome = Outcome.FAILED
    klass = "engine-failed"

    def __init__(self, message: str, *, evidence: str = "", details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.evidence = evidence
        self.details = dict(details or {})


class EngineExit(EngineFailure):
    """It ended by itself, with an error."""


class EngineCrashed(EngineFailure):
    """It died by a signal of its own making."""

    cause = Outcome.CRASHED
    klass = "engine-crashed"


class EngineKilled(EngineFailure):
    """The system killed it (low memory)."""

    cause = Outcome.KILLED
    klass = "engine-killed"


class AppNotResponding(EngineFailure):
    """The system said that the app's main thread does not answer; the trace was taken first, then the app was ended."""

    cause = Outcome.HUNG
    klass = "anr"


class EngineHung(EngineFailure):
    """It was silent longer than its stage allows; stacks were taken first, then it was killed."""

    cause = Outcome.HUNG
    klass = "engine-hung"


class Adapter(Protocol):
    """One kind of engine on one device."""

    name: str

    def describe(self, silence_s: float) -> Mapping[str, Any]:
        """What the engine says of itself: engine, version, build, backends …; what it does not say is left out."""

    def run(self, request: EngineRequest, silence_s: float, on_iteration: Callable[[int], None] = ...) -> EngineResult:
        """Start it, watch it to its end, return what it reported. Raises `EngineFailure`, or an error of `farm.adb`.

        `on_iteration(n)` is called when measured iteration n has ended, and with -1 when one begins, by adapters that
        can tell.
        """

    def close(self) -> None:
        """Nothing more is asked of it: what it put on the device beyond the bundle's files is taken away."""
