"""What people do about devices by hand: scopes, words, and an audit line for each."""

from __future__ import annotations

import pytest
from sqlalchemy import select, update

from farm.store import tables
from farm.store.people import Scope
from tests.api.rows import an_attempt
from tests.served import Served


@pytest.fixture
def device(served: Served) -> str:
    an_attempt(served, ended=True)
    with served.farm.db.session() as session:
        row = session.get_one(tables.Device, 1)
        row.health, row.health_reason, row.health_until, row.strikes = "good", None, None, 3
        row.connection = "device"
    return "/api/devices/d1"


def health(served: Served) -> tuple[str, str | None]:
    facts = served.ask("GET", "/api/devices/d1").json()["tile"]["facts"]
    return facts["health"], facts["health_reason"]


def test_a_quarantine_names_reason_and_person_and_a_release_is_looked_at_first(served: Served, device: str) -> None:
    done = served.ask("POST", f"{device}/quarantine", json={"reason": "its screen is broken"})
    assert (done.status_code, done.json()["until"]) == (200, None)
    assert health(served) == ("bad", "its screen is broken")
    shown = served.ask("GET", device).json()
    assert (shown["health_by"], shown["tile"]["availability"]) == ("admin", "quarantined")
    assert served.ask("POST", f"{device}/release").status_code == 200
    assert health(served)[0] == "suspect"
    with served.farm.db.read() as session:
        assert session.get_one(tables.Device, 1).strikes == 0
        lines = session.execute(select(tables.Audit.action, tables.Audit.target)).all()
    assert [tuple(line) for line in lines][-2:] == [("device.quarantine", "device d1"), ("device.release", "device d1")]


def test_a_quarantine_may_have_an_end(served: Served, device: str) -> None:
    done = served.ask("POST", f"{device}/quarantine", json={"reason": "cools down", "for_s": 600})
    assert done.json()["until"] is not None


def test_what_is_in_service_cannot_be_released(served: Served, device: str) -> None:
    refused = served.ask("POST", f"{device}/release")
    assert refused.status_code == 409
    assert "neither in quarantine nor in maintenance" in refused.json()["error"]["message"]


def test_a_check_makes_a_good_device_doubted_and_respects_a_persons_word(served: Served, device: str) -> None:
    assert served.ask("POST", f"{device}/check").json()["health"] == "suspect"
    served.ask("POST", f"{device}/maintenance", json={"reason": "new battery"})
    refused = served.ask("POST", f"{device}/check")
    assert refused.status_code == 409
    assert "admin (new battery)" in refused.json()["error"]["message"]


def test_a_note_stands_on_the_devices_page_as_text(served: Served, device: str) -> None:
    text = "<script>alert(1)</script> cable replaced"
    assert served.ask("POST", f"{device}/notes", json={"text": text}).status_code == 201
    [note, *_] = served.ask("GET", device).json()["notes"]
    assert (note["by"], note["text"]) == ("admin", text)
    page = served.ask("GET", "/devices/d1", headers={"Accept": "text/html"}).text
    assert "<script>alert(1)" not in page


@pytest.mark.parametrize("action", ["quarantine", "maintenance", "release", "check"])
def test_who_may_only_submit_may_not_operate(served: Served, device: str, action: str) -> None:
    token = served.new_token(Scope.READ, Scope.SUBMIT)
    refused = served.ask("POST", f"{device}/{action}", token, json={"reason": "because"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not-allowed")
    assert health(served)[0] == "good"


def test_an_unknown_device_is_not_found_and_input_is_bounded(served: Served, device: str) -> None:
    assert served.ask("POST", "/api/devices/nobody/release").status_code == 404
    assert served.ask("POST", f"{device}/notes", json={"text": "x" * 2001}).status_code == 422
    assert served.ask("POST", f"{device}/quarantine", json={"reason": "because", "for_s": -1}).status_code == 422


def test_alerts_are_listed_and_stand_on_the_fleet(served: Served, device: str) -> None:
    with served.farm.db.session() as session:
        now = served.farm.db.now(session)
        session.add(tables.Alert(kind="host-trouble", ref="lab", at=now, message="3 of 4 failed <together>", detail={}))
    assert [a["ref"] for a in served.ask("GET", "/api/alerts").json()["open"]] == ["lab"]
    assert [a["ref"] for a in served.ask("GET", "/api/devices").json()["alerts"]] == ["lab"]
    page = served.ask("GET", "/", headers={"Accept": "text/html"})
    assert "3 of 4 failed &lt;together&gt;" in page.text


def test_the_devices_page_shows_advice_log_and_forms_to_those_who_may_use_them(served: Served, device: str) -> None:
    with served.farm.db.session() as session:
        row = session.get_one(tables.Device, 1)
        row.health, row.health_reason, row.health_action = "bad", "recovery gave up", "check cable <and> hub"
        row.health_log, row.clock_skew_s = "10:00:01 reboot: <deaf>", 12.5
    html = {"Accept": "text/html"}
    page = served.ask("GET", "/devices/d1", headers=html).text
    for text in ("check cable &lt;and&gt; hub", "reboot: &lt;deaf&gt;", "+12.5 s off", ">release<", "write a note"):
        assert text in page, text
    reader = served.new_token(Scope.READ)
    assert "By hand" not in served.ask("GET", "/devices/d1", reader, headers=html).text


def test_the_forms_of_the_devices_page_do_what_the_api_does(served: Served, device: str) -> None:
    sent = served.ask("POST", "/ui/devices/1/quarantine", data={"reason": "dropped", "hours": "2"})
    assert sent.status_code == 303, sent.text
    assert health(served) == ("bad", "dropped")
    assert served.ask("POST", "/ui/devices/1/release").status_code == 303
    assert served.ask("POST", "/ui/devices/1/release", headers={"Accept": "text/html"}).status_code == 409
    for_ever = served.ask("POST", "/ui/devices/1/quarantine", data={"reason": "dropped again", "hours": ""})
    assert for_ever.status_code == 303, for_ever.text
    served.ask("POST", "/ui/devices/1/notes", data={"text": "new cable"})
    assert served.ask("GET", device).json()["notes"][0]["text"] == "new cable"
    token = served.new_token(Scope.READ, Scope.SUBMIT)
    assert served.ask("POST", "/ui/devices/1/maintenance", token, data={"reason": "because"}).status_code == 403


def test_a_name_of_two_devices_is_refused_with_those_to_choose_from(served: Served, device: str) -> None:
    with served.farm.db.session() as session:
        session.add(tables.Host(name="lab-9", info={}))
        session.flush()
        session.add(tables.Device(serial="s9", name="d1", host="lab-9", labels={}))
    try:
        refused = served.ask("POST", "/api/devices/d1/notes", json={"text": "which?"})
        assert refused.status_code == 409
        assert refused.json()["error"]["code"] == "ambiguous-name"
        assert refused.json()["error"]["detail"] == {"candidates": ["lab-9/s9", "local/s1"]}
        assert "local/s1" in served.ask("GET", "/devices/d1").text
        assert served.ask("POST", "/api/devices/s9/notes", json={"text": "this one"}).status_code == 201
    finally:
        with served.farm.db.session() as session:
            session.execute(update(tables.Device).where(tables.Device.serial == "s9").values(name="s9"))
