"""Live events: in order, resumable, filtered, and ended by the server's end."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import httpx
import pytest

from farm.api import events as module
from farm.cli.client import Client, Event
from farm.store import tables
from farm.store.bus import touch
from tests.served import Served, serve
from tests.waiting import eventually


def change(served: Served, topic: str, ref: object, run: int | None = None) -> None:
    with served.farm.db.session() as session:
        touch(session, topic, ref, at=served.farm.db.now(), run_id=run)


class Listener:
    """Reads events in a thread."""

    def __init__(self, served: Served, last: str | None = None, **query: object) -> None:
        self.events: list[Event] = []
        self.ended = threading.Event()
        self._stream = Client(served.origin, served.token).events(query, last)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        eventually(lambda: self.events, what="the stream to begin")

    def _read(self) -> None:
        try:
            for event in self._stream:
                self.events.append(event)
        finally:
            self.ended.set()

    def refs(self) -> list[str]:
        return [json.loads(event.data)["ref"] for event in self.events if event.name not in ("", "hello", "reset")]


def test_a_change_is_told_after_its_commit(served: Served) -> None:
    listener = Listener(served)
    change(served, "device", 7)
    eventually(lambda: listener.refs() == ["7"])
    event = listener.events[-1]
    assert event.name == "device"
    assert json.loads(event.data)["id"] == int(event.id)


def test_a_client_that_comes_back_gets_what_it_missed_once_and_in_order(served: Served) -> None:
    listener = Listener(served)
    change(served, "run", "seen")
    eventually(lambda: listener.refs() == ["seen"])
    last = listener.events[-1].id
    for number in range(30):
        change(served, "run", f"missed-{number}")
    again = Listener(served, last=last)
    eventually(lambda: len(again.refs()) >= 30)
    change(served, "run", "live")
    eventually(lambda: again.refs()[-1] == "live")
    assert again.refs() == [f"missed-{number}" for number in range(30)] + ["live"]


def test_nothing_is_lost_between_the_first_line_and_the_first_change(served: Served) -> None:
    for number in range(10):
        listener = Listener(served)
        change(served, "job", number)
        eventually(lambda listener=listener, number=number: listener.refs() == [str(number)])


@pytest.mark.parametrize("last", ["99999999", "18446744073709551616"])
def test_an_id_from_another_life_is_answered_with_reset(served: Served, last: str) -> None:
    change(served, "run", 1)
    listener = Listener(served, last=last)
    assert listener.events[0].name == "reset"
    change(served, "run", "after")
    eventually(lambda: listener.refs() == ["after"])


def test_an_id_whose_followers_were_pruned_is_answered_with_reset(served: Served) -> None:
    for number in range(4):
        change(served, "run", number)
    with served.farm.db.session() as session:
        ids = sorted(session.scalars(tables.Change.__table__.select().with_only_columns(tables.Change.id)))
        for row in session.query(tables.Change).filter(tables.Change.id < ids[-1]):
            session.delete(row)
    assert Listener(served, last=str(ids[0])).events[0].name == "reset"
    assert Listener(served, last=str(ids[-2])).events[0].name == "hello"


def test_a_stream_can_be_narrowed_to_topics_and_to_a_run(served: Served) -> None:
    topics, run = Listener(served, topics="attempt, job"), Listener(served, run=5)
    change(served, "run", "a", run=5)
    change(served, "attempt", "b", run=6)
    change(served, "job", "c", run=5)
    eventually(lambda: topics.refs() == ["b", "c"] and run.refs() == ["a", "c"])


def test_a_reference_cannot_begin_a_field_of_its_own(served: Served) -> None:
    listener = Listener(served)
    change(served, "run", "1\nevent: forged\ndata: {}\n\n")
    change(served, "run", "end")
    eventually(lambda: listener.refs()[-1:] == ["end"])
    assert {event.name for event in listener.events} == {"hello", "run"}


def test_a_quiet_stream_shows_that_it_lives(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEP_ALIVE_S", 0.05)
    listener = Listener(served)
    eventually(lambda: [event for event in listener.events if event.name == ""])


def test_a_stream_ends_in_time_and_its_client_is_let_in_anew(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEP_ALIVE_S", 0.01)
    monkeypatch.setattr(module, "LIFE_S", 0.05)
    assert Listener(served).ended.wait(60)


def test_a_closed_page_leaves_nothing_behind(served: Served) -> None:
    streams = served.farm.app.state.streams
    before = set(streams)
    headers = {"Authorization": f"Bearer {served.token}"}
    with httpx.stream("GET", f"{served.origin}/api/events", headers=headers, timeout=60) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()  # kept: a forgotten iterator closes the stream
        next(lines)
        mine = streams - before
        assert len(mine) == 1
    eventually(lambda: not streams & mine, what="the stream to be forgotten")


def test_too_many_streams_are_refused_in_words(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STREAMS", 0)
    answer = served.ask("GET", "/api/events")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "busy")


def test_a_stopping_server_ends_its_streams(tmp_path: Path) -> None:
    with serve(tmp_path) as served:
        listener = Listener(served)
    assert listener.ended.wait(60)
