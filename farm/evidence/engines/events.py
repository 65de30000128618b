"""The event stream of the reference engine, and of any engine that wants to be understood without a parser of its own.

One JSON object per line: `{"v":1,"seq":N,"t_us":T,"ev":KIND,…}`, T in µs since the process began, on its monotonic
clock. Kinds: hello, model, stage_begin, stage_end, progress, token, backend, ops, memory, error, result, bye. What was
not measured is absent or null. The format is described in engine/EVENTS.md. Lines of other origin are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from farm.evidence.engines.report import MAX_NOTES, MAX_VALUES, Reading, Report, Status, json_object, measured

VERSION = 1
MAX_STAGES = 20_000
MAX_RESULTS = 2_000
MAX_TEXT = 64 * 1024
MEMORY_KEYS = ("rss_kb", "hwm_kb", "pss_kb", "kv_bytes", "weights_bytes", "compute_bytes")


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the stream."""

    kind: str
    t_us: int
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage that ended. Times in seconds, `began_s` since the start of the process."""

    name: str
    iteration: int | None
    began_s: float
    duration_s: float
    counters: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Result:
    """One measured iteration. Rates in tokens per second, time in milliseconds; None: did not take place."""

    iteration: int
    text: str | None
    prompt_tokens: int | None
    output_tokens: int | None
    ttft_ms: float | None
    prefill_rate: float | None
    decode_rate: float | None


@dataclass(frozen=True, slots=True)
class Fault:
    """An `error` event: the engine says itself what went wrong."""

    code: int | None
    name: str
    stage: str | None
    message: str


@dataclass(slots=True)
class EventStream:
    """What a stream has said so far. Feed it line by line; it keeps a bounded part and never raises."""

    hello: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    backend: dict[str, Any] = field(default_factory=dict)
    stages: list[Stage] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=dict)
    ops: dict[str, dict[str, int]] = field(default_factory=dict)
    errors: list[Fault] = field(default_factory=list)
    exit_code: int | None = None
    stage: str | None = None  # the one that is open now
    lines: int = 0
    lost: int = 0  # events whose numbers never came
    _next_seq: int | None = None

    def feed(self, line: str) -> Event | None:
        """The event of one line; None for a line that is none."""
        body = json_object(line)
        if body is None or not isinstance(body.get("ev"), str):
            return None
        if body.get("v") != VERSION:
            return None
        event = Event(body["ev"], _int(body.get("t_us")) or 0, body)
        self._count(_int(body.get("seq")))
        reader = _READERS.get(event.kind)
        if reader is not None:
            reader(self, event)
        return event

    def report(self) -> Report:
        """The figures of all measured iterations, in order, and what there is to say about them."""
        if self.errors:
            status = Status.FAILED
        elif not self.lines:
            status = Status.INVALID
        elif self.exit_code is None:
            status = Status.INCOMPLETE
        else:
            status = Status.OK if self.results else Status.NO_METRICS
        labels = {"model": str(name)[:200]} if (name := self.model.get("name") or self._hello_model()) else {}
        return Report(status, tuple(self._readings(labels)), tuple(self._notes()))

    def _readings(self, labels: dict[str, str]) -> Iterable[Reading]:
        figures = (
            ("ttft", "ms", "lower", [r.ttft_ms for r in self.results]),
            ("prefill_rate", "tok/s", "higher", [r.prefill_rate for r in self.results]),
            ("decode_rate", "tok/s", "higher", [r.decode_rate for r in self.results]),
            ("load_time", "ms", "lower", [_load_ms(self.stages)]),
            ("peak_rss", "MB", "lower", [_mb(self.memory.get("hwm_kb"))]),
            ("peak_pss", "MB", "lower", [_mb(self.memory.get("pss_kb"))]),
        )
        for name, unit, better, values in figures:
            taken = tuple(value for value in values if value is not None and measured(value) is not None)
            if taken:
                yield Reading(name, unit, better, taken[:MAX_VALUES], labels)

    def _notes(self) -> Iterable[str]:
        notes = [f"{e.name} in {e.stage or 'no stage'}: {e.message}" for e in self.errors[:MAX_NOTES]]
        if self.lost:
            notes.append(f"{self.lost} events of the stream are missing")
        return notes

    def _count(self, seq: int | None) -> None:
        self.lines += 1
        if seq is None:
            return
        if self._next_seq is not None and seq > self._next_seq:
            self.lost += seq - self._next_seq
        self._next_seq = seq + 1

    def _hello_model(self) -> object:
        model = self.hello.get("model")
        return model.get("name") if isinstance(model, dict) else None

    def _hello(self, event: Event) -> None:
        self.hello = _facts(event)

    def _model(self, event: Event) -> None:
        self.model = _facts(event)

    def _backend(self, event: Event) -> None:
        self.backend = _facts(event)

    def _stage_begin(self, event: Event) -> None:
        name = event.fields.get("stage")
        self.stage = name[:100] if isinstance(name, str) else None

    def _stage_end(self, event: Event) -> None:
        self.stage = None
        name, duration = event.fields.get("stage"), _number(event.fields.get("dur_us"))
        if not isinstance(name, str) or duration is None or duration < 0 or len(self.stages) >= MAX_STAGES:
            return
        counters = event.fields.get("counters")
        items = counters.items() if isinstance(counters, dict) else ()
        kept = {str(k)[:100]: n for k, v in list(items)[:64] if (n := _number(v)) is not None}
        began = max(0.0, (event.t_us - duration) / 1e6)
        self.stages.append(Stage(name[:100], _int(event.fields.get("iteration")), began, duration / 1e6, kept))

    def _memory(self, event: Event) -> None:
        for key in MEMORY_KEYS:
            value = _int(event.fields.get(key))
            if value is not None and value > 0:
                self.memory[key] = max(value, self.memory.get(key, 0))

    def _ops(self, event: Event) -> None:
        ops = event.fields.get("ops")
        for backend, counts in list(ops.items())[:16] if isinstance(ops, dict) else ():
            if isinstance(counts, dict):
                known = self.ops.setdefault(str(backend)[:60], {})
                for op, count in list(counts.items())[:500]:
                    if (n := _int(count)) is not None and (op in known or len(known) < 500):
                        known[str(op)[:100]] = known.get(str(op)[:100], 0) + n

    def _error(self, event: Event) -> None:
        if len(self.errors) < MAX_NOTES:
            stage = event.fields.get("stage")
            self.errors.append(
                Fault(
                    _int(event.fields.get("code")),
                    str(event.fields.get("name", "error"))[:100],
                    stage[:100] if isinstance(stage, str) else None,
                    str(event.fields.get("message", ""))[:2000],
                )
            )

    def _result(self, event: Event) -> None:
        if len(self.results) >= MAX_RESULTS:
            return
        f = event.fields
        prompt, output = _int(f.get("prompt_tokens")), _int(f.get("output_tokens"))
        text = f.get("text")
        ttft = measured(f.get("ttft_us"))
        self.results.append(
            Result(
                iteration=_int(f.get("iteration")) or 0,
                text=text[:MAX_TEXT] if isinstance(text, str) else None,
                prompt_tokens=prompt,
                output_tokens=output,
                ttft_ms=None if ttft is None else ttft / 1e3,
                prefill_rate=_rate(f.get("prompt_tokens"), f.get("prefill_us")),
                decode_rate=_rate(f.get("decode_tokens"), f.get("decode_us")),
            )
        )

    def _bye(self, event: Event) -> None:
        self.exit_code = _int(event.fields.get("exit_code"))


_READERS = {
    "hello": EventStream._hello,
    "model": EventStream._model,
    "backend": EventStream._backend,
    "stage_begin": EventStream._stage_begin,
    "stage_end": EventStream._stage_end,
    "memory": EventStream._memory,
    "ops": EventStream._ops,
    "error": EventStream._error,
    "result": EventStream._result,
    "bye": EventStream._bye,
}


def parse(text: str) -> Report:
    """The report of a whole output."""
    stream = EventStream()
    for line in text.splitlines():
        stream.feed(line)
    return stream.report()


def _facts(event: Event) -> dict[str, Any]:
    return {k: v for k, v in list(event.fields.items())[:64] if k not in ("v", "seq", "t_us", "ev")}


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62 else None


def _number(value: object) -> float | None:
    """A counter: may be zero, which is a count; must be finite."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e18:
        return None
    return float(value)


def _rate(tokens: object, microseconds: object) -> float | None:
    count, duration = measured(tokens), measured(microseconds)
    return None if count is None or duration is None else count * 1e6 / duration


def _mb(kilobytes: int | None) -> float | None:
    return None if kilobytes is None else kilobytes / 1000 * 1.024


def _load_ms(stages: Iterable[Stage]) -> float | None:
    parts = [stage.duration_s for stage in stages if stage.name.startswith("load.")]
    return sum(parts) * 1e3 if parts else None
