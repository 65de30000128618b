"""Fixtures and markers, as a suite uses them: one pack on a device, and what its journal then holds."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from farm.adb.device import Device
from farm.adb.shell import ShellResult
from farm.domain.journal import Record
from runner.engine import Engine
from runner.engines.base import EngineRequest
from runner.handles import Logcat
from runner.measure import Measure
from runner.summary import row, spread
from tests.runner.attempts import ROOT, Attempt, Attempts, write_pack
from tests.waiting import eventually
from virtual import fleet

FIXTURES = """
import time
import pytest

def test_device_is_the_leased_one(device, facts):
    assert device.serial() == facts["serial"]
    assert device.shell(["echo", "a b"]).stdout == "a b\\n"

def test_parameters(params):
    assert params["depth"] == 3

def test_values_of_a_test(measure):
    measure.record("load", [3.0, 4.0, 5.0], unit="ms", better="lower", kind="cold")

def test_turns(measure):
    for turn in measure.repeat(3, warmup=1):
        turn.value("step", 2.0 + turn.index, unit="s", better="lower")

def test_turns_of_a_test_that_fails(measure):
    for turn in measure.repeat(3, warmup=0):
        turn.value("half", 1.0, unit="s")
        assert turn.index < 1, "in the middle"

def test_figures_of_the_engine(engine, measure):
    result = engine.run(prompt_tokens=8, n_predict=5, repeat=3, warmup=1, ignore_eos=True)
    measure.figures(result, "decode_rate", model="tiny")

def test_a_figure_that_the_engine_does_not_report(engine, measure):
    measure.figures(engine.run(prompt_tokens=4, n_predict=1), "joules_per_token")

def test_series(series):
    temperature = series("cpu temperature", "°C")
    for value in range(700):
        temperature.add(20 + value / 100)

def test_log(device, logcat):
    device.shell(["log", "-t", "farmtest", "hello from the test"])
    assert "hello from the test" in logcat.wait_for("farmtest")

def test_artifact(artifact):
    artifact("notes.txt", "kept", media_type="text/plain")
    with pytest.raises(ValueError):
        artifact("../escape", "x")

def test_facts(fingerprint):
    fingerprint({"colour": "green"})

def test_more_facts(fingerprint):
    fingerprint({"size": 3})
"""

MARKERS = """
import pytest

@pytest.mark.needs("soc='Tensor G3'")
def test_that_fits(): pass

@pytest.mark.needs("npu", "ram_gb>=512")
def test_that_needs_more(): raise AssertionError("must not run")

@pytest.mark.needs("a = = b")
def test_whose_need_is_no_selector(): pass

@pytest.mark.settle(max_temperature_c=90, timeout_s=5)
def test_cool_enough(): pass

@pytest.mark.settle(max_temperature_c=2, timeout_s=1)
def test_never_cool_enough(): raise AssertionError("must not run")

@pytest.mark.settle(temperature=3)
def test_whose_condition_is_unknown(): pass

@pytest.mark.budget(load_ms=5, rate_tok_s=10)
def test_within_budget(measure):
    measure.record("load", [3, 4, 50], unit="ms", better="lower")
    measure.record("rate", 11, unit="tok/s", better="higher")

@pytest.mark.budget(load_ms=5, rate_tok_s=10)
def test_over_budget(measure):
    measure.record("load", [6, 7, 8], unit="ms", better="lower")
    measure.record("rate", 9, unit="tok/s", better="higher")

@pytest.mark.budget(peak_rss_mb=1)
def test_over_its_memory(engine):
    engine.run(prompt_tokens=4, n_predict=1)

@pytest.mark.budget(load_ms=5)
def test_that_measures_nothing(): pass

@pytest.mark.parametrize("text", ["x" * 900, "ü\\n"])
def test_with_odd_names(text): pass
"""


@pytest.fixture
def fixtures_attempt(attempts: Attempts, phone: fleet.Running, tmp_path: Path) -> Attempt:
    pack = write_pack(tmp_path / "pack", {"s/test_fixtures.py": FIXTURES})
    attempt = attempts.make(phone, pack, "s", params={"depth": 3})
    attempt.run()
    return attempt


def of(attempt: Attempt, name: str) -> Record:
    (found,) = attempt.records("measurement", name=name)
    return found


def test_what_the_fixtures_leave_in_the_journal(fixtures_attempt: Attempt) -> None:
    attempt = fixtures_attempt
    outcomes = attempt.outcomes()
    assert {name for name, outcome in outcomes.items() if outcome != "passed"} == {
        "test_turns_of_a_test_that_fails",
        "test_a_figure_that_the_engine_does_not_report",
    }, attempt.log()
    assert outcomes["test_a_figure_that_the_engine_does_not_report"] == "skipped"
    (skipped,) = attempt.records("test_end", outcome="skipped")
    assert "does not report joules_per_token" in skipped.fields["message"]
    (failed,) = attempt.records("test_end", outcome="failed")
    assert "in the middle" in failed.fields["message"]

    assert of(attempt, "load").fields["values"] == [3.0, 4.0, 5.0]
    assert of(attempt, "load").fields["labels"] == {"kind": "cold"}
    steps = of(attempt, "step").fields
    assert steps["values"] == [1.0, 2.0, 3.0, 4.0]
    assert steps["marks"][0] == "warmup"
    assert of(attempt, "half").fields["values"] == [1.0]
    rate = of(attempt, "decode_rate").fields
    assert len(rate["values"]) == len(rate["marks"]) == 3
    assert rate["unit"] == "tok/s"
    assert rate["labels"]["model"] == "tiny"

    chunks = attempt.records("series", name="cpu temperature")
    assert [len(chunk.fields["values"]) for chunk in chunks] == [500, 200]
    (kept,) = attempt.records("artifact")
    assert (attempt.folder / kept.fields["path"]).read_text() == "kept"
    assert kept.fields["bytes"] == 4
    whole = [r for r in attempt.records("fingerprint") if not r.fields.get("partial")]
    assert [r.fields["facts"] for r in whole] == [{"colour": "green", "size": 3}]
    assert {r.fields["name"] for r in attempt.records("stage")} >= {"load.open", "prefill", "decode"}


def test_markers_decide_what_runs_and_what_counts(attempts: Attempts, phone: fleet.Running, tmp_path: Path) -> None:
    pack = write_pack(tmp_path / "pack", {"s/test_markers.py": MARKERS})
    attempt = attempts.make(phone, pack, "s")
    end = attempt.run()
    ends = {r.fields["test"].split("::")[-1].split("[")[0]: r.fields for r in attempt.records("test_end")}
    said = {name: (fields["outcome"], fields.get("message", "")) for name, fields in ends.items()}

    assert said["test_that_fits"][0] == "passed"
    assert said["test_that_needs_more"][0] == "skipped"
    assert "npu is unknown, wanted npu" in said["test_that_needs_more"][1]
    assert said["test_whose_need_is_no_selector"][0] == "error"
    assert said["test_cool_enough"][0] == "passed"
    assert said["test_never_cool_enough"][0] == "error"
    assert ends["test_never_cool_enough"]["cause"] == "infra-error"
    assert "did not settle within 1 s" in said["test_never_cool_enough"][1]
    assert "max_temperature_c" in said["test_whose_condition_is_unknown"][1]
    assert said["test_within_budget"][0] == "passed"
    assert said["test_over_budget"][0] == "failed"
    assert "load_ms is 7 ms, at most 5" in said["test_over_budget"][1]
    assert "rate_tok_s is 9 tok/s, at least 10" in said["test_over_budget"][1]
    assert "peak_rss_mb is" in said["test_over_its_memory"][1]
    assert "not measured by this test" in said["test_that_measures_nothing"][1]
    assert said["test_with_odd_names"][0] == "passed"
    assert end.fields["outcome"] == "infra-error", "a device that did not settle is the farm's trouble"


# ---- at a desk ----


def desk(*arguments: str, port: int, state: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "ANDROID_ADB_SERVER_PORT": str(port), "FARM_STATE": str(state)}
    environment["FARM_LOCKS"] = os.environ["FARM_LOCKS"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(ROOT), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=cwd,
        env={**environment, "PYTHONPATH": str(ROOT)},
        check=False,
    )


DESK = """
def test_a(engine, measure):
    measure.figures(engine.run(prompt_tokens=4, n_predict=4, repeat=2, ignore_eos=True), "decode_rate")

def test_b(facts, measure, artifact):
    measure.record("three", 3, unit="m")
    artifact("seen.txt", "here")
"""


def test_the_manual_names_all_that_a_command_returns() -> None:
    public = {name for name in vars(ShellResult) if not name.startswith("_")}
    manual = (ROOT / "docs" / "suites.md").read_text()
    assert not {name for name in public if f"`{name}`" not in manual}


def test_each_fixture_is_documented_as_it_is_called() -> None:
    """What the manual's table shows of a fixture is a whole call that its class accepts, never a bare name."""
    classes = {"engine": Engine, "measure": Measure, "device": Device, "logcat": Logcat}
    requests = {field.name for field in dataclasses.fields(EngineRequest)}
    table = (ROOT / "docs" / "suites.md").read_text().split("| fixture ")[1].split("| marker ")[0]
    shown = set()
    for code in re.findall(r"`([^`]+)`", table):
        nodes = list(ast.walk(ast.parse(code, mode="eval")))
        calls = {id(node.func): node for node in nodes if isinstance(node, ast.Call)}
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in classes:
                member, call = getattr(classes[node.value.id], node.attr), calls.get(id(node))
                assert callable(member) == (call is not None), code
                if call is not None:
                    words = {word.arg or "": None for word in call.keywords}
                    inspect.signature(member).bind(None, *call.args, **words)
                    assert node.attr != "run" or set(words) <= requests, code
                    shown.add((node.value.id, node.attr))
    assert {member for owner, member in shown if owner == "device"} == {"shell", "check_shell", "push", "pull", "props"}
    assert {owner for owner, _ in shown} == set(classes)


def test_a_suite_runs_at_a_desk_without_any_server(
    attempts: Attempts, phone: fleet.Running, tiny_bundle: object, tmp_path: Path, adb_server: object
) -> None:
    from runner.journal import read

    pack = write_pack(tmp_path / "pack", {"s/test_desk.py": DESK})
    folder = str(tiny_bundle.folder)  # type: ignore[attr-defined]
    port: int = adb_server.port  # type: ignore[attr-defined]
    state = tmp_path / "state"
    (tmp_path / "here").mkdir()
    done = desk(str(pack), "--device", phone.serial, "--bundle", folder, port=port, state=state, cwd=tmp_path / "here")
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("NO SANDBOX", phone.serial, "virtual", "measurements", "tok/s", "journal:"):
        assert part in done.stdout, done.stdout
    assert not list((tmp_path / "here").iterdir()), "it leaves nothing where it was started"
    (journal,) = state.glob("desk/*/journal.jsonl")
    assert f"journal: {journal}" in done.stdout.splitlines()
    assert f"artifacts: {journal.parent / 'journal-artifacts'}" in done.stdout.splitlines()
    assert (journal.parent / "journal-artifacts" / "seen.txt").read_text() == "here"
    records = list(read(journal))
    assert {r.fields["test"]: r.fields["outcome"] for r in records if r.kind == "test_end"} == {
        "s/test_desk.py::test_a": "passed",
        "s/test_desk.py::test_b": "passed",
    }


def test_a_desk_does_not_take_a_device_that_a_farm_with_another_state_folder_uses(
    attempts: Attempts, phone: fleet.Running, tiny_bundle: object, tmp_path: Path, adb_server: object
) -> None:
    waits = "import time\nfrom pathlib import Path\n\ndef test_waits():\n    Path('runs').touch()\n"
    waits += "    end = time.monotonic() + 120\n    while not Path('go-on').exists():\n"
    waits += "        assert time.monotonic() < end\n        time.sleep(0.05)\n"
    own, other = tmp_path / "farm", tmp_path / "elsewhere"
    busy = attempts.make(phone, write_pack(own, {"s/test_waits.py": waits}), "s", locks_dir=os.environ["FARM_LOCKS"])
    process = busy.start()
    eventually(lambda: (busy.folder / "work" / "runs").exists(), what="the farm's attempt to run")
    pack = write_pack(tmp_path / "pack", {"s/test_desk.py": DESK})
    arguments = (str(pack), "--device", phone.serial, "--bundle", str(tiny_bundle.folder))  # type: ignore[attr-defined]
    port: int = adb_server.port  # type: ignore[attr-defined]
    refused = desk(*arguments, port=port, state=other, cwd=tmp_path)
    assert refused.returncode == pytest.ExitCode.USAGE_ERROR, refused.stdout + refused.stderr
    said = refused.stdout + refused.stderr
    assert f"{phone.serial} is held by pid {process.pid} (attempt 1 of the farm in {tmp_path}" in said
    (busy.folder / "work" / "go-on").touch()
    process.communicate(timeout=120)
    assert busy.end().fields["outcome"] == "passed"


def test_a_device_that_was_named_is_never_left_out_in_silence(
    attempts: Attempts, phone: fleet.Running, tiny_bundle: object, tmp_path: Path, adb_server: object
) -> None:
    pack = write_pack(tmp_path / "pack", {"s/test_desk.py": DESK})
    folder = str(tiny_bundle.folder)  # type: ignore[attr-defined]
    port: int = adb_server.port  # type: ignore[attr-defined]
    both = f"{phone.serial},no-such-device"
    done = desk(
        str(pack), "--device", both, "--bundle", folder, "-n", "auto", port=port, state=tmp_path / "s", cwd=tmp_path
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout + done.stderr
    assert "--device names no-such-device" in done.stdout + done.stderr


def test_workers_at_a_desk_take_a_device_each(
    attempts: Attempts,
    phone: fleet.Running,
    tiny_bundle: object,
    tmp_path: Path,
    adb_server: object,
    virtual_device: object,
) -> None:
    from runner.journal import read

    other: fleet.Running = virtual_device("rk3568")  # type: ignore[operator]
    pack = write_pack(tmp_path / "pack", {"s/test_desk.py": DESK})
    folder = str(tiny_bundle.folder)  # type: ignore[attr-defined]
    port: int = adb_server.port  # type: ignore[attr-defined]
    journal = tmp_path / "each.jsonl"
    both = f"{phone.serial},{other.serial}"
    done = desk(
        str(pack), "--device", both, "--bundle", folder, "-n", "auto", "--dist", "each", "--journal", str(journal),
        port=port, state=tmp_path / "state", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    ends = [(r.fields["test"].split("::")[-1], r.fields["device"]) for r in read(journal) if r.kind == "test_end"]
    assert sorted(ends) == sorted((test, d.serial) for test in ("test_a", "test_b") for d in (phone, other))
    assert "measurements" in done.stdout
    assert len(list((tmp_path / "each-artifacts").glob("*/seen.txt"))) == 2, "each worker's own"


def test_a_desk_without_a_device_or_bundle_says_what_to_type(
    tmp_path: Path, phone: fleet.Running, adb_server: object
) -> None:
    pack = write_pack(tmp_path / "pack", {"s/test_desk.py": DESK})
    port: int = adb_server.port  # type: ignore[attr-defined]
    none = desk(str(pack), port=port, state=tmp_path / "state", cwd=tmp_path)
    assert "--device auto [--bundle DIR]" in none.stdout
    unknown = desk(str(pack), "--device", "NOBODY", "--bundle", "x", port=port, state=tmp_path / "state", cwd=tmp_path)
    assert unknown.returncode != 0
    assert "lists no device for --device NOBODY" in unknown.stdout + unknown.stderr
    arguments = (str(pack), "--device", phone.serial, "--bundle", "elsewhere")
    bundle = desk(*arguments, port=port, state=tmp_path / "state", cwd=tmp_path)
    assert bundle.returncode != 0
    assert "--bundle" in bundle.stdout + bundle.stderr


def test_the_summary_leaves_marked_values_out_of_the_median() -> None:
    fields = {
        "test": "s/t.py::test_x", "device": "S", "name": "rate", "unit": "tok/s", "better": "higher",
        "values": [1.0, 10.0, 11.0, 12.0, 500.0], "marks": ["warmup", None, None, None, "throttled"], "labels": {},
    }  # fmt: skip
    cells = row(Record(0, 0, 0, "measurement", fields))
    assert cells[3:] == ("11 tok/s", "± 4.5 %", "3", "2 of 5 throttled, warmup")
    assert spread([5.0]) == ""
