"""Queue a run in the page: what matches is shown while one types, what cannot work is refused beside the form."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from playwright.sync_api import Page, expect
from sqlalchemy import func, select, update

from farm.store import tables as t
from tests.dashboard.conftest import Site
from tests.dashboard.test_pages import violations


def _form(site: Site, path: str = "/runs/new") -> Page:
    page = site.page(path)
    expect(page.locator("#preview")).to_contain_text("devices match")
    return page


def _runs(site: Site) -> int:
    with site.db.read() as session:
        return session.scalar(select(func.count()).select_from(t.Run)) or 0


def test_what_matches_is_shown_while_one_types(site: Site) -> None:
    page = _form(site)
    field = page.get_by_label("On which devices")
    field.press_sequentially("soc=RK3568")
    expect(page.locator("#preview")).to_contain_text("1 device matches")
    expect(page.locator("#preview")).to_contain_text("rk-evb-v1")
    expect(page.locator("#preview")).to_contain_text("Tensor G3, wanted soc=RK3568")
    field.fill("soc=Nothing")
    expect(page.locator("#preview")).to_contain_text("Nothing matches")
    field.fill("soc=(")
    expect(page.locator("#preview").get_by_role("alert")).to_be_visible()
    assert violations(page) == []


def test_a_chip_adds_its_term(site: Site) -> None:
    page = _form(site)
    page.locator(".chip", has_text="pool=demo").click()
    page.locator(".chip", has_text="soc=RK3568").click()
    expect(page.get_by_label("On which devices")).to_have_value("pool=demo soc=RK3568")
    expect(page.locator("#preview")).to_contain_text("1 device matches")


def test_a_run_is_queued_and_its_page_opens(own_site: Site) -> None:
    page = _form(own_site)
    page.get_by_label("On which devices").fill("name=husky-v1")
    page.get_by_label("fingerprint").uncheck()
    page.get_by_label("Title").fill("from the page")
    page.get_by_label("confirm failures").check()
    page.get_by_role("button", name="queue the run").click()
    page.wait_for_url(re.compile(r"/runs/\d+$"))
    expect(page.locator("h1")).to_contain_text("from the page")
    expect(page.locator(".facts")).to_contain_text("smoke, latency")
    expect(page.locator("#answer")).to_contain_text("queued")
    with own_site.db.read() as session:
        run = session.scalars(select(t.Run).order_by(t.Run.id.desc()).limit(1)).one()
        assert (run.selector, run.suites, run.created_by) == ("name=husky-v1", ["smoke", "latency"], "tester")
        assert run.request["confirm"] is True


def test_a_form_that_is_sent_twice_queues_one_run(own_site: Site) -> None:
    page = _form(own_site)
    page.get_by_label("On which devices").fill("name=husky-v1")
    before = _runs(own_site)
    body = "new URLSearchParams(new FormData(document.getElementById('queue')))"
    send = f"fetch('/ui/runs', {{method: 'POST', body: {body}}})"
    first, second = page.evaluate(f"Promise.all([{send}, {send}]).then(all => all.map(r => r.url))")
    assert first == second
    assert _runs(own_site) == before + 1


def test_a_refusal_keeps_what_was_typed(site: Site) -> None:
    page = _form(site)
    before = _runs(site)
    page.get_by_label("On which devices").fill("soc=Nothing")
    page.get_by_label("latency").uncheck()
    page.get_by_label("Title").fill("kept")
    page.evaluate("document.getElementById('queue').submit()")  # the button would not: see below
    expect(page.locator("#refusal")).to_contain_text("Not queued")
    expect(page.get_by_label("On which devices")).to_have_value("soc=Nothing")
    expect(page.get_by_label("Title")).to_have_value("kept")
    expect(page.get_by_label("latency")).not_to_be_checked()
    assert _runs(site) == before


def test_a_refusal_goes_as_soon_as_what_it_refused_is_changed(site: Site) -> None:
    for change in ("soc=RK3568", None):
        page = _form(site)
        page.get_by_label("On which devices").fill("soc=Nothing")
        page.evaluate("document.getElementById('queue').submit()")
        expect(page.locator("#refusal")).to_contain_text("Not queued")
        if change:
            page.get_by_label("On which devices").fill(change)
        else:
            page.locator(".chip", has_text="pool=demo").click()
        expect(page.locator("#refusal")).to_have_count(0)


def test_the_button_is_offered_only_for_what_can_be_queued(site: Site) -> None:
    page = _form(site)
    button, why = page.get_by_role("button", name="queue the run"), page.locator("#submit-why")
    expect(why).to_have_text("the bundle has no files for some of these devices")
    expect(button).to_be_disabled()
    expect(page.locator("#preview").get_by_role("alert")).to_contain_text("would be refused: bundle")
    page.get_by_role("button", name="add abi in (x86_64)").click()
    expect(page.get_by_label("On which devices")).to_have_value("abi in (x86_64)")
    expect(page.locator("#preview").get_by_role("alert")).to_have_count(0)
    expect(button).to_be_enabled()
    field = page.get_by_label("On which devices")
    for selector, reason in (("soc=Nothing", "no device matches"), ("soc=(", "the selector cannot be read")):
        field.fill(selector)
        expect(button).to_be_disabled()
        expect(why).to_have_text(reason)
    field.fill("soc=RK3568 virtual")
    expect(button).to_be_enabled()
    expect(why).to_have_text("")
    for suite in ("smoke", "fingerprint", "latency"):
        page.get_by_label(suite).uncheck()
    expect(button).to_be_disabled()
    expect(why).to_have_text("choose a suite")
    page.get_by_label("smoke").check()
    expect(button).to_be_enabled()


def _own_pack(site: Site) -> None:
    suites = {"accuracy": {"path": "accuracy"}, "soak": {"path": "soak", "needs": "ram_gb>=6"}}
    manifest = {"format": 1, "name": "our-suites", "suites": suites}
    with site.db.session() as session:
        newest = datetime.now(UTC)
        session.add(t.SuitePack(hash="f" * 64, name="our-suites", manifest=manifest, bytes=900, created_at=newest))


def test_the_farms_own_suites_are_the_default_however_new_another_pack_is(own_site: Site) -> None:
    _own_pack(own_site)
    page = _form(own_site)
    expect(page.get_by_label("Suite pack").locator("option:checked")).to_contain_text("builtin")
    expect(page.locator("#suites")).to_contain_text("latency")


def test_the_suites_are_those_of_the_chosen_pack(own_site: Site) -> None:
    _own_pack(own_site)
    page = _form(own_site)
    page.get_by_label("Suite pack").select_option("f" * 64)
    expect(page.get_by_label("accuracy")).to_be_checked()
    expect(page.get_by_label("latency")).to_have_count(0)
    page.get_by_label("accuracy").uncheck()
    page.get_by_label("On which devices").fill("name=husky-v1")
    page.get_by_role("button", name="queue the run").click()
    page.wait_for_url(re.compile(r"/runs/\d+$"))
    expect(page.locator(".facts")).to_contain_text("soak")
    assert violations(page) == []


def test_another_run_like_it_starts_from_its_choices(site: Site) -> None:
    page = site.page("/runs/7")
    page.get_by_role("link", name="queue another like it").click()
    expect(page.get_by_label("On which devices")).to_have_value("pool=demo virtual=true")
    expect(page.get_by_label("Title")).to_have_value("reference engine 0.1.0")


def test_a_waiting_run_is_cancelled_from_its_page(own_site: Site) -> None:
    page = own_site.page("/runs/10")
    page.get_by_role("button", name="cancel").click()
    expect(page.locator("#answer")).to_contain_text("cancelled")
    with own_site.db.read() as session:
        run = session.get(t.Run, 10)
        assert run is not None
        assert (run.outcome, run.cancel_by) == ("cancelled", "tester")


def test_what_failed_is_run_again_from_its_page(own_site: Site) -> None:
    page = own_site.page("/runs/6")
    page.get_by_role("button", name="run the failed job again").click()
    page.wait_for_url(re.compile(r"/runs/(1[1-9]|2\d)$"))
    expect(page.locator("#answer")).to_contain_text("queued")


def test_a_cancelled_run_did_not_fail_and_is_run_again(own_site: Site) -> None:
    page = own_site.page("/runs/8")
    expect(page.locator("main")).not_to_contain_text("failed job")
    page.get_by_role("button", name="run again", exact=True).click()
    page.wait_for_url(re.compile(r"/runs/(1[1-9]|2\d)$"))
    expect(page.locator("h1")).to_contain_text("(again)")


def test_another_site_cannot_queue_or_cancel(site: Site) -> None:
    before = _runs(site)
    page = site.page("/")
    for path in ("/ui/runs", "/ui/runs/10/cancel", "/ui/runs/6/rerun"):
        answer = page.request.post(path, headers={"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"})
        assert answer.status == 403
    assert _runs(site) == before


def test_hostile_names_stay_text_everywhere(own_site: Site) -> None:
    evil = "<script>window.pwned=1</script>\"'><img src=x onerror=window.pwned=2>"
    with own_site.db.session() as session:
        session.execute(update(t.Bundle).values(name=evil, version=evil))
        session.execute(update(t.Run).values(title=evil, created_by=evil, selector=evil))
        session.execute(update(t.Test).where(t.Test.outcome.is_not(None)).values(message=evil, detail=evil))
        session.execute(update(t.Incident).values(summary=evil, evidence=evil, klass=evil[:60]))
        session.execute(update(t.Attempt).values(reason=evil, waiting_for=evil))
        session.execute(update(t.Measurement).values(name=evil, unit="<b>", labels={evil: evil}))
        session.execute(update(t.Stage).values(name=evil[:100]))
        session.execute(update(t.Artifact).where(t.Artifact.name == "runner.log").values(name=evil))
        session.execute(update(t.Fingerprint).values(facts={evil: {evil: evil}}))
        session.execute(update(t.DeviceEvent).where(t.DeviceEvent.kind == "rebooted").values(detail={"boot_id": evil}))
        session.execute(
            update(t.Device)
            .where(t.Device.name == "husky-v1")
            .values(name=f"a/b?{evil}", labels={"model": evil, "soc": evil}, health_reason=evil, type=evil[:100])
        )
        session.execute(update(t.Job).values(wait_reason=evil))
    page = own_site.page("/")
    page.locator(".tile h2 a", has_text="onerror").click()
    expect(page.locator("h1")).to_contain_text("<script>window.pwned=1</script>")
    for path in ("/runs", "/runs/6", "/runs/7", "/runs/9", "/runs/10", "/attempts/17", "/attempts/21", "/runs/new"):
        page.goto(path)
        expect(page.locator("main")).to_contain_text("<script>")
        for details in page.locator("details > summary").all()[:6]:
            details.click()
        assert page.evaluate("window.pwned") is None, path
        assert page.locator("img").count() == 0, path
    page.goto("/runs?q=" + "%3Cscript%3Ewindow.pwned%3D1%3C/script%3E")
    assert page.evaluate("window.pwned") is None


def test_a_run_that_is_shared_out_wants_tests_that_are_known_and_is_told_so(site: Site) -> None:
    page = _form(site)
    page.get_by_label("On which devices").fill("abi in (x86_64)")
    expect(page.locator("#preview")).to_contain_text("match")
    page.get_by_label("share the tests out over").check()
    page.get_by_label("How many parts").fill("3")
    page.get_by_label("confirm failures").check()
    page.get_by_role("button", name="queue the run").click()
    expect(page.locator("#refusal")).to_contain_text("run it once without shards")
    expect(page.get_by_label("share the tests out over")).to_be_checked()
    expect(page.get_by_label("How many parts")).to_have_value("3")
    expect(page.get_by_label("confirm failures")).to_be_checked()
