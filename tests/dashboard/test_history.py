"""A device's history: lanes on one axis, and events that say the same told once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from playwright.sync_api import expect

from dashboard import history
from dashboard.device import event_words
from farm.store.reads.devices import EventRow
from farm.store.reads.history import History, Span
from farm.store.reads.shared import Point, Series
from tests.dashboard.conftest import Site

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def _ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def test_spans_lie_where_they_were_and_say_how_long() -> None:
    past = History(
        begin=_ago(100),
        end=NOW,
        connection=(Span("device", _ago(300), _ago(50)), Span("unauthorized", _ago(50), None)),
        health=(Span("good", _ago(100), None),),
        held=(
            Span("held", _ago(80), _ago(60), "attempt:7", "run 3 of mia, team perf"),
            Span("held", _ago(10), None, "reservation:2", "mia, team perf"),
        ),
        reboots=(_ago(50),),
        temperature=Series("temperature", "°C", (Point(_ago(90), 31.0), Point(_ago(5), 38.2))),
    )
    seen = history.view(past)
    adb, health, held = seen.lanes
    assert [(bar.x, bar.width, bar.colour) for bar in adb.bars] == [(0.0, 50.0, "ok"), (50.0, 50.0, "warn")]
    assert adb.now == "unauthorized"
    assert health.now == "good"
    assert [(bar.word, bar.colour) for bar in held.bars] == [
        ("held", "accent"),
        ("reserved", "farm"),
    ]
    assert held.now == "mia, team perf"
    assert "held by run 3 of mia, team perf: 20\u202fmin" in held.bars[0].title
    assert seen.scale == (30.0, 40.0)
    assert seen.reboots[0][0] == 50.0


def test_events_that_say_the_same_are_told_once_with_their_number() -> None:
    def skew(minutes: int) -> EventRow:
        return EventRow(_ago(minutes), "clock", {"skew_s": 7.0})

    leases = [
        EventRow(_ago(20 + i), kind, {"holder": f"reservation:{9 - i // 3}"})
        for i, kind in enumerate(("freed", "released", "leased") * 8)
    ]
    ours = [EventRow(_ago(2.5), "leased", {"holder": "attempt:44"})]  # attempts have a list of their own
    groups = history.grouped([skew(1), skew(2), *ours, skew(3), *leases, skew(60)], event_words)
    assert [(g.kind, len(g.events)) for g in groups] == [("clock", 3), ("held", 24), ("clock", 1)]
    assert (groups[0].at, groups[0].since) == (_ago(1), _ago(3))
    assert [word for word, _ in groups[1].links] == [f"reservation {n}" for n in (9, 8, 7, 6, 5, 4)]
    assert groups[1].more == 2


def test_a_plug_that_comes_and_goes_is_one_line() -> None:
    flapping = [
        EventRow(_ago(i), "connection", {"connection": "gone" if i % 2 else "device", "address": "usb:1"})
        for i in range(12)
    ]
    (line,) = history.grouped(flapping, event_words)
    assert line.text == "adb says device at usb:1; gone 6 times"


def test_the_page_shows_the_window_that_one_asks_for(site: Site) -> None:
    page = site.page("/devices/husky-02")
    timeline = page.locator("#timeline")
    expect(timeline).to_contain_text("connected")
    expect(timeline.locator(".lane-absent")).not_to_have_count(0)
    expect(page.locator(".history")).to_contain_text("gone 6 times")
    timeline.get_by_role("link", name="1h").click()
    page.wait_for_url("**?window=1h")
    expect(timeline).to_contain_text("the last 1\u202fh")
    page.evaluate("htmx.trigger(document.getElementById('live'), 'refresh')")
    page.wait_for_event("requestfinished", lambda request: "/ui/devices/" in request.url)
    expect(page.locator("#timeline")).to_contain_text("the last 1\u202fh")
