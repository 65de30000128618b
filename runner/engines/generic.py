"""Any program: the bundle says how to start it and which figures to pick from what it prints.

    generic:
      args: ["--model", "{model}", "--prompt", "{prompt}", "-n", "{n_predict}", "--threads", "{threads}"]
      describe: ["--version"]            # optional
      text: {regex: 'output: (.*)'}      # optional: where the output text stands
      metrics:
        - {name: decode_rate, unit: tok/s, better: higher, regex: 'decode: ([0-9.]+)'}

`{name}` stands for the request's field, the bundle's parameter of that name, `{model}` for the model's path. A pair of
an option and a placeholder that has no value is left out.

The program is started anew for each iteration, warm-up ones included. One that repeats by itself takes `{repeat}` (and
`{warmup}`) among its arguments: it is started once, and prints text and figures of each measured iteration.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from farm.evidence.engines.generic import Generic, MetricError
from farm.evidence.engines.report import Reading, Report
from runner.engines.base import BundleOnDevice, EngineExit, EngineRequest, EngineResult
from runner.engines.events import figure
from runner.engines.process import Ended, Runner

_PLACE = re.compile(r"\{([a-z_]{1,40})\}")
_FIELDS = ("prompt", "prompt_tokens", "n_predict", "threads", "ctx", "seed", "repeat", "warmup")


@dataclass(frozen=True, slots=True)
class _Iteration:
    """One process that ended well, and what it printed."""

    ended: Ended
    report: Report
    texts: tuple[str, ...]


class GenericAdapter:
    """Starts the entry with the bundle's arguments and looks for the bundle's metrics. Fresh process per iteration."""

    name = "generic"

    def __init__(self, runner: Runner, bundle: BundleOnDevice) -> None:
        self._runner, self._bundle = runner, bundle
        self._spec = bundle.generic or {}

    def close(self) -> None:
        """Nothing is left: the process has ended."""

    def describe(self, silence_s: float) -> Mapping[str, Any]:
        """What it prints for its `describe` arguments; an engine without them is known by its bundle alone."""
        known: dict[str, Any] = {"engine": self._bundle.name, "version": self._bundle.version}
        arguments = self._spec.get("describe")
        if arguments:
            lines: list[str] = []
            words = [str(word) for word in arguments]
            entry = str(self._bundle.entry_path)
            self._runner.run(entry, words, silence_s=silence_s, timeout_s=60, on_stdout=lines.append)
            known["said"] = "\n".join(lines)[:4000]
        return known

    def run(
        self, request: EngineRequest, silence_s: float, on_iteration: Callable[[int], None] = lambda _: None
    ) -> EngineResult:
        """One process per iteration, or a single one for a bundle whose arguments hold `{repeat}`.

        The request's time limit holds for all of them together; warm-up iterations are checked and then forgotten.
        """
        deadline = time.monotonic() + request.timeout_s
        if self._repeats_itself():
            return _joined([self._once(request, silence_s, request.timeout_s)])
        kept: list[_Iteration] = []
        seconds = 0.0
        for number in range(-request.warmup, request.repeat):
            on_iteration(-1)
            done = self._once(replace(request, repeat=1, warmup=0), silence_s, max(0.1, deadline - time.monotonic()))
            seconds += done.ended.seconds
            if number >= 0:
                on_iteration(number)
                kept.append(done)
        if not kept:
            raise EngineExit(f"repeat={request.repeat}: at least one iteration must be measured")
        return replace(_joined(kept), seconds=seconds)

    def _repeats_itself(self) -> bool:
        return any("repeat" in _PLACE.findall(str(word)) for word in self._spec.get("args") or ())

    def _once(self, request: EngineRequest, silence_s: float, timeout_s: float) -> _Iteration:
        try:
            parser = Generic.of(self._spec)
        except MetricError as error:
            raise EngineExit(f"the bundle's generic part: {error}") from error
        ended = self._runner.run(
            str(self._bundle.entry_path),
            fill(self._spec.get("args") or (), placeholders(self._bundle, request))
            + [str(word) for word in request.extra],
            silence_s=silence_s,
            timeout_s=timeout_s,
            on_stdout=parser.feed,
        )
        if ended.exit_code != 0:
            evidence = f"$ {ended.command}\n--- stdout\n{ended.stdout.text()}\n--- stderr\n{ended.stderr.text()}"
            raise EngineExit(f"the engine ended with exit code {ended.exit_code}", evidence=evidence)
        return _Iteration(ended, parser.report(), tuple(parser.texts))


def _joined(done: Sequence[_Iteration]) -> EngineResult:
    """The processes of one request as one result: every value in its order, a note that all of them make once."""
    readings: dict[str, Reading] = {}
    for iteration in done:
        for name, found in {reading.name: reading for reading in iteration.report.readings}.items():
            before = readings[name].values if name in readings else ()
            readings[name] = replace(found, values=before + found.values)
    last = done[-1].ended
    return EngineResult(
        command=last.command,
        exit_code=last.exit_code,
        seconds=last.seconds,
        figures=tuple(figure(reading) for reading in readings.values()),
        texts=tuple(text for iteration in done for text in iteration.texts),
        stderr_tail=last.stderr.text(),
        stdout_tail=last.stdout.text(),
        notes=tuple(dict.fromkeys(note for iteration in done for note in iteration.report.notes)),
    )


def placeholders(bundle: BundleOnDevice, request: EngineRequest) -> dict[str, str]:
    """What each placeholder stands for; a thing that nobody gave is left out."""
    found = {str(key): str(value) for key, value in bundle.parameters.items() if value is not None}
    for name in _FIELDS:
        value = getattr(request, name)
        if value is not None:
            found[name] = str(value)
    model = request.model or bundle.default_model
    if model is not None and model in bundle.models:
        found["model"] = str(bundle.models[model])
    return found


def fill(words: Sequence[Any], values: Mapping[str, str]) -> list[str]:
    """The arguments with their placeholders filled in; an option whose placeholder has no value goes with it."""
    out: list[str] = []
    for word in map(str, words):
        missing = [name for name in _PLACE.findall(word) if name not in values]
        if not missing:
            out.append(_PLACE.sub(lambda match: values[match[1]], word))
        elif out and out[-1].startswith("-") and word == f"{{{missing[0]}}}":
            out.pop()
    return out
