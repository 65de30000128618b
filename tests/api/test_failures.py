"""Clusters and deployments over HTTP, on the command line and on their pages."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from farm.cli.main import main
from farm.store import clusters, deployments, tables
from farm.store.people import Scope
from tests.served import Served

CRASH = """pid: 7, tid: 7, name: x  >>> x <<<
signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x0
      #00 pc 01  /d/libllama.so (ggml_mul_mat+4)"""
CHECKS = [{"name": "memory", "ok": True, "figure": "3.4 GB available", "remedy": ""}]


@pytest.fixture(scope="module")
def filled(farm_server: Served) -> Served:
    """Four attempts: one loaded, one crashed while loading, one had no tokenizer, one was cancelled."""
    now = farm_server.farm.db.now()
    with farm_server.farm.db.session() as session:
        session.add(tables.Host(name="local", drained=False, info={}))
        session.flush()
        labels = {"type_name": "Pixel 8 Pro"}
        session.add(
            tables.Device(id=1, serial="s", name="husky-1", host="local", labels=labels, seen_at=now, listed=True)
        )
        session.add(
            tables.Bundle(
                hash="b" * 64, name="chat", version="1.0", adapter="events", manifest={}, bytes=1, created_at=now
            )
        )
        session.add(tables.SuitePack(hash="p" * 64, name="p", manifest={}, bytes=1, created_at=now))
        session.flush()
        session.add(
            tables.Run(id=1, title="t", klass="manual", created_at=now, bundle_hash="b" * 64, pack_hash="p" * 64,
                       suites=["s"], selector="*", request={})
        )  # fmt: skip
        session.flush()
        session.add(tables.Job(id=1, run_id=1, ordinal=0, selector="*", suites=["s"], klass="manual", queued_at=now))
        session.flush()
        for number, outcome in enumerate(("passed", "crashed", "failed", "cancelled"), 1):
            session.add(
                tables.Attempt(id=number, job_id=1, number=number, device_id=1, host="local", token=number,
                               phase="done", created_at=now, ended_at=now, workflow_id=f"w{number}", outcome=outcome)
            )  # fmt: skip
        session.flush()
        session.get_one(tables.Attempt, 1).peak_bytes = 12_300_000
        session.add(tables.AttemptPhase(attempt_id=1, phase="precheck", began_at=now, detail={"checks": CHECKS}))
        session.flush()
        for attempt, klass, summary, evidence in (
            (2, "engine-crashed", "the engine crashed in stage load.map: SIGSEGV", CRASH),
            (
                3,
                "engine-failed",
                "the engine ended with exit code 3",
                "llama_model_load: error loading model: cannot find tokenizer merges in model file",
            ),
        ):
            row = tables.Incident(attempt_id=attempt, device_id=1, at=now - timedelta(hours=attempt), klass=klass,
                                  summary=summary, evidence=evidence)  # fmt: skip
            session.add(row)
            clusters.sign(session, row)
        session.flush()
        for number in range(1, 5):
            deployments.note(session, session.get_one(tables.Attempt, number))
    return farm_server


def test_a_cluster_is_listed_shown_named_and_muted(filled: Served) -> None:
    (crash, tokens) = filled.ask("GET", "/api/clusters").json()["clusters"]
    assert (crash["klass"], tokens["klass"]) == ("native_crash", "load:tokenizer_lookup_failed")
    assert (crash["incidents"], crash["devices"], crash["bundles"]) == (1, 1, 1)
    assert (crash["rate"]["hits"], crash["rate"]["total"]) == (1, 4)
    detail = filled.ask("GET", f"/api/clusters/{crash['id']}").json()
    assert detail["devices"][0][0]["name"] == "husky-1"
    assert detail["bundles"][0]["name"] == "chat"
    assert "ggml_mul_mat" in detail["signatures"][0]["title"]
    named = filled.ask("PUT", f"/api/clusters/{crash['id']}/name", json={"name": "matrix product"})
    assert named.json()["name"] == "matrix product"
    assert filled.ask("PUT", f"/api/clusters/{crash['id']}/mute", json={"muted": True}).status_code == 422
    muted = filled.ask("PUT", f"/api/clusters/{crash['id']}/mute", json={"muted": True, "reason": "known"})
    assert muted.status_code == 200
    assert [c["id"] for c in filled.ask("GET", "/api/clusters").json()["clusters"]] == [tokens["id"]]
    assert len(filled.ask("GET", "/api/clusters?muted=true").json()["clusters"]) == 2
    assert filled.ask("PUT", f"/api/clusters/{crash['id']}/mute", json={"muted": False}).status_code == 200


def test_who_may_only_read_cannot_name(filled: Served) -> None:
    reader = filled.new_token(Scope.READ)
    assert filled.ask("PUT", "/api/clusters/1/name", token=reader, json={"name": "x"}).status_code == 403
    assert filled.ask("GET", "/api/clusters/999999").status_code == 404
    assert filled.ask("PUT", "/api/clusters/999999/name", json={"name": "x"}).status_code == 404


def test_deployments_are_told_by_cause_bundle_and_model(filled: Served) -> None:
    found = filled.ask("GET", "/api/deployments").json()
    assert found["counted"] == 3  # the cancelled one says nothing
    assert (found["overall"]["hits"], found["overall"]["total"]) == (2, 3)
    assert {share["cause"] for share in found["causes"]} == {"other", "tokenizer"}
    assert found["bundles"][0]["name"] == "chat 1.0"
    assert found["models"][0]["name"] == "Pixel 8 Pro"
    assert (found["covered"]["hits"], found["covered"]["total"]) == (0, 1)
    assert filled.ask("GET", "/api/deployments?bundle=nobody").json()["overall"]["value"] is None


def test_pages_show_the_same(filled: Served) -> None:
    number = filled.ask("GET", "/api/clusters").json()["clusters"][0]["id"]
    page = filled.ask("GET", "/failures").text
    assert "ggml_mul_mat" in page.replace("<wbr>", "")
    assert "husky-1" in filled.ask("GET", f"/failures/{number}").text
    rates = filled.ask("GET", "/failures/deployments").text
    assert "66.7 %" in rates
    assert "the tokenizer could not be used" in rates
    assert "No attempt says anything" in filled.ask("GET", "/failures/deployments?bundle=nobody").text
    assert filled.ask("GET", "/failures/999999").status_code == 404
    with filled.farm.db.read() as session:
        key = session.query(tables.Signature.key).first()[0]
    moved = filled.ask("GET", f"/failures/signatures/{key}")
    assert moved.status_code == 303
    assert filled.ask("GET", moved.headers["location"]).status_code == 200
    attempt = filled.ask("GET", "/attempts/2").text
    assert "/failures/signatures/" in attempt
    assert "something else" in attempt  # its deployment
    first = filled.ask("GET", "/attempts/1").text
    assert "precheck: passed" in first
    assert "peak memory" in first


def test_the_command_line_tells_the_same(
    filled: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FARM_URL", filled.origin)
    monkeypatch.setenv("FARM_TOKEN", filled.token)
    assert main(["clusters", "--json"]) == 0
    number = json.loads(capsys.readouterr().out)["clusters"][0]["id"]
    assert main(["clusters", "show", str(number)]) == 0
    assert "husky-1" in capsys.readouterr().out
    assert main(["clusters", "name", str(number), "known one"]) == 0
    assert main(["clusters", "mute", str(number), "--reason", "fixed in 1.5"]) == 0
    assert main(["clusters", "list", "--muted"]) == 0
    assert "known one (muted)" in capsys.readouterr().out
    assert main(["clusters", "unmute", str(number), "--json"]) == 0
    capsys.readouterr()
    assert main(["deployments"]) == 0
    assert "66.7 %" in capsys.readouterr().out
    assert main(["deployments", "--bundle", "nobody"]) == 0
    assert "says anything" in capsys.readouterr().err
