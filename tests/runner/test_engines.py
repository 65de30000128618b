"""Adapters on a device: what an engine does well is told in figures, what it does badly by its cause and evidence."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from farm.domain.outcomes import Outcome
from runner.engines import adapter
from runner.engines.base import (
    Adapter,
    BundleOnDevice,
    EngineCrashed,
    EngineExit,
    EngineFailure,
    EngineHung,
    EngineKilled,
    EngineRequest,
)
from runner.engines.generic import fill
from runner.engines.process import Runner
from tests.runner.attempts import Attempts
from tests.waiting import eventually
from virtual import fleet

PROMPT = EngineRequest(prompt="once upon a time", n_predict=6, ignore_eos=True)


class Ear:
    """A reporter that remembers engine processes."""

    def __init__(self) -> None:
        self.engines: list[tuple[int | None, bool]] = []

    def record(self, kind: str, **fields: Any) -> None: ...

    def engine(self, device: str, pid: int | None, alive: bool) -> None:
        self.engines.append((pid, alive))

    def lost(self, device: str, why: str) -> None: ...

    def turn(self, *, measures: bool, virtual: bool) -> Any: ...

    def close(self) -> None: ...


Make = Callable[..., tuple[Adapter, Ear]]


@pytest.fixture
def events(attempts: Attempts, phone: fleet.Running) -> Make:
    """`events(FARM_ENGINE_FAULT=…)` gives the reference engine on the shared device."""
    directory = attempts.make(phone, Path(), "s").spec["bundle"]["device_dir"]

    def make(device: fleet.Running = phone, **env: str) -> tuple[Adapter, Ear]:
        ear = Ear()
        runner = Runner(attempts.device(device), device.serial, ear, directory, env)
        return adapter("events", runner, bundle(directory, "events", "farm-engine")), ear

    return make


def bundle(directory: str, kind: str, entry: str, **changes: Any) -> BundleOnDevice:
    where = PurePosixPath(directory)
    fields: dict[str, Any] = {
        "name": "reference",
        "version": "1",
        "adapter": kind,
        "entry": entry,
        "directory": where,
        "files": {entry: where / "bin/x86_64" / entry},
        "models": {"tiny-q4_0": where / "models/tiny-q4_0.gguf"},
        "default_model": "tiny-q4_0",
        "parameters": {"threads": 1, "ctx": 256},
    }
    return BundleOnDevice(**{**fields, **changes})


def failure(made: tuple[Adapter, Ear], request: EngineRequest = PROMPT, silence_s: float = 20) -> EngineFailure:
    with pytest.raises(EngineFailure) as raised:
        made[0].run(request, silence_s)
    return raised.value


def test_a_run_gives_text_figures_stages_and_memory(events: Make) -> None:
    made, ear = events()
    seen: list[int] = []
    request = EngineRequest(prompt_tokens=8, n_predict=6, repeat=3, warmup=1, ignore_eos=True)
    result = made.run(request, 20, seen.append)
    assert len(result.texts) == 3
    assert len(set(result.texts)) == 1
    for name in ("ttft", "prefill_rate", "decode_rate"):
        figure = result.figure(name)
        assert figure is not None
        assert len(figure.values) == 3
    assert seen == [-1, 0, -1, 1, -1, 2]
    assert {"load.open", "load.map", "warmup", "prefill", "decode"} <= {stage.name for stage in result.stages}
    assert result.memory["hwm_kb"] > 0
    assert result.began is not None
    assert result.began <= time.monotonic()
    assert [alive for _, alive in ear.engines] == [True, False]
    assert isinstance(ear.engines[0][0], int)


def test_the_engine_says_what_it_is(events: Make) -> None:
    assert events()[0].describe(20)["engine"] == "farm-engine"


def test_a_crash_comes_with_the_engines_own_tombstone_and_the_devices(events: Make) -> None:
    found = failure(events(FARM_ENGINE_FAULT="crash=decode"))
    assert isinstance(found, EngineCrashed)
    assert found.cause is Outcome.CRASHED
    assert "SIGSEGV" in str(found)
    assert "stage decode" in str(found)
    for part in ("*** ***", "farm_fault_crash", "the device's own account", "F libc"):
        assert part in found.evidence, found.evidence


def test_a_silent_engine_is_asked_for_its_stacks_and_then_killed(events: Make, attempts: Attempts, phone: Any) -> None:
    made = events(FARM_ENGINE_FAULT="hang=prefill")
    found = failure(made, silence_s=2)
    assert isinstance(found, EngineHung)
    assert "silent for 2 s in stage prefill" in str(found)
    assert "farm-engine" in found.evidence
    assert "#00 pc" in found.evidence
    pid = made[1].engines[0][0]
    assert attempts.device(phone).shell(f"kill -0 {pid}").exit_code != 0


def test_an_engine_that_is_busy_past_its_time_is_hung_as_well(events: Make) -> None:
    request = EngineRequest(prompt_tokens=8, n_predict=100, repeat=100_000, ignore_eos=True, timeout_s=2)
    found = failure(events(), request)
    assert isinstance(found, EngineHung)
    assert "not done after 2 s" in str(found)


@pytest.mark.parametrize(
    ("fault", "words"), [("exit=7", "exit code 7"), ("nonsense=1", "nonsense"), ("exit=4:decode", "stage decode")]
)
def test_an_engine_that_ends_with_an_error_says_which(events: Make, fault: str, words: str) -> None:
    found = failure(events(FARM_ENGINE_FAULT=fault))
    assert isinstance(found, EngineExit)
    assert words in str(found)


def test_an_engine_that_gets_sigkill_was_killed_by_the_system(
    events: Make, attempts: Attempts, phone: fleet.Running
) -> None:
    request = EngineRequest(prompt_tokens=4, n_predict=100, repeat=100_000, ignore_eos=True, timeout_s=120)
    made = events()
    killer = _kill_when_seen(attempts, phone, made[1])
    try:
        found = failure(made, request)
    finally:
        killer.join(90)
    assert isinstance(found, EngineKilled)
    assert found.cause is Outcome.KILLED
    assert "no line of the low-memory killer" in str(found), "nobody was short of memory"


def _kill_when_seen(attempts: Attempts, phone: fleet.Running, ear: Ear) -> threading.Thread:
    device = attempts.device(phone)

    def kill() -> bool:
        return bool(ear.engines) and device.shell(["kill", "-9", str(ear.engines[0][0])]).exit_code == 0

    thread = threading.Thread(target=eventually, args=(kill,), kwargs={"what": "the engine is killed"})
    thread.start()
    return thread


def test_what_goes_to_the_device_is_quoted(events: Make) -> None:
    made, _ = events(MARK="$(touch /data/local/tmp/pwned); 'x' \"y\"")
    prompt = "$(reboot) `id` '; rm -rf /data\" \\ \n end"
    result = made.run(EngineRequest(prompt=prompt, n_predict=1, ignore_eos=True), 20)
    assert result.exit_code == 0


def test_a_name_that_is_no_variable_is_refused(events: Make) -> None:
    found = failure(events(**{"A;reboot": "1"}))
    assert "no name of an environment variable" in str(found)


def test_an_unknown_model_is_refused_with_the_known_ones(events: Make) -> None:
    found = failure(events(), EngineRequest(prompt="x", model="huge"))
    assert "tiny-q4_0" in str(found)


# ---- an engine that nobody wrote an adapter for ----

SCRIPT = """#!/system/bin/sh
[ "$1" = --version ] && { echo "toy 1.2"; exit 0; }
n=$(cat "$TOY_COUNT" 2>/dev/null || echo 0)
[ -n "$TOY_COUNT" ] && echo $((n + 1)) >"$TOY_COUNT"
echo "out: $4"
echo "speed: 1$n.5 tok/s"
[ -n "$TOY_FAILS" ] && { echo "cannot allocate" >&2; exit 9; }
exit 0
"""
COUNT = "/data/local/tmp/toy/count"  # how often the toy was started
GENERIC: dict[str, Any] = {
    "args": ["-m", "{model}", "-p", "{prompt}", "-s", "{seed}"],
    "describe": ["--version"],
    "text": {"regex": "out: (.*)"},
    "metrics": [{"name": "decode_rate", "unit": "tok/s", "better": "higher", "regex": r"speed: ([0-9.]+)"}],
}


@pytest.fixture
def toy(attempts: Attempts, phone: fleet.Running, tmp_path: Path) -> Callable[..., Adapter]:
    device = attempts.device(phone)
    device.check_shell(["mkdir", "-p", "/data/local/tmp/toy/bin/x86_64"])
    (tmp_path / "toy").write_text(SCRIPT)
    device.push(tmp_path / "toy", "/data/local/tmp/toy/bin/x86_64/toy", 0o755)

    def make(generic: dict[str, Any] = GENERIC, **env: str) -> Adapter:
        device.check_shell(["rm", "-f", COUNT])
        runner = Runner(device, phone.serial, Ear(), "/data/local/tmp/toy", env)
        return adapter("generic", runner, bundle("/data/local/tmp/toy", "generic", "toy", generic=generic))

    return make


def test_any_program_gives_the_figures_that_its_bundle_names(toy: Callable[..., Adapter]) -> None:
    assert toy().describe(20)["said"] == "toy 1.2"
    result = toy().run(EngineRequest(prompt="hello world"), 20)
    assert result.text == "hello world"
    figure = result.figure("decode_rate")
    assert figure is not None
    assert figure.values == (10.5,)


def test_any_program_is_started_once_per_iteration_and_its_warm_up_is_not_kept(toy: Callable[..., Adapter]) -> None:
    heard: list[int] = []
    result = toy(TOY_COUNT=COUNT).run(EngineRequest(prompt="hello", warmup=1, repeat=3), 20, heard.append)
    assert result.texts == ("hello",) * 3
    figure = result.figure("decode_rate")
    assert figure is not None
    assert figure.values == (11.5, 12.5, 13.5)
    assert heard == [-1, -1, 0, -1, 1, -1, 2]


def test_a_program_that_repeats_by_itself_is_started_once(toy: Callable[..., Adapter]) -> None:
    generic = {**GENERIC, "args": [*GENERIC["args"], "-r", "{repeat}", "-w", "{warmup}"]}
    result = toy(generic, TOY_COUNT=COUNT).run(EngineRequest(prompt="hello", warmup=1, repeat=3), 20)
    assert result.command.endswith("-r 3 -w 1")
    figure = result.figure("decode_rate")
    assert figure is not None
    assert figure.values == (10.5,)


def test_any_program_that_fails_says_what_it_printed(toy: Callable[..., Adapter]) -> None:
    with pytest.raises(EngineExit, match="exit code 9") as raised:
        toy(TOY_FAILS="1").run(EngineRequest(prompt="x"), 20)
    assert "cannot allocate" in raised.value.evidence


def test_placeholders_without_a_value_go_with_their_option() -> None:
    words = ["run", "-m", "{model}", "--n={n_predict}", "-s", "{seed}", "{prompt}"]
    assert fill(words, {"model": "/m", "prompt": "a b"}) == ["run", "-m", "/m", "a b"]
    assert fill(words, {"model": "/m", "n_predict": "3", "seed": "1", "prompt": ""}) == [
        "run", "-m", "/m", "--n=3", "-s", "1", "",
    ]  # fmt: skip


def test_an_unknown_adapter_is_refused_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match="events, llama-bench, generic"):
        adapter("magic", None, None)  # type: ignore[arg-type]
