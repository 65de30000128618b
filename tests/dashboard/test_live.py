"""Pages that change by themselves: through the farm's own events, without a reload, without losing what one did."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from playwright.sync_api import Page, expect
from sqlalchemy import delete, insert, select, update

from farm.store import tables as t
from tests.dashboard.conftest import Site

RUNNING = 9


def _marked(page: Page) -> None:
    """Leave a mark in the page that a reload would wipe, and wait until the page is live."""
    page.evaluate("window.untouched = true")
    expect(page.locator("#live-state")).to_have_text("live")


def _unreloaded(page: Page) -> bool:
    return page.evaluate("window.untouched === true") is True


def _attempt_on(site: Site, name: str) -> tuple[int, int]:
    """(attempt id, device id) of the running run on this device."""
    with site.db.read() as session:
        query = (
            select(t.Attempt.id, t.Attempt.device_id)
            .join(t.Device, t.Device.id == t.Attempt.device_id)
            .join(t.Job, t.Job.id == t.Attempt.job_id)
            .where(t.Job.run_id == RUNNING, t.Device.name == name)
        )
        row = session.execute(query).one()
        return row[0], row[1]


def test_the_matrix_fills_in_without_a_reload(own_site: Site) -> None:
    attempt, device = _attempt_on(own_site, "husky-v1")
    page = own_site.page(f"/runs/{RUNNING}")
    _marked(page)
    cell = page.locator(".matrix tbody tr", has_text="thermal_zones").locator("td").first
    expect(cell).to_contain_text("running")
    test = "fingerprint/test_fingerprint.py::test_thermal_zones"
    own_site.change(
        "test",
        test,
        update(t.Test)
        .where(t.Test.attempt_id == attempt, t.Test.test_id == test)
        .values(outcome="failed", cause="crashed", message="EngineDied"),
        run_id=RUNNING,
        device_id=device,
    )
    expect(cell).to_contain_text("crashed")
    expect(page.locator("#answer")).to_contain_text("18 of 24 tests done")
    assert _unreloaded(page)


def test_a_run_is_watched_to_its_end_and_then_rests(own_site: Site) -> None:
    page = own_site.page(f"/runs/{RUNNING}")
    _marked(page)
    now = datetime.now(UTC)
    with own_site.db.session() as session:
        jobs = list(session.scalars(select(t.Job.id).where(t.Job.run_id == RUNNING)))
        session.execute(
            update(t.Attempt).where(t.Attempt.job_id.in_(jobs)).values(outcome="passed", phase="done", ended_at=now)
        )
        session.execute(update(t.Test).where(t.Test.outcome.is_(None)).values(outcome="passed"))
        session.execute(update(t.Job).where(t.Job.run_id == RUNNING).values(state="ended", outcome="passed"))
    own_site.change(
        "run",
        RUNNING,
        update(t.Run).where(t.Run.id == RUNNING).values(state="ended", outcome="passed", ended_at=now),
        run_id=RUNNING,
    )
    expect(page.locator("#answer")).to_contain_text("passed on 3 of 3 devices")
    assert _unreloaded(page)
    expect(page.locator("#live-state")).to_be_hidden()
    assert page.locator("[data-live]").count() == 0, "an ended run asks for nothing more"
    assert page.get_by_role("button", name="cancel").count() == 0


def test_a_tiles_temperature_moves_by_itself(own_site: Site) -> None:
    _, device = _attempt_on(own_site, "husky-v1")
    page = own_site.page("/")
    _marked(page)
    own_site.change(
        "device", device, update(t.Device).where(t.Device.id == device).values(temperature_c=48.25), device_id=device
    )
    temperature = page.locator(".tile", has_text="husky-v1").locator(".temperature")
    expect(temperature).to_have_text("48.2\u202f°C")
    expect(temperature).to_have_class("temperature hot")
    assert _unreloaded(page)


def test_a_host_that_falls_silent_is_shown_by_the_change_that_says_so(own_site: Site) -> None:
    page = own_site.page("/")
    _marked(page)
    expect(page.get_by_role("alert")).to_have_count(0)
    by_events_alone = "document.getElementById('live').removeAttribute('data-every')"
    host = update(t.Host).where(t.Host.name == "lab-2")
    page.evaluate(by_events_alone)
    own_site.change("host", "lab-2", host.values(seen_at=datetime.now(UTC) - timedelta(minutes=5)))
    expect(page.get_by_role("alert")).to_contain_text("Host lab-2 is silent")
    page.evaluate(by_events_alone)
    own_site.change("host", "lab-2", host.values(seen_at=datetime.now(UTC) + timedelta(days=1)))
    expect(page.get_by_role("alert")).to_have_count(0)
    assert _unreloaded(page)


def test_what_one_opened_stays_open_and_what_has_the_focus_keeps_it(own_site: Site) -> None:
    attempt, device = _attempt_on(own_site, "husky-v1")
    with own_site.db.session() as session:
        session.add(
            t.Incident(
                attempt_id=attempt,
                seq=7,
                device_id=device,
                at=datetime.now(UTC),
                klass="note",
                summary="something",
                evidence="line of evidence",
            )
        )
    page = own_site.page(f"/runs/{RUNNING}")
    _marked(page)
    page.get_by_text("evidence", exact=True).click()
    expect(page.get_by_text("line of evidence")).to_be_visible()
    link = page.locator("#incidents a", has_text="attempt")
    link.focus()
    own_site.change(
        "attempt",
        attempt,
        update(t.Attempt).where(t.Attempt.id == attempt).values(waiting_for="the measure slot"),
        run_id=RUNNING,
    )
    expect(page.locator(".attempts").first).to_contain_text("the measure slot")
    expect(page.get_by_text("line of evidence")).to_be_visible()
    expect(link).to_be_focused()


def test_a_change_of_another_run_does_not_disturb(own_site: Site) -> None:
    page = own_site.page(f"/runs/{RUNNING}")
    _marked(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/ui/" in request.url else None)
    own_site.change("run", 10, update(t.Run).where(t.Run.id == 10).values(title="other"), run_id=10)
    own_site.change(
        "run", RUNNING, update(t.Run).where(t.Run.id == RUNNING).values(title="renamed meanwhile"), run_id=RUNNING
    )
    expect(page.locator("h1")).to_contain_text("renamed meanwhile")
    assert len(asked) == 1


def test_a_page_that_lost_the_farm_says_since_when_and_recovers(own_site: Site) -> None:
    page = own_site.page("/")
    _marked(page)
    page.context.set_offline(True)
    expect(page.locator("#live-state")).to_contain_text("stale since")
    own_site.change("device", 1, update(t.Device).where(t.Device.id == 1).values(temperature_c=22.5), device_id=1)
    page.context.set_offline(False)
    expect(page.locator("#live-state")).to_have_text("live")
    expect(page.locator("#device-1 .temperature")).to_have_text("22.5\u202f°C")
    assert _unreloaded(page)
    own_site.troubles.clear()  # the browser complained of being offline, as it should


def test_what_is_removed_while_one_looks_is_said_to_be_gone(own_site: Site) -> None:
    page = own_site.page("/runs/10")
    _marked(page)
    with own_site.db.session() as session:
        session.execute(delete(t.Job).where(t.Job.run_id == 10))
    own_site.change("run", 10, delete(t.Run).where(t.Run.id == 10), run_id=10)
    expect(page.locator("#error")).to_contain_text("No run 10")
    own_site.troubles.clear()


def test_a_new_run_appears_in_the_list(own_site: Site) -> None:
    page = own_site.page("/runs")
    _marked(page)
    with own_site.db.read() as session:
        like = session.get(t.Run, 7)
        assert like is not None
    values = {c.name: getattr(like, c.name) for c in t.Run.__table__.columns if c.name != "id"}
    own_site.change("run", 11, insert(t.Run).values(**values | {"title": "fresh"}), run_id=11)
    expect(page.locator("tbody tr").first).to_contain_text("fresh")
    assert _unreloaded(page)


def test_a_hidden_page_holds_no_stream(own_site: Site) -> None:
    page = own_site.page("/")
    _marked(page)
    streams = own_site.served.farm.app.state.streams
    assert len(streams) == 1
    page.evaluate(
        "() => { Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }"
    )
    from tests.waiting import eventually

    eventually(lambda: len(streams) == 0, what="the stream of a hidden page to end")
    page.evaluate(
        "() => { Object.defineProperty(document, 'hidden', {value: false, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }"
    )
    eventually(lambda: len(streams) == 1, what="the stream of a page that is seen again")
