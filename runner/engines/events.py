"""Engines that write the event stream (farm/evidence/engines/events.py): the reference engine, and whoever joins it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from farm.domain.measurements import Better
from farm.evidence.engines.events import EventStream
from farm.evidence.engines.report import Reading
from runner.engines.base import BundleOnDevice, EngineExit, EngineRequest, EngineResult, Figure, StageSpan
from runner.engines.process import Ended, Runner

#: Field of a request, or parameter of a bundle -> option.
_OPTIONS = (
    ("threads", "--threads"),
    ("ctx", "--ctx"),
    ("seed", "--seed"),
    ("batch", "--batch"),
)


class EventsAdapter:
    """Starts an engine with the reference engine's command line."""

    name = "events"

    def __init__(self, runner: Runner, bundle: BundleOnDevice) -> None:
        self._runner, self._bundle = runner, bundle

    def close(self) -> None:
        """Nothing is left: the process has ended."""

    def describe(self, silence_s: float) -> Mapping[str, Any]:
        lines: list[str] = []
        entry = str(self._bundle.entry_path)
        ended = self._runner.run(entry, ["--describe"], silence_s=silence_s, timeout_s=60, on_stdout=lines.append)
        _check(ended, None)
        try:
            described = json.loads("\n".join(lines))
        except ValueError as error:
            raise EngineExit(f"--describe is no JSON: {error}", evidence=ended.stdout.text()) from error
        if not isinstance(described, dict):
            raise EngineExit("--describe is no JSON object", evidence=ended.stdout.text())
        return described

    def run(
        self, request: EngineRequest, silence_s: float, on_iteration: Callable[[int], None] = lambda _: None
    ) -> EngineResult:
        stream = EventStream()
        began = [math.inf]

        def take(line: str) -> None:
            event = stream.feed(line)
            if event is None:
                return
            began[0] = min(began[0], time.monotonic() - event.t_us / 1e6)  # the promptest event tells best
            if event.kind == "result":
                on_iteration(len(stream.results) - 1)
            elif event.kind == "stage_begin" and stream.stage == "prefill":
                on_iteration(-1)

        ended = self._runner.run(
            str(self._bundle.entry_path),
            self.arguments(request),
            silence_s=silence_s,
            timeout_s=request.timeout_s,
            on_stdout=take,
            doing=lambda: stream.stage,
        )
        _check(ended, stream)
        return result_of(ended, stream, began[0])

    def arguments(self, request: EngineRequest) -> list[str]:
        """The engine's command line for a request."""
        model = request.model or self._bundle.default_model
        if model is None or model not in self._bundle.models:
            raise EngineExit(f"the bundle has no model {model!r}; it has: {', '.join(self._bundle.models) or 'none'}")
        out = ["--model", str(self._bundle.models[model]), "--events", "-"]
        if request.prompt is not None:
            out += ["--prompt", request.prompt]
        elif request.prompt_tokens is not None:
            out += ["--prompt-tokens", str(request.prompt_tokens)]
        if request.n_predict is not None:
            out += ["--n-predict", str(request.n_predict)]
        for key, option in _OPTIONS:
            asked = getattr(request, key, None)
            value = self._bundle.parameters.get(key) if asked is None else asked
            if value is not None:
                out += [option, str(value)]
        out += ["--repeat", str(request.repeat), "--warmup", str(request.warmup)]
        return out + (["--ignore-eos"] if request.ignore_eos else []) + [str(word) for word in request.extra]


def _check(ended: Ended, stream: EventStream | None) -> None:
    """Raise for an engine that ended by itself, but not well."""
    said = stream.errors[0] if stream is not None and stream.errors else None
    evidence = f"$ {ended.command}\n--- stderr\n{ended.stderr.text()}"
    if said is not None:
        where = f" in stage {said.stage}" if said.stage else ""
        raise EngineExit(f"the engine ended with an error{where}: {said.message or said.name}", evidence=evidence)
    if ended.exit_code != 0:
        last = ended.stderr.text().strip().splitlines()
        why = f": {last[-1][:300]}" if last else ""
        raise EngineExit(f"the engine ended with exit code {ended.exit_code}{why}", evidence=evidence)
    if stream is not None and stream.exit_code is None:
        last_words = ended.stdout.text()[-2000:]
        raise EngineExit("the engine's event stream has no end", evidence=f"{evidence}\n--- stdout\n{last_words}")


def result_of(ended: Ended, stream: EventStream, began: float) -> EngineResult:
    report = stream.report()
    return EngineResult(
        command=ended.command,
        exit_code=ended.exit_code,
        seconds=ended.seconds,
        began=began if math.isfinite(began) else None,
        figures=tuple(figure(reading) for reading in report.readings),
        texts=tuple(result.text for result in stream.results if result.text is not None),
        stages=tuple(StageSpan(s.name, s.iteration, s.began_s, s.duration_s, s.counters) for s in stream.stages),
        memory=dict(stream.memory),
        facts={"hello": stream.hello, "model": stream.model, "backend": stream.backend, "ops": stream.ops},
        stderr_tail=ended.stderr.text(),
        notes=report.notes,
    )


def figure(reading: Reading) -> Figure:
    """A reading of the evidence room as the runner's figure."""
    return Figure(reading.name, reading.unit, Better(reading.better), reading.values, reading.labels)
