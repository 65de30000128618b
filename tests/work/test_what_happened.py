"""What the farm says of each thing that can go wrong, on virtual devices: one table, `what-happened.md`.

Each case makes it happen (a fault of the engine or the device, a bundle that is broken) and looks at the outcome, the
cause, the deployment's word and the incidents. Text that only an app could write is written into the live log by
`log`, from generators made of the formats' documentation; the collector fetches it from among the device's noise.
The table is printed with `pytest -s`, and lies in the test's folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import select

from farm.store import tables
from farm.work.submit import Refused
from tests.work.real_farm import RealFarm

pytestmark = pytest.mark.slow

PACK = """
format: 1
name: what-happened
suites:
  run: {path: run, limits: {suite_s: 200, silence_s: 100}}
  long: {path: long, limits: {suite_s: 200, silence_s: 100}}
  app: {path: app, limits: {suite_s: 100, silence_s: 60}}
  hot: {path: hot, limits: {suite_s: 200, silence_s: 100}}
  kill: {path: kill, limits: {suite_s: 100, silence_s: 60}}
"""
TESTS = {
    "run/test_run.py": "def test_runs(engine):\n    assert engine.run(prompt_tokens=8, n_predict=24, silence_s=6)\n",
    "long/test_long.py": (
        "def test_answers_for_long(engine):\n"
        "    assert engine.run(prompt_tokens=8, n_predict=600, ignore_eos=True, ctx=2048, silence_s=60)\n"
    ),
    "hot/test_hot.py": (
        "def test_rates(engine, measure):\n"
        "    measure.figures(engine.run(prompt_tokens=8, n_predict=64, ignore_eos=True, repeat=3), 'decode_rate')\n"
    ),
    "app/test_app.py": (
        "TEXT = '''FATAL EXCEPTION: main\nProcess: com.acme.chat, PID: 4242\n"
        "java.lang.IllegalStateException: model is not loaded\n\tat com.acme.chat.Model.run(Model.java:71)\n"
        "\tat com.acme.chat.Main.onClick(Main.java:20)'''\n\n\n"
        "def test_writes_what_an_app_would(device):\n"
        "    device.check_shell(['log', '-p', 'E', '-t', 'AndroidRuntime', TEXT])\n"
    ),
    "kill/test_kill.py": (
        "TEXT = \"Kill 'com.acme.maps' (4711), uid 10137, oom_score_adj 905 to free 61004kB rss, 35280kB swap; "
        'reason: low watermark is breached"\n\n\n'
        "def test_a_bystander_is_killed(device):\n"
        "    device.check_shell(['log', '-p', 'I', '-t', 'lowmemorykiller', TEXT])\n"
    ),
}


#: 600 tokens take long enough to be looked at, on a fast machine and on a busy one.
SLOW = "slow-stage=decode:12"


@dataclass(slots=True)
class Row:
    """What the farm said."""

    case: str
    outcome: str = ""
    cause: str = ""
    deployment: str = ""
    incidents: list[str] = field(default_factory=list)
    words: str = ""


@pytest.fixture(scope="module")
def scene(bundle_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RealFarm, Path, list[Row]]]:
    farm, folder, rows = RealFarm(), tmp_path_factory.mktemp("happened"), []
    try:
        for name, text in {"suite.yaml": PACK, **TESTS}.items():
            (folder / "pack" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "pack" / name).write_text(text)
        farm.add_pack(folder / "pack")
        farm.add_bundle(bundle_folder)
        farm.add_device("pixel-8-pro", "V1")
        farm.start()
        farm.ready(1)
        yield farm, folder, rows
    finally:
        farm.close()
        report(folder / "what-happened.md", rows)


def report(path: Path, rows: list[Row]) -> None:
    head = "| what happened | outcome | cause | deployment | incidents | in words |\n|---|---|---|---|---|---|\n"
    lines = [
        " | ".join(("", r.case, r.outcome, r.cause, r.deployment, ", ".join(r.incidents), r.words[:160], "")).strip()
        for r in rows
    ]
    waits = [
        f"| {case} | | | | | waits for app-type engines |"
        for case in (
            "ANR by lock",
            "ANR by binder",
            "ANR by inference on the main thread",
            "ANR by disk",
            "ANR with an idle main thread",
        )
    ]
    path.write_text(head + "\n".join([*lines, *waits]) + "\n")
    print(f"\n{path.read_text()}")


def told(
    scene: tuple[RealFarm, Path, list[Row]],
    case: str,
    suite: str,
    during: Callable[[int], None] | None = None,
    **more: Any,
) -> Row:
    """Run `suite`, and what the farm says of its first attempt."""
    farm, _, rows = scene
    farm.ready(1)
    run = farm.submit(pack="what-happened", suites=(suite,), **more)
    if during is not None:
        farm.reached(run, "execute")
        during(run)
    farm.ended(run)
    first = farm.attempts(run)[0]
    with farm.db.read() as session:
        incident = tables.Incident
        found = session.scalars(select(incident).where(incident.attempt_id == first.id).order_by(incident.id)).all()
        attempt = session.get_one(tables.Attempt, first.id)
    row = Row(
        case, attempt.outcome or "", attempt.cause or "", attempt.deployment or "",
        [i.klass for i in found if i.klass != "warning"], attempt.reason or (found[0].summary if found else ""),
    )  # fmt: skip
    rows.append(row)
    assert all(i.signature for i in found)
    return row


def faulty(spec: str) -> dict[str, Any]:
    return {"env": {"*": {"FARM_ENGINE_FAULT": spec}}}


def changed(scene: tuple[RealFarm, Path, list[Row]], bundle: Path, name: str, change: Callable[[Path], None]) -> str:
    """The reference bundle with something wrong in it, under a name of its own."""
    farm, folder, _ = scene
    made = folder / name
    shutil.copytree(bundle, made)
    text = yaml.safe_load((made / "bundle.yaml").read_text())
    (made / "bundle.yaml").write_text(yaml.safe_dump({**text, "name": name}))
    change(made)
    farm.add_bundle(made)
    return name


def test_a_native_crash(scene: tuple[RealFarm, Path, list[Row]]) -> None:
    row = told(scene, "native crash", "run", **faulty("crash=decode"))
    assert (row.outcome, row.deployment) == ("crashed", "ok")
    assert row.incidents == ["engine-crashed"]
    assert "SIGSEGV" in row.words


def test_a_crash_while_loading(scene: tuple[RealFarm, Path, list[Row]]) -> None:
    row = told(scene, "native crash while loading", "run", **faulty("crash=load.map"))
    assert (row.outcome, row.deployment) == ("crashed", "other")


def test_a_java_crash_in_the_log(scene: tuple[RealFarm, Path, list[Row]]) -> None:
    row = told(scene, "Java crash", "app")
    assert "java-crash" in row.incidents


def test_a_bystander_is_killed(scene: tuple[RealFarm, Path, list[Row]]) -> None:
    row = told(scene, "low-memory kill of a bystander", "kill")
    assert "low-memory-kill" in row.incidents


def test_a_low_memory_kill(scene: tuple[RealFarm, Path, list[Row]]) -> None:
    farm = scene[0]
    row = told(
        scene,
        "low-memory kill",
        "long",
        lambda run: _when_computing(farm, run, "kill", name="farm-engine"),
        **faulty(SLOW),
    )
    assert row.outcome == "killed"
    assert "engine-killed" in row.incidents


def _when_computing(farm: RealFarm, run: int, kind: str, **arguments: Any) -> None:
    """Once the engine runs on the device."""
    from tests.waiting import eventually

    eventually(lambda: "farm-engine" in farm.shell("ps -A -o NAME"), 60, what="the engine runs")
    farm.fault("V1", kind, **arguments)


def test_a_hang(scene: tuple[RealFarm, Path, list[Row]]) -> None:
    row = told(scene, "hang", "run", **faulty("hang=decode"))
    assert row.outcome == "hung"
    assert row.incidents == ["engine-hung"]


def test_a_load_that_never_ends(scene: tuple[RealFarm, Path, list[Row]]) -> None:
    row = told(scene, "hang while loading", "run", **faulty("hang=load.map"))
    assert (row.outcome, row.deployment) == ("hung", "load-timeout")


def test_memory_that_grows(scene: tuple[RealFarm, Path, list[Row]]) -> None:
    row = told(scene, "heap growth", "long", **faulty(f"leak=1,{SLOW}"))
    assert "heap-growth" in row.incidents, row


def test_a_cache_that_fills_is_no_leak(scene: tuple[RealFarm, Path, list[Row]]) -> None:
    row = told(scene, "healthy growing KV cache", "long", **faulty(SLOW))
    assert row.outcome == "passed", row
    assert row.incidents == []
    assert row.deployment == "ok"


def test_throttling(scene: tuple[RealFarm, Path, list[Row]]) -> None:
    farm = scene[0]
    farm.fault("V1", "heat", to_c=96)
    try:
        row = told(scene, "throttling", "hot")
    finally:
        farm.fault("V1", "heat", watts=0)
    with farm.db.read() as session:
        marks = session.scalars(select(tables.Measurement.marks).where(tables.Measurement.name == "decode_rate")).all()
    row.words = f"marks of its figures: {sorted({str(mark) for each in marks for mark in each})}"
    assert any("throttled" in each for each in marks)


def test_a_truncated_model(scene: tuple[RealFarm, Path, list[Row]], bundle_folder: Path) -> None:
    def cut(folder: Path) -> None:
        (model,) = (folder / "models").glob("*.gguf")
        model.write_bytes(model.read_bytes()[:-4096])

    row = told(scene, "truncated model", "run", bundle=changed(scene, bundle_folder, "truncated", cut))
    assert (row.outcome, row.cause, row.deployment) == ("refused", "missing-file", "model")


def test_a_missing_tokenizer(scene: tuple[RealFarm, Path, list[Row]], bundle_folder: Path) -> None:
    def strip(folder: Path) -> None:
        (model,) = (folder / "models").glob("*.gguf")
        model.write_bytes(model.read_bytes().replace(b"tokenizer.ggml.model", b"tokenised.ggml.model"))

    row = told(scene, "missing tokenizer", "run", bundle=changed(scene, bundle_folder, "untokenised", strip))
    assert (row.outcome, row.deployment) == ("refused", "tokenizer")


def test_a_wrong_abi(scene: tuple[RealFarm, Path, list[Row]], bundle_folder: Path) -> None:
    def move(folder: Path) -> None:
        text = yaml.safe_load((folder / "bundle.yaml").read_text())
        (abi,) = text["files"]
        text["files"] = {"arm64-v8a": text["files"][abi]}
        for path in text["files"]["arm64-v8a"].values():
            data = bytearray((folder / path).read_bytes())
            if data.startswith(b"\x7fELF"):
                data[18:20] = (183).to_bytes(2, "little")  # e_machine: AArch64
                (folder / path).write_bytes(data)
        (folder / "bundle.yaml").write_text(yaml.safe_dump(text))

    with pytest.raises(Refused, match="arm64-v8a"):
        told(scene, "wrong ABI", "run", bundle=changed(scene, bundle_folder, "foreign", move))
    scene[2].append(Row("wrong ABI", "refused at submit", words="the run is refused with the selector to add"))


def test_a_missing_library(scene: tuple[RealFarm, Path, list[Row]], bundle_folder: Path) -> None:
    def unlink(folder: Path) -> None:
        program = (
            folder / next(iter(yaml.safe_load((folder / "bundle.yaml").read_text())["files"].values()))["farm-engine"]
        )
        program.write_bytes(Path("/bin/ls").resolve().read_bytes().replace(b"libc.so.6", b"libx.so.6"))

    row = told(scene, "missing library", "run", bundle=changed(scene, bundle_folder, "unlinked", unlink))
    assert (row.outcome, row.deployment) == ("failed", "missing-library")


def test_a_full_disk(scene: tuple[RealFarm, Path, list[Row]]) -> None:
    farm = scene[0]
    farm.ready(1)
    farm.fault("V1", "disk-full", state="on")
    try:
        run = farm.submit(pack="what-happened", suites=("run",))
        farm.ended(run)
        with farm.db.read() as session:
            attempt = session.get_one(tables.Attempt, farm.attempts(run)[0].id)
        scene[2].append(
            Row(
                "disk full",
                attempt.outcome or "",
                attempt.cause or "",
                attempt.deployment or "",
                words=attempt.reason or "",
            )
        )
        assert (attempt.cause, attempt.deployment) == ("storage-full", "storage")
    finally:
        farm.fault("V1", "disk-full", state="off")


def test_a_reboot(scene: tuple[RealFarm, Path, list[Row]]) -> None:
    farm = scene[0]
    row = told(scene, "reboot", "long", lambda run: _when_computing(farm, run, "reboot"), **faulty(SLOW))
    assert row.outcome == "device-lost"
    assert "reboot" in row.incidents
