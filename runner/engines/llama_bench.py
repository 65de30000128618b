"""llama.cpp's `llama-bench`, as JSON lines: a foreign engine that knows nothing of the farm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from farm.evidence.engines.llama_cpp import LlamaBench
from farm.evidence.engines.report import Status
from runner.engines.base import BundleOnDevice, EngineExit, EngineRequest, EngineResult
from runner.engines.events import figure
from runner.engines.process import Runner

#: It says nothing while a test runs, only before and after (with --progress): silence is no hang so soon.
SILENCE_FACTOR = 6.0
DEFAULT_PROMPT_TOKENS = 64
DEFAULT_PREDICT = 16


class LlamaBenchAdapter:
    """Runs prompt and generation tests. It generates no text, and its only warm-up is its own."""

    name = "llama-bench"

    def __init__(self, runner: Runner, bundle: BundleOnDevice) -> None:
        self._runner, self._bundle = runner, bundle

    def close(self) -> None:
        """Nothing is left: the process has ended."""

    def describe(self, silence_s: float) -> Mapping[str, Any]:
        """What a minimal run says of build, CPU and model: llama-bench has no other way to tell."""
        request = EngineRequest(prompt_tokens=1, n_predict=0)
        return {"engine": "llama-bench", **self.run(request, silence_s).facts}

    def run(
        self, request: EngineRequest, silence_s: float, on_iteration: Callable[[int], None] = lambda _: None
    ) -> EngineResult:
        bench = LlamaBench()

        def take(line: str) -> None:
            bench.feed(line)

        ended = self._runner.run(
            str(self._bundle.entry_path),
            self.arguments(request),
            silence_s=silence_s * SILENCE_FACTOR,
            timeout_s=request.timeout_s,
            on_stdout=take,
            on_stderr=take,
            doing=lambda: bench.progress,
        )
        report = bench.report()
        evidence = f"$ {ended.command}\n--- stdout\n{ended.stdout.text()}\n--- stderr\n{ended.stderr.text()}"
        if ended.exit_code != 0:
            why = bench.failure or "no reason given"
            raise EngineExit(f"llama-bench ended with exit code {ended.exit_code}: {why}", evidence=evidence)
        if report.status is not Status.OK:
            notes = "; ".join(report.notes) or "it printed no figures"
            raise EngineExit(f"llama-bench: {report.status.value}: {notes}", evidence=evidence)
        return EngineResult(
            command=ended.command,
            exit_code=ended.exit_code,
            seconds=ended.seconds,
            figures=tuple(figure(reading) for reading in report.readings),
            facts=dict(bench.facts),
            stderr_tail=ended.stderr.text(),
            stdout_tail=ended.stdout.text(),
            notes=report.notes,
        )

    def arguments(self, request: EngineRequest) -> list[str]:
        """llama-bench's command line for a request."""
        model = request.model or self._bundle.default_model
        if model is None or model not in self._bundle.models:
            raise EngineExit(f"the bundle has no model {model!r}; it has: {', '.join(self._bundle.models) or 'none'}")
        threads = request.threads or self._bundle.parameters.get("threads")
        prompt = DEFAULT_PROMPT_TOKENS if request.prompt_tokens is None else request.prompt_tokens
        generate = DEFAULT_PREDICT if request.n_predict is None else request.n_predict
        out = ["-m", str(self._bundle.models[model]), "-o", "jsonl", "--progress"]
        out += ["-p", str(prompt), "-n", str(generate), "-r", str(request.repeat)]
        out += ["-t", str(threads)] if threads is not None else []
        out += ["--no-warmup"] if request.warmup == 0 and request.repeat > 0 else []
        return out + [str(word) for word in request.extra]
