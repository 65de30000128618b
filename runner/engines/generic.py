"""Any program: the bundle says how to start it and which figures to pick from what it prints.

    generic:
      args: ["--model", "{model}", "--prompt", "{prompt}", "-n", "{n_predict}", "--threads", "{threads}"]
      describe: ["--version"]            # optional
      text: {regex: 'output: (.*)'}      # optional: where the output text stands
      metrics:
        - {name: decode_rate, unit: tok/s, better: higher, regex: 'decode: ([0-9.]+)'}

`{name}` stands for the request's field, the bundle's parameter of that name, `{model}` for the model's path. A pair of
an option and a placeholder that has no value is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from farm.evidence.engines.generic import Generic, MetricError
from runner.engines.base import BundleOnDevice, EngineExit, EngineRequest, EngineResult
from runner.engines.events import figure
from runner.engines.process import Runner

_PLACE = re.compile(r"\{([a-z_]{1,40})\}")
_FIELDS = ("prompt", "prompt_tokens", "n_predict", "threads", "ctx", "seed", "repeat", "warmup")


class GenericAdapter:
    """Starts the entry with the bundle's arguments and looks for the bundle's metrics. Fresh process per iteration."""

    name = "generic"

    def __init__(self, runner: Runner, bundle: BundleOnDevice) -> None:
        self._runner, self._bundle = runner, bundle
        self._spec = bundle.generic or {}

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
        try:
            parser = Generic.of(self._spec)
        except MetricError as error:
            raise EngineExit(f"the bundle's generic part: {error}") from error
        ended = self._runner.run(
            str(self._bundle.entry_path),
            fill(self._spec.get("args") or (), self.values(request)) + [str(word) for word in request.extra],
            silence_s=silence_s,
            timeout_s=request.timeout_s,
            on_stdout=parser.feed,
        )
        if ended.exit_code != 0:
            evidence = f"$ {ended.command}\n--- stdout\n{ended.stdout.text()}\n--- stderr\n{ended.stderr.text()}"
            raise EngineExit(f"the engine ended with exit code {ended.exit_code}", evidence=evidence)
        report = parser.report()
        return EngineResult(
            command=ended.command,
            exit_code=ended.exit_code,
            seconds=ended.seconds,
            figures=tuple(figure(reading) for reading in report.readings),
            texts=tuple(parser.texts),
            stderr_tail=ended.stderr.text(),
            stdout_tail=ended.stdout.text(),
            notes=report.notes,
        )

    def values(self, request: EngineRequest) -> dict[str, str]:
        """What each placeholder stands for; a thing that nobody gave is left out."""
        found = {str(key): str(value) for key, value in self._bundle.parameters.items() if value is not None}
        for name in _FIELDS:
            value = getattr(request, name)
            if value is not None:
                found[name] = str(value)
        model = request.model or self._bundle.default_model
        if model is not None and model in self._bundle.models:
            found["model"] = str(self._bundle.models[model])
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
