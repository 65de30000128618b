"""The engine as a test sees it: the fixture `engine`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farm.domain.journal import clip
from runner.bench import Bench
from runner.engines import adapter
from runner.engines.base import BundleOnDevice, EngineFailure, EngineRequest, EngineResult
from runner.engines.process import Runner

#: Stages of one start of an engine that go into the journal; later ones are in the engine's own output alone.
MAX_STAGES = 400
#: Key of an engine's memory report -> the figure that budgets speak of. kB of the kernel are 1024 bytes.
_PEAKS = {"pss_kb": "peak_pss", "hwm_kb": "peak_rss"}


class Engine:
    """Starts the bundle's engine on the device, and puts into the journal what every start of it shows.

    Stages, memory peaks and notes are recorded by themselves; a failure becomes an incident with its evidence and is
    raised as `EngineFailure`.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        runner = Runner(bench.device, bench.serial, bench.reporter, str(bench.bundle.directory), bench.env)
        self._adapter = adapter(bench.bundle.adapter, runner, bench.bundle)
        self._described: Mapping[str, Any] | None = None

    @property
    def adapter(self) -> str:
        """The adapter's name: events, llama-bench, generic, app."""
        return self._adapter.name

    @property
    def bundle(self) -> BundleOnDevice:
        return self._bench.bundle

    def close(self) -> None:
        """No test asks for it any more."""
        self._adapter.close()

    def describe(self) -> Mapping[str, Any]:
        """What the engine says of itself; asked once."""
        if self._described is None:
            try:
                self._described = self._adapter.describe(self._bench.engine_silence_s)
            except EngineFailure as failure:
                self._incident(failure)
                raise
        return self._described

    def run(self, prompt: str | None = None, **request: Any) -> EngineResult:
        """Start the engine once, to its end; keywords are the fields of `EngineRequest`. Raises EngineFailure."""
        asked = EngineRequest(prompt=prompt, **request)
        silence_s = asked.silence_s or self._bench.engine_silence_s
        measure = self._bench.measure
        if measure is None:
            return self._kept(self._run(asked, silence_s))
        measure.begin()
        result = self._run(asked, silence_s)
        measure.end()
        return self._kept(result)

    def _run(self, asked: EngineRequest, silence_s: float) -> EngineResult:
        measure = self._bench.measure
        try:
            return self._adapter.run(asked, silence_s, measure.iteration if measure is not None else lambda _: None)
        except EngineFailure as failure:
            self._incident(failure)
            raise

    def _kept(self, result: EngineResult) -> EngineResult:
        for stage in result.stages[:MAX_STAGES]:
            labels = {} if stage.iteration is None else {"iteration": stage.iteration}
            if result.began is not None:
                counters = {**stage.counters, **labels}
                began = result.began + stage.began_s
                self._bench.record("stage", name=stage.name, began=began, dur_s=stage.duration_s, counters=counters)
        for key, name in _PEAKS.items():
            if key in result.memory:
                megabytes = result.memory[key] * 1024 / 1e6
                self._bench.peaks[name] = ("MB", max(megabytes, self._bench.peaks.get(name, ("MB", 0.0))[1]))
        for note in result.notes[:10]:
            self._bench.note(note, level="warning")
        return result

    def _incident(self, failure: EngineFailure) -> None:
        evidence = clip(failure.evidence)
        self._bench.record("incident", **{"class": failure.klass}, summary=str(failure)[:2000], evidence=evidence)
