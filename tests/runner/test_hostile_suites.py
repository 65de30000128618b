"""A stranger's suite reaches its devices and its folder, nothing else; what it tried is in the attempt's journal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.devices import AdbServer, StartVirtualDevice
from tests.runner.attempts import Attempts, lines_of
from virtual import fleet

PACK = Path(__file__).parent / "hostile"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "farm.sqlite"
    path.write_text("secret")
    return path


def test_what_is_out_of_reach_stays_so_and_the_journal_says_who_tried(
    attempts: Attempts,
    phone: fleet.Running,
    virtual_device: StartVirtualDevice,
    adb_server: AdbServer,
    secret: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    neighbour = tmp_path_factory.mktemp("checkout") / "README.md"  # below /tmp, where the suite has one of its own
    neighbour.write_text("not for a suite")
    monkeypatch.setenv("HOST_MARK_SECRET", "1")
    other = virtual_device("rk3568")
    attempt = attempts.make(phone, PACK, "reach")
    attempt.spec["params"] = {
        "adb": adb_server.adb,
        "other": other.serial,
        "other_address": other.address,
        "host_adb_port": adb_server.port,
        "database": str(secret),
        "secret": str(Path.home() / ".bashrc"),
        "neighbour": str(neighbour),
        "journal": str(attempt.folder / "journal.jsonl"),
    }
    end = attempt.run()
    assert end.fields["outcome"] == "passed", f"{end.fields}\n{attempt.log()}"
    assert secret.read_text() == "secret"
    lens = "\n".join(attempt.incidents("lens-refused"))
    for tried in (other.serial, other.address, "kill", "connect", "forward"):
        assert tried in lens, f"{tried} is not in:\n{lens}"
    refused = "\n".join(attempt.incidents("sandbox-refused"))
    for tried in (
        str(secret),
        str(neighbour),
        "192.0.2.1",
        "names cannot be looked up",
        "198.51.100.7",
        f"127.0.0.1 port {adb_server.port}",
        str(attempt.folder / "journal.jsonl"),
        "/etc/shadow",
        "/farm/pack/new.py: read-only",
    ):
        assert tried in refused, f"{tried} is not in:\n{refused}"
    assert "passwords" in "\n".join(attempt.incidents("journal-refused"))
    assert not attempt.records("artifact")
    by_test = {r.fields["test"].split("::")[-1] for r in attempt.records("incident")}
    assert {"test_other_device", "test_network", "test_database"} <= by_test


def test_a_forged_journal_is_refused_and_the_attempt_ends_as_it_really_did(
    attempts: Attempts, phone: fleet.Running
) -> None:
    attempt = attempts.make(phone, PACK, "journal")
    end = attempt.run()
    assert end.fields["outcome"] == "passed", f"{end.fields}\n{attempt.log()}"
    assert len(attempt.records("end")) == 1
    assert len(attempt.records("start")) == 1
    assert not attempt.records("measurement")
    assert not attempt.incidents("sandbox-refused")
    records = attempt.records()
    assert [r.seq for r in records] == list(range(len(records)))
    assert [r.mono for r in records] == sorted(r.mono for r in records)
    refused = "\n".join(attempt.incidents("journal-refused"))
    for tried in ("'end' records", "'start' records", "belong to the journal", "not among the collected", "not leased"):
        assert tried in refused, f"{tried} is not in:\n{refused}"
    assert len(attempt.records()) < 200, "\n".join(lines_of(records))
    counts = [r.fields.get("count", 1) for r in attempt.records("incident")]
    assert len(counts) < 100 < sum(counts), "all are counted, few are written"


def test_greed_meets_its_bounds_and_the_machine_goes_on(attempts: Attempts, phone: fleet.Running) -> None:
    attempt = attempts.make(phone, PACK, "greed")
    end = attempt.run()
    assert end.fields["outcome"] == "passed", f"{end.fields}\n{attempt.log()[-3000:]}"
    assert (attempt.folder / "runner.log").stat().st_size < 10 << 20
    assert "bytes left out" in attempt.log()


def test_a_suite_that_hangs_is_stopped_with_its_stacks_and_the_device_is_free_again(
    attempts: Attempts, phone: fleet.Running
) -> None:
    attempt = attempts.make(phone, PACK, "hang")
    end = attempt.run()
    assert end.fields["outcome"] == "timed-out"
    assert "no sign of life" in end.fields["reason"]
    assert "::test_for_ever: it waited in " in end.fields["reason"], "which test, and where"
    assert "the_loop_that_never_ends" in end.fields["reason"]
    assert attempt.outcomes() == {"test_before": "passed", "test_for_ever": "failed"}
    hung = attempt.records("test_end")[-1]
    assert "the_loop_that_never_ends" in hung.fields["detail"]
    assert attempt.incidents("suite-killed")
    assert attempts.make(phone, PACK, "journal").run().fields["outcome"] == "passed"


def test_nothing_of_an_attempt_is_left_running(attempts: Attempts, phone: fleet.Running) -> None:
    attempt = attempts.make(phone, PACK, "hang")
    attempt.run()
    marker = os.fsencode(attempt.folder)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        assert marker not in command, command
