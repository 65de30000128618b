"""Who holds what until when, and what is paused, in a real browser: each may do what is theirs to do."""

from __future__ import annotations

from datetime import UTC, datetime
from html import unescape

import pytest
from playwright.sync_api import expect
from sqlalchemy import delete, select

from farm.store import leases
from farm.store import tables as t
from farm.store.people import Scope
from tests.dashboard.conftest import Site
from tests.dashboard.seed_holders import MINE, THEIRS, seed_holders
from tests.dashboard.test_pages import assert_whole, violations

MEMBER = (Scope.READ, Scope.SUBMIT, Scope.RESERVE)
OPERATOR = (*MEMBER, Scope.OPERATE)


@pytest.fixture(autouse=True)
def holders(site: Site) -> None:
    """The same holders before each test, whatever the one before did to them."""
    with site.db.session() as session:
        now = datetime.now(UTC)
        for lease in leases.open_leases(session):
            if lease.reservation_id is not None:
                leases.end(session, lease.id, now, "the next test")
        session.execute(delete(t.Reservation))
        session.execute(delete(t.Hold))
        seed_holders(session, now)


def _lease(site: Site, device: str) -> t.Lease:
    with site.db.read() as session:
        query = select(t.Lease).join(t.Device, t.Device.id == t.Lease.device_id).where(t.Device.name == device)
        return session.scalars(query.order_by(t.Lease.id.desc())).first() or pytest.fail(f"{device} has no lease")


@pytest.mark.parametrize("path", ["/reservations", "/reservations/new", "/", "/devices/oriole-02"])
def test_reservations_and_pauses_are_whole_in_both_themes_at_desk_and_phone(path: str, site: Site) -> None:
    assert_whole(site.page(path))


def test_who_holds_a_device_extends_it_and_gives_it_back_and_touches_no_other(site: Site) -> None:
    page = site.page("/reservations", scopes=MEMBER)
    mine, theirs = page.locator("tr", has_text=MINE), page.locator("tr", has_text=THEIRS)
    expect(mine).to_contain_text("a crash in prefill")
    expect(page.locator("tr", has_text="husky-v1")).to_contain_text("run 9")
    assert theirs.get_by_role("button").count() == 0
    assert page.get_by_text("take away").count() == 0
    before = _lease(site, MINE).ends_at
    mine.get_by_label("How much longer").select_option("2")
    with page.expect_request_finished(lambda request: "/ui/reservations" in request.url):
        page.evaluate("htmx.trigger(document.getElementById('live'), 'refresh')")
    expect(page.locator(".htmx-request, .htmx-swapping, .htmx-settling")).to_have_count(0)
    expect(mine.get_by_label("How much longer")).to_have_value("2")  # a change elsewhere does not undo the choice
    mine.get_by_role("button", name="Extend").click()
    page.wait_for_url("**/reservations")
    expect(mine).to_contain_text("in 3\u202fh")
    assert (_lease(site, MINE).ends_at - before).total_seconds() == 7200
    mine.get_by_role("button", name="Give").click()
    expect(mine).to_contain_text("cleaning")
    expect(mine).to_contain_text("given back")
    answer = site.served.ask(
        "POST", f"/ui/leases/{_lease(site, THEIRS).id}/release", token=site.served.new_token(*MEMBER)
    )
    assert answer.status_code == 403
    assert "It is grace's" in unescape(answer.text)
    assert _lease(site, THEIRS).released_at is None


def test_a_lease_is_not_made_longer_than_the_policy_allows(site: Site) -> None:
    answer = site.served.ask("POST", f"/ui/leases/{_lease(site, MINE).id}/extend", data={"hours": "24"})
    assert answer.status_code == 409
    assert "a lease lasts at most 24 h in all".casefold() in answer.text.casefold()


def test_an_operator_takes_a_device_away_with_a_reason_that_is_kept(site: Site) -> None:
    page = site.page("/reservations", scopes=OPERATOR)
    row = page.locator("tr", has_text=THEIRS)
    row.locator("summary").click()
    row.get_by_label("Why").fill("the board goes back <today>")
    row.get_by_role("button", name="Take").click()
    expect(row).to_contain_text("cleaning")
    lease = _lease(site, THEIRS)
    assert lease.end_reason == "preempted by tester because the board goes back <today>"
    noted = site.served.ask("GET", "/api/audit?action=lease.preempt").json()
    assert "the board goes back <today>" in str(noted)


def test_a_wish_that_waits_says_why_and_is_withdrawn(site: Site) -> None:
    page = site.page("/reservations", scopes=MEMBER)
    rows = page.locator("section", has=page.locator("#waiting-title")).locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("waits for an RK3568")
    assert rows.filter(has_text="grace").get_by_role("button").count() == 0
    rows.filter(has_text="tester").get_by_role("button", name="Withdraw").click()
    expect(rows).to_have_count(1)


def test_when_nobody_holds_a_device_the_page_says_how_one_is_had(empty_site: Site) -> None:
    page = empty_site.page("/")
    page.keyboard.press("g")
    page.keyboard.press("v")
    page.wait_for_url("**/reservations")
    expect(page.locator(".empty")).to_contain_text("farm acquire")
    assert violations(page) == []


def test_what_is_paused_is_seen_by_all_and_resumed_by_operators(site: Site) -> None:
    page = site.page("/", scopes=MEMBER)
    panel = page.locator("#paused")
    expect(panel).to_contain_text("host lab-2 a new hub & <b>cable</b> by ada")
    expect(panel).to_contain_text("until somebody resumes it")
    expect(panel).to_contain_text("device rk-evb-v1")
    assert page.get_by_role("button", name="Resume").count() == 0
    assert page.locator("#pause").count() == 0
    page = site.page("/", scopes=OPERATOR)
    page.get_by_role("button", name="Resume host lab-2").click()
    expect(page.locator("#paused li")).to_have_count(1)


def test_an_operator_pauses_a_device_and_every_page_of_it_says_so(site: Site) -> None:
    with site.db.session() as session:
        session.execute(delete(t.Hold))
        for lease in leases.open_leases(session):
            if lease.reservation_id is not None:
                leases.end(session, lease.id, datetime.now(UTC), "given back")
    page = site.page("/", scopes=OPERATOR)
    tile = page.locator(".tile", has_text=MINE)
    expect(tile).to_contain_text("ready")
    page.locator("#pause summary").click()
    page.get_by_label("Name of what to pause").fill(MINE)
    page.get_by_label("Why it is paused").fill("its screen is cracked")
    page.get_by_label("For how long").fill("90m")
    page.get_by_role("button", name="pause", exact=True).click()
    expect(tile.locator(".sign")).to_have_text("paused")
    expect(tile).to_contain_text("paused by tester, its screen is cracked")
    expect(page.locator(".summary")).to_contain_text("1 paused")
    expect(page.locator("#paused")).to_contain_text("resumes in 1\u202fh")
    with site.db.read() as session:
        [hold] = session.scalars(select(t.Hold))
    assert hold.until is not None
    assert (hold.until - hold.at).total_seconds() == 5400
    page.goto(f"/devices/{MINE}")
    expect(page.locator(".banner", has_text="No new work")).to_contain_text("paused by tester")


def test_what_cannot_be_paused_is_named(site: Site) -> None:
    answer = site.served.ask("POST", "/ui/holds", data={"scope": "host", "name": "lab-3", "reason": "away"})
    assert answer.status_code == 404
    assert "lab-2" in answer.text


def test_several_hosts_are_listed_with_when_they_were_heard_of(site: Site) -> None:
    page = site.page("/")
    row = page.locator(".hosts tr", has_text="lab-2")
    expect(row).to_contain_text("paused")
    with site.db.session() as session:
        host = session.get_one(t.Host, "lab-2")
        host.lost_at = datetime.now(UTC)
    try:
        page.reload()
        expect(row).to_contain_text("silent")
        expect(page.get_by_role("alert")).to_contain_text("Host lab-2 is silent")
    finally:
        with site.db.session() as session:
            session.get_one(t.Host, "lab-2").lost_at = None


def _wishes(site: Site) -> list[t.Reservation]:
    with site.db.read() as session:
        mine = t.Reservation.created_by == "tester"
        return list(session.scalars(select(t.Reservation).where(mine).order_by(t.Reservation.id.desc())))


def test_a_device_is_reserved_from_a_form_that_shows_what_it_would_be(site: Site) -> None:
    page = site.page("/reservations", scopes=MEMBER)
    page.get_by_role("link", name="reserve a device").click()
    page.wait_for_url("**/reservations/new")
    expect(page.locator("#preview")).to_contain_text("devices match")
    page.get_by_label("Which device").fill("name=oriole-0")
    expect(page.locator("#preview")).to_contain_text("Nothing matches")
    expect(page.get_by_role("button", name="reserve it")).to_be_disabled()
    page.get_by_label("Which device").fill("name=oriole-02")
    expect(page.locator("#preview")).to_contain_text("1 device matches")
    page.get_by_role("button", name="2h", exact=True).click()
    page.get_by_label("What for").fill("a crash <on> the device itself")
    page.keyboard.press("Enter")
    page.wait_for_url("**/reservations#reservation-*")
    wish = _wishes(site)[0]
    assert (wish.selector, wish.lasts_s, wish.purpose) == ("name=oriole-02", 7200, "a crash <on> the device itself")
    expect(page.locator(f"#reservation-{wish.id}")).to_contain_text("a crash <on> the device itself")


def test_a_mistake_is_told_beside_its_field_and_what_was_typed_stays(site: Site) -> None:
    page = site.page("/reservations/new?on=soc%3DRK3568", scopes=MEMBER)
    before = len(_wishes(site))
    page.get_by_label("For how long").fill("two hours")
    page.get_by_label("Give up").fill("99d")
    page.get_by_role("button", name="reserve it").click()
    expect(page.locator("#refusal")).to_contain_text("Not reserved")
    expect(page.locator("#lasts-error")).to_contain_text("write it as 90s, 10m, 1h30m or 2d")
    expect(page.locator("#wait-error")).to_contain_text("to 720 h can be had")
    expect(page.get_by_label("For how long")).to_be_focused()
    expect(page.get_by_label("For how long")).to_have_value("two hours")
    expect(page.get_by_label("Which device")).to_have_value("soc=RK3568")
    assert violations(page) == []
    page.get_by_label("For how long").fill("2h")
    expect(page.locator("#lasts-error")).to_have_count(0)
    assert len(_wishes(site)) == before


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"selector": "soc=Exynos", "lasts": "1h"}, "no device matches; nearest: "),
        ({"selector": "soc=(", "lasts": "1h"}, 'id="selector-error"'),
        ({"selector": "*", "lasts": "9h"}, "from 5 s to 8 h can be had"),
        ({"selector": "*", "lasts": "9" * 38 + "d"}, "from 5 s to 8 h can be had"),
    ],
)
def test_what_cannot_be_reserved_is_refused_by_the_page_itself(site: Site, form: dict[str, str], words: str) -> None:
    before = len(_wishes(site))
    answer = site.served.ask("POST", "/ui/reservations", data=form, token=site.served.new_token(*MEMBER))
    assert answer.status_code == 422
    assert words in unescape(answer.text)
    assert len(_wishes(site)) == before


def test_who_may_not_reserve_is_told_so_and_r_leads_to_the_form(site: Site) -> None:
    page = site.page("/", scopes=(Scope.READ,))
    page.locator("h1, h2").first.wait_for()
    page.keyboard.press("r")
    page.wait_for_url("**/reservations/new")
    expect(page.get_by_role("button", name="reserve it")).to_be_disabled()
    expect(page.locator("#submit-why")).to_contain_text("may not reserve")
    page.get_by_label("Which device").fill("*")
    expect(page.locator(".htmx-request")).to_have_count(0)
    expect(page.get_by_role("button", name="reserve it")).to_be_disabled()


@pytest.mark.parametrize("lasts", ["soon", "0s", "9" * 38 + "d"])
def test_a_pause_for_what_is_no_time_is_refused(site: Site, lasts: str) -> None:
    answer = site.served.ask("POST", "/ui/holds", data={"scope": "farm", "reason": "a move", "lasts": lasts})
    assert answer.status_code == 422
    assert "Nothing was paused" in answer.text
