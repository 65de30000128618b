"""Every error is one shape for programs and a page for people, and tells nothing of what is inside."""

from __future__ import annotations

from typing import Any

import pytest

from farm.api import devices
from tests.served import Served

HTML = {"Accept": "text/html,application/xhtml+xml"}


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/nothing", 404, "not-found"),
        ("GET", "/api/runs/1", 404, "not-found"),
        ("GET", "/api/runs/1/measurements", 404, "not-found"),
        ("GET", "/api/attempts/1", 404, "not-found"),
        ("GET", "/api/attempts/1/log", 404, "not-found"),
        ("GET", "/api/artifacts/1", 404, "not-found"),
        ("GET", "/api/devices/nobody", 404, "not-found"),
        ("GET", "/api/bundles/nobody", 404, "not-found"),
        ("POST", "/api/runs/1/cancel", 404, "unknown-run"),
        ("POST", "/api/runs/1/rerun", 404, "unknown-run"),
        ("PUT", "/api/runs", 405, "method-not-allowed"),
        ("GET", "/api/runs/0", 422, "bad-input"),
        ("GET", "/api/runs/99999999999999999999", 422, "bad-input"),
        ("GET", "/api/runs?limit=0", 422, "bad-input"),
        ("GET", "/api/runs?state=unknown", 422, "bad-input"),
        ("GET", "/api/attempts/1/log?which=passwd", 422, "bad-input"),
        ("GET", "/api/attempts/1/log?limit=99999999", 422, "bad-input"),
    ],
)
def test_an_error_has_a_status_a_code_and_a_sentence(
    served: Served, method: str, path: str, status: int, code: str
) -> None:
    answer = served.ask(method, path)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert len(error["message"]) > 8


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "body.bundle"),
        ({"bundle": "b"}, "body.suites"),
        ({"bundle": "b", "suites": []}, "body.suites"),
        ({"bundle": "b", "suites": ["smoke"], "selektor": "*"}, "body.selektor"),
        ({"bundle": "b", "suites": ["smoke"], "mode": "all"}, "body.mode"),
        ({"bundle": "b", "suites": ["smoke"], "selector": "x" * 2001}, "body.selector"),
        ({"bundle": "b", "suites": ["smoke"], "env": {"*": {"A B": "1"}}}, "body.env"),
        ({"bundle": "b", "suites": ["smoke"], "env": {"*": {"A": "\0"}}}, "body.env"),
        ({"bundle": "b", "suites": ["smoke"], "env": {"*": {"A": "x" * 5000}}}, "body.env"),
        ({"bundle": "b", "suites": "smoke"}, "body.suites"),
        ([], "body"),
    ],
)
def test_bad_input_is_named_by_its_field(served: Served, body: Any, where: str) -> None:
    answer = served.ask("POST", "/api/runs", json=body)
    assert answer.status_code == 422
    assert where in answer.json()["error"]["message"]


def test_a_body_that_is_no_json_is_bad_input(served: Served) -> None:
    for content in (b"{", b"\xff\xfe", b"[" * 100_000, b"NaN"):
        answer = served.ask("POST", "/api/runs", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422), content[:10]
        assert answer.json()["error"]["message"]


def test_an_unknown_bundle_is_refused_with_a_sentence(served: Served) -> None:
    answer = served.ask("POST", "/api/runs", json={"bundle": "nobody", "suites": ["smoke"]})
    assert answer.status_code == 422
    assert "nobody" in answer.json()["error"]["message"]


def test_a_selector_that_cannot_be_read_says_where(served: Served) -> None:
    answer = served.ask("POST", "/api/runs/preview", json={"selector": "soc=="})
    assert answer.status_code == 200
    assert answer.json()["error"]["position"] >= 3
    assert answer.json()["matching"] == []


def test_a_fault_of_the_farm_is_told_by_a_mark_and_logged_whole(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_args: object) -> None:
        raise RuntimeError("secret inside")

    monkeypatch.setattr(devices.fleet, "fleet", broken)
    answer = served.ask("GET", "/api/devices")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (500, "farm-fault")
    assert "secret" not in answer.text
    assert error["detail"]["id"] in error["message"]
    assert any(error["detail"]["id"] in record.getMessage() and record.exc_info for record in caplog.records)


def test_a_person_gets_a_page(served: Served) -> None:
    served.client.post("/login", data={"token": served.token})
    answer = served.client.get("/nothing-here", headers=HTML)
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert "There is no such page" in answer.text


def test_every_answer_forbids_sniffing_framing_and_caching(served: Served) -> None:
    for path in ("/healthz", "/api/runs", "/api/nothing", "/login"):
        headers = served.ask("GET", path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "content-security-policy" in headers
        assert headers["cache-control"] == "no-store"
