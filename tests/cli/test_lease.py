"""`farm acquire` and `farm lease`: a device for a while, from the command line."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from farm.domain.outcomes import ExitCode
from farm.store import leases, tables
from tests.cli.conftest import Done, farm
from tests.served import Served, serve


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A farm of its own with the device d1."""
    with serve(tmp_path / "farm") as made:
        with made.farm.db.session() as session:
            session.add(tables.Host(name="local", drained=False, info={}))
            session.flush()
            session.add(tables.Device(serial="s1", name="d1", host="local", labels={"soc": "x"}, connection="device"))
        yield made


def run(served: Served, *arguments: str) -> Done:
    """The command, with the device seen just now: no agent runs."""
    with served.farm.db.session() as session:
        for row in session.scalars(select(tables.Device)):
            row.seen_at = served.farm.db.now(session)
    return farm(*arguments, state=served.settings.state)


def acquired(served: Served, *arguments: str) -> dict[str, Any]:
    done = run(served, "acquire", "soc=x", "--for", "10m", "--json", *arguments)
    assert done.code == 0, done
    found: dict[str, Any] = done.json()
    return found


def test_a_free_device_is_leased_listed_extended_and_given_back(served: Served) -> None:
    lease = acquired(served)["lease"]
    listed = run(served, "lease", "list").out
    assert "d1" in listed
    assert "held" in listed
    assert f"{lease['user']}, team {lease['team']}" in run(served, "devices").out
    [device] = run(served, "devices", "--json").json()["devices"]
    assert device["facts"]["held_by"] == f"{lease['user']}, team {lease['team']}"
    longer = run(served, "lease", "extend", str(lease["id"]), "--by", "1h")
    assert longer.code == 0, longer
    assert f"lease {lease['id']} of d1 ends at" in longer.out
    assert "being cleaned" in run(served, "lease", "release", str(lease["id"])).err
    assert "was over" in run(served, "lease", "release", str(lease["id"])).err
    assert "being cleaned" in run(served, "lease", "list").out


@pytest.mark.parametrize(
    ("info", "address", "adb", "said"),
    [
        ({"node": platform.node(), "adb_port": 20037}, "127.0.0.1:5601", (20037, "127.0.0.1:5601"),
         "Use it: adb -P 20037 -s 127.0.0.1:5601 shell"),
        ({"node": "lab-2.lan", "adb_port": 20037}, None, (20037, "s1"),
         "Use it, on the machine lab-2.lan (host local): adb -P 20037 -s s1 shell"),
        ({}, None, (None, "s1"), "Use it on its host local: the port of the farm's adb server is not known here"),
    ],
)  # fmt: skip
def test_what_was_acquired_is_told_with_the_line_that_reaches_it(
    served: Served, info: dict[str, Any], address: str | None, adb: tuple[int | None, str], said: str
) -> None:
    with served.farm.db.session() as session:
        session.get_one(tables.Host, "local").info = info
        session.scalars(select(tables.Device)).one().address = address
    done = run(served, "acquire", "soc=x", "--for", "10m")
    assert said in done.err, done
    with served.farm.db.session() as session:
        leases.end(session, 1, served.farm.db.now(session), "cleaned")
    found = acquired(served)["adb"]
    assert (found["port"], found["serial"], found["host"]) == (*adb, "local")


def test_a_wait_that_is_over_has_its_exit_code_and_leaves_no_wish(served: Served) -> None:
    acquired(served)
    done = run(served, "acquire", "soc=x", "--for", "10m", "--wait", "1s")
    assert done.code == ExitCode.WAIT_EXPIRED, done
    assert "no device within the wait" in done.err
    assert run(served, "lease", "list", "--json").json()["waiting"] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_is_stopped_while_waiting_leaves_no_wish(served: Served, number: signal.Signals) -> None:
    acquired(served)
    command = [sys.executable, "-m", "farm.cli.main", "acquire", "soc=x", "--for", "10m"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FARM_")}
    env = clean | {"FARM_STATE": str(served.settings.state), "FARM_LOCKS": os.environ["FARM_LOCKS"]}
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=env) as waiting:
        try:
            assert waiting.stderr is not None
            told = waiting.stderr.readline()
            waiting.send_signal(number)
            _, rest = waiting.communicate(timeout=60)
        finally:
            waiting.kill()
    assert "reservation 2 waits" in told
    assert (waiting.returncode, "reservation 2 is withdrawn" in rest) == (ExitCode.CANCELLED, True)
    assert run(served, "lease", "list", "--json").json()["waiting"] == []


def test_a_wish_is_withdrawn_by_its_number(served: Served) -> None:
    acquired(served)
    ident = str(served.ask("POST", "/api/reservations", json={"selector": "soc=x", "for_s": 600}).json()["id"])
    assert "is withdrawn" in run(served, "lease", "withdraw", ident).err
    assert "was over" in run(served, "lease", "withdraw", ident).err
    assert "`farm lease list` lists what there is" in run(served, "lease", "withdraw", "99").err


def test_a_lease_that_is_over_names_the_command_that_lists_the_open_ones(served: Served) -> None:
    ident = str(acquired(served)["lease"]["id"])
    with served.farm.db.session() as session:
        leases.end(session, int(ident), served.farm.db.now(session), "cleaned")
    told = run(served, "lease", "extend", ident, "--by", "1h").err
    assert f"Lease {ident} is over: cleaned. `farm lease list` lists the open ones." in told


def test_what_is_acquired_is_told_by_both_its_numbers(served: Served) -> None:
    assert acquired(served, "--wait", "30s")["id"] == 1
    with served.farm.db.session() as session:
        leases.end(session, 1, served.farm.db.now(session), "cleaned")
    assert "d1  s1  reservation 2 · lease 2 until" in run(served, "acquire", "soc=x", "--for", "10m").out


def test_what_matches_nothing_is_refused_with_the_nearest(served: Served) -> None:
    done = run(served, "acquire", "soc=y", "--for", "10m")
    assert done.code == ExitCode.REFUSED
    assert "d1" in done.err


def test_an_operator_takes_a_device_away(served: Served) -> None:
    lease = acquired(served)["lease"]
    done = run(served, "lease", "preempt", str(lease["id"]), "--reason", "the lab moves")
    assert done.code == 0, done
    with served.farm.db.read() as session:
        row = session.get_one(tables.Lease, lease["id"])
    assert row.end_reason is not None
    assert row.end_reason.endswith("because the lab moves")
    ident = str(lease["id"])
    for told in (run(served, "lease", "release", ident), run(served, "lease", "extend", ident, "--by", "1h")):
        assert row.end_reason in told.err
    assert row.end_reason in run(served, "lease", "list").err


def test_an_empty_list_says_what_to_type_next(served: Served) -> None:
    assert "farm acquire" in run(served, "lease", "list").err


def test_a_hand_over_reaches_who_waits(served: Served) -> None:
    lease = acquired(served)["lease"]
    with served.farm.db.session() as session:
        leases.end(session, lease["id"], served.farm.db.now(session), "cleaned")
    assert acquired(served, "--wait", "30s")["lease"]["token"] > lease["token"]
