"""The front door: what is queued, and what is refused with words that help."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from farm.store import tables
from farm.store.artifacts import ArtifactStore
from farm.store.db import Database
from farm.work.submit import Refused, RunRequest, cancel, preview, rerun_failed, submit
from tests.work.factories import add_bundle_and_pack, add_device


@pytest.fixture
def farm(db: Database, store: ArtifactStore, tmp_path: Path) -> Database:
    add_device(db, "husky-v1", soc="Tensor G3", gpu="Mali-G715", android="14")
    add_device(db, "rk-v1", soc="RK3568", gpu="Mali-G52", android="11")
    add_device(db, "arm-1", soc="RK3588", abi="arm64-v8a", android="12")
    add_bundle_and_pack(db, store, tmp_path / "src")
    return db


def request(**more: Any) -> RunRequest:
    return RunRequest(**{"bundle": "reference", "suites": ("smoke",), "selector": "abi=x86_64", **more})


def jobs_of(db: Database, run: int) -> list[tables.Job]:
    with db.read() as session:
        return list(session.scalars(select(tables.Job).where(tables.Job.run_id == run).order_by(tables.Job.ordinal)))


def refused(db: Database, **more: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        submit(db, request(**more))
    with db.read() as session:
        assert session.scalar(select(func.count()).select_from(tables.Run)) == 0
    return caught.value


def test_a_matrix_is_a_job_per_matching_device(farm: Database) -> None:
    jobs = jobs_of(farm, submit(farm, request()))
    assert [j.device_id for j in jobs] == [1, 2]
    assert all(j.state == "queued" and j.wait_reason for j in jobs)


def test_any_is_one_job_on_whichever_is_free_first(farm: Database) -> None:
    assert [j.device_id for j in jobs_of(farm, submit(farm, request(mode="any")))] == [None]


def test_a_bundle_is_found_by_name_hash_or_the_beginning_of_its_hash(farm: Database) -> None:
    with farm.read() as session:
        hash = session.scalar(select(tables.Bundle.hash))
    assert hash is not None
    for wanted in ("reference", hash, hash[:8]):
        assert submit(farm, request(bundle=wanted)) > 0
    with pytest.raises(Refused, match="there is no bundle"):
        submit(farm, request(bundle=hash[:7]))


def test_what_matches_nothing_is_refused_with_the_nearest_device_and_what_differs(farm: Database) -> None:
    error = refused(farm, selector="soc=RK3568 android>=12")
    assert error.code == "no-match"
    assert "rk-v1: android is 11, wanted android>=12" in error.message
    assert {
        "device": "rk-v1",
        "serial": "rk-v1",
        "failed": [{"term": "android>=12", "key": "android", "have": "11"}],
    } in (error.detail["nearest"])


def test_a_mistyped_key_is_named(farm: Database) -> None:
    assert "no device has 'andriod', did you mean android?" in refused(farm, selector="andriod>=12").message


def test_a_bundle_without_a_file_for_the_abi_is_refused_before_anything_happens(farm: Database) -> None:
    error = refused(farm, selector="*")
    assert error.code == "no-abi"
    assert "none for arm-1 (arm64-v8a); narrow the selector with: abi in (x86_64)" in error.message


def never_seen(db: Database, name: str) -> None:
    add_device(db, name)
    with db.session() as session:
        row = session.scalars(select(tables.Device).where(tables.Device.name == name)).one()
        row.labels, row.connection, row.seen_at, row.listed = {"pack": "new"}, "gone", None, True


def test_a_device_of_unknown_abi_is_left_out_and_named_by_preview_and_submit_alike(farm: Database) -> None:
    never_seen(farm, "new-1")
    with farm.session() as session:
        session.delete(session.get_one(tables.Device, 3))  # the one whose ABI is known to be another
    shown = preview(farm, "*", "reference")
    assert [m.name for m in shown.matching] == ["husky-v1", "rk-v1"]
    assert [m.words() for m in shown.nearest] == ["new-1: abi is unknown, wanted abi in (x86_64)"]
    run = submit(farm, request(selector="*"))
    assert [j.device_id for j in jobs_of(farm, run)] == [1, 2]
    with farm.read() as session:
        left_out = session.get_one(tables.Run, run).request["left_out"]
    assert left_out == [
        {"device": "new-1", "state": "gone", "why": "its ABI is not known yet: the farm has not seen it"}
    ]


def test_a_device_of_unknown_abi_is_refused_where_it_is_all_there_is_or_asked_for_itself(farm: Database) -> None:
    never_seen(farm, "new-1")
    for selector in ("pack=new", "name in (husky-v1, new-1)", "serial=NEW-1 or soc=RK3568"):
        error = refused(farm, selector=selector)
        assert (error.code, "none for new-1 (ABI not known yet)" in error.message) == ("no-abi", True), selector


@pytest.mark.parametrize("suite", ["smoke", "gpu"])
@pytest.mark.parametrize(
    "selector",
    ["*", "abi=x86_64", "soc=RK3588", "name=arm-1", "pack=new", "name=new-1", "name in (husky-v1, new-1)",
     "soc!=RK3588", "name=new* or soc=RK3568", "serial=NEW-1 or soc=RK3568"],
)  # fmt: skip
def test_a_preview_and_a_submission_agree_on_whom_the_bundle_has_files_for(
    farm: Database, selector: str, suite: str
) -> None:
    never_seen(farm, "new-1")
    shown = preview(farm, selector, "reference", suites=(suite,))
    if shown.refusal is not None or not shown.matching:
        refusal = refused(farm, selector=selector, suites=(suite,))
        assert shown.refusal is None or shown.refusal.message == refusal.message
    else:
        ran = [job.device_id for job in jobs_of(farm, submit(farm, request(selector=selector, suites=(suite,))))]
        assert [match.device_id for match in shown.matching] == ran


def test_a_pattern_names_no_device(farm: Database) -> None:
    never_seen(farm, "husky-v2")
    assert [j.device_id for j in jobs_of(farm, submit(farm, request(selector="name=husky*")))] == [1]


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        ({"bundle": "referense"}, "unknown-bundle", "did you mean reference?"),
        ({"suites": ("smok",)}, "unknown-suite", "did you mean smoke?"),
        ({"suites": ()}, "no-suite", "builtin has smoke, gpu"),
        ({"suites": ("smoke", "smoke")}, "suite-twice", "once"),
        ({"pack": "nope"}, "unknown-pack", "farm suite pack"),
        ({"selector": "soc=="}, "bad-selector", "write soc="),
        ({"klass": "urgent"}, "unknown-class", "nightly"),
        ({"env": {"husky-v": {"A": "1"}}}, "unknown-device", "did you mean husky-v1?"),
        ({"env": {"*": {"A B": "1"}}}, "bad-variable", "no name of a variable"),
        ({"env": {"*": {"A": "x" * 40000}}}, "env-too-long", "longer"),
        ({"tests": ("smoke/test_smok.py::test_a",)}, "unknown-test", "did you mean smoke/test_smoke.py?"),
        ({"tests": ()}, "bad-tests", "none at all"),
        ({"params": {"a": "x" * 70000}}, "params-too-long", "longer"),
        ({"mode": "some"}, "unknown-mode", "each, any, shard"),
    ],
)
def test_what_cannot_work_is_refused_with_what_to_do(
    farm: Database, more: dict[str, Any], code: str, words: str
) -> None:
    error = refused(farm, **more)
    assert error.code == code
    assert words in error.message


def test_a_suite_goes_only_where_it_makes_sense(farm: Database) -> None:
    assert [j.device_id for j in jobs_of(farm, submit(farm, request(suites=("smoke", "gpu"))))] == [1, 2]
    with farm.session() as session:
        for row in session.query(tables.Device):
            row.labels = {**row.labels, "gpu": "Adreno"}
    with pytest.raises(Refused, match=r"no device matches 'gpu=Mali\*'"):
        submit(farm, request(suites=("gpu",)))


def test_a_device_that_is_away_is_left_out_and_named(farm: Database) -> None:
    with farm.session() as session:
        session.get_one(tables.Device, 2).connection = "gone"
    run = submit(farm, request())
    assert [j.device_id for j in jobs_of(farm, run)] == [1]
    with farm.read() as session:
        left_out = session.get_one(tables.Run, run).request["left_out"]
    assert left_out == [{"device": "rk-v1", "state": "gone", "why": "adb does not list it"}]


def test_when_every_match_is_away_the_run_waits_for_them(farm: Database) -> None:
    with farm.session() as session:
        for row in session.query(tables.Device):
            row.connection = "gone"
    assert len(jobs_of(farm, submit(farm, request()))) == 2


def test_the_same_idempotency_key_is_the_same_run_even_at_the_same_moment(farm: Database) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(submit(farm, request(idempotency_key="pr-7")))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 6
    assert len(set(found)) == 1
    assert submit(farm, request(idempotency_key="pr-7", team="other")) not in found


def test_cancel_ends_what_waits_and_a_second_cancel_is_refused(farm: Database) -> None:
    run = submit(farm, request())
    cancel(farm, run, "ada")
    with farm.read() as session:
        row = session.get_one(tables.Run, run)
        assert (row.state, row.outcome, row.cancel_by) == ("ended", "cancelled", "ada")
    assert {j.outcome for j in jobs_of(farm, run)} == {"cancelled"}
    with pytest.raises(Refused, match="ended already"):
        cancel(farm, run, "ada")
    with pytest.raises(Refused, match="no run 99"):
        cancel(farm, 99, None)


def test_what_failed_is_run_again_on_its_devices(farm: Database) -> None:
    run = submit(farm, request())
    with pytest.raises(Refused, match="not ended"):
        rerun_failed(farm, run, None)
    with farm.session() as session:
        first, second = session.query(tables.Job).order_by(tables.Job.id)
        for job, outcome in ((first, "passed"), (second, "crashed")):
            job.state, job.outcome = "ended", outcome
        session.get_one(tables.Run, run).state = "ended"
    again = rerun_failed(farm, run, "ada")
    assert [j.device_id for j in jobs_of(farm, again)] == [2]
    with farm.session() as session:
        for job in session.query(tables.Job):
            job.state, job.outcome = "ended", "passed"
        for row in session.query(tables.Run):
            row.state = "ended"
    with pytest.raises(Refused, match="every job of run"):
        rerun_failed(farm, again, None)


def test_a_preview_tells_what_matches_what_is_near_and_what_is_wrong(farm: Database) -> None:
    shown = preview(farm, "soc=RK3568")
    assert [(m.name, m.availability) for m in shown.matching] == [("rk-v1", "ready")]
    assert {m.device.name for m in shown.nearest} == {"husky-v1", "arm-1"}
    assert preview(farm, "soc==").error is not None
    with_bundle = preview(farm, "*", "reference")
    assert [m.name for m in with_bundle.matching] == ["husky-v1", "rk-v1"]
    assert [m.words() for m in with_bundle.nearest] == ["arm-1: abi is arm64-v8a, wanted abi in (x86_64)"]
    assert with_bundle.refusal is not None
    assert with_bundle.refusal.message == refused(farm, selector="*").message
