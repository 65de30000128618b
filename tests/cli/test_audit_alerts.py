"""`farm audit` and `farm alerts` against a real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from farm.domain.alerts import DUPLICATE_SERIAL, HOST_LOST
from farm.store import tables
from farm.store.people import Scope
from tests.api.rows import an_attempt
from tests.cli.conftest import Done, farm
from tests.served import Served


def run(served: Served, *arguments: str, **env: str) -> Done:
    return farm(*arguments, state=served.settings.state, **env)


@pytest.fixture(scope="module")
def noted(farm_server: Served) -> Served:
    """A farm where things were done to a device."""
    an_attempt(farm_server)
    farm_server.ask("POST", "/api/devices/d1/notes", json={"text": "a new \x1b[2Jscreen"})
    farm_server.ask("POST", "/api/devices/d1/quarantine", json={"reason": "it runs hot", "for_s": 600})
    return farm_server


@pytest.fixture
def alerts(noted: Served) -> Iterator[tuple[str, str]]:
    """One that holds, and one that is over; their kinds."""
    with noted.farm.db.session() as session:
        now = noted.farm.db.now(session)
        session.add(tables.Alert(kind=HOST_LOST, ref="lab-1", at=now, message="host lab-1 is silent", detail={}))
        over = {"cleared_at": now, "detail": {}}
        session.add(tables.Alert(kind=DUPLICATE_SERIAL, ref="lab-2/s1", at=now, message="two of them", **over))
    yield HOST_LOST, DUPLICATE_SERIAL
    with noted.farm.db.session() as session:
        session.query(tables.Alert).delete()


def test_the_audit_log_says_who_did_what_to_what_and_what_changed(noted: Served) -> None:
    shown = run(noted, "audit", "--target", "device d1")
    assert shown.code == 0
    first, second = shown.out.splitlines()[1:3]
    assert "admin  device.quarantine  device d1" in " ".join(first.split("   ")).replace("   ", "  ")
    assert "reason it runs hot" in first
    assert "text a new �[2Jscreen" in second, "what somebody wrote must not steer the terminal"
    assert "ago)" in first
    told = run(noted, "audit", "--target", "device d1", "--json").json()
    assert [line["action"] for line in told["lines"]] == ["device.quarantine", "device.note"]
    assert told["lines"][0]["at"].endswith("Z")


def test_the_audit_log_is_searched_and_read_a_page_at_a_time(noted: Served) -> None:
    first = run(noted, "audit", "--action", "device", "--limit", "1")
    assert "device.quarantine" in first.out
    assert "farm audit --action 'device' --before " in first.err
    before = first.err.split("--before ")[1].split("`")[0]
    assert "device.note" in run(noted, "audit", "--action", "device", "--before", before).out
    none = run(noted, "audit", "--who", "zoe")
    assert (none.code, none.out, "No line says that" in none.err) == (0, "", True)
    weak = noted.new_token(Scope.READ)
    refused = run(noted, "audit", FARM_URL=noted.origin, FARM_TOKEN=weak)
    assert refused.code == 3
    assert "admin" in refused.err


def test_alerts_are_listed_and_an_empty_list_says_so(noted: Served) -> None:
    none = run(noted, "alerts", "--exit-code")
    assert (none.code, none.out) == (0, "")
    assert "No alert." in none.err
    assert run(noted, "alerts", "--json").json() == {"open": [], "cleared": []}


def test_alerts_hold_or_are_over(noted: Served, alerts: tuple[str, str]) -> None:
    shown = run(noted, "alerts")
    assert (shown.code, "host lab-1 is silent" in shown.out, "two of them" in shown.out) == (0, True, False)
    assert run(noted, "alerts", "--exit-code").code == 2
    every = run(noted, "alerts", "--all").out
    assert "it holds" in every
    assert "two of them" in every
    told = run(noted, "alerts", "--all", "--kind", DUPLICATE_SERIAL, "--json").json()
    assert (told["open"], [alert["ref"] for alert in told["cleared"]]) == ([], ["lab-2/s1"])
    assert f"No alert of the kind {DUPLICATE_SERIAL}" in run(noted, "alerts", "--kind", DUPLICATE_SERIAL).err
    assert run(noted, "alerts", "--kind", "ghosts").code == 3
