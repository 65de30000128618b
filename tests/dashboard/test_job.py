"""The page of a job that waits: place, candidates, who holds them and until when."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.dashboard.conftest import Site

WAITING, DONE = 26, 1


def test_a_waiting_job_tells_its_place_and_the_devices_that_would_do(site: Site) -> None:
    page = site.page("/runs/10")
    page.get_by_role("link", name="why, and until when").click()
    expect(page.locator("h1")).to_contain_text(f"job {WAITING}")
    expect(page.locator(".answer")).to_contain_text("place 1 of 1")
    facts = page.locator("dl.facts")
    expect(facts).to_contain_text("soc=RK3568")
    expect(facts).to_contain_text("none to judge by yet")
    rows = page.locator("#candidates-title ~ .scroll tbody tr")
    expect(rows.filter(has_text="rk-evb-v1")).to_contain_text("run 9")


def test_a_job_that_waits_no_more_says_what_became_of_it(site: Site) -> None:
    page = site.page(f"/jobs/{DONE}")
    expect(page.locator(".reason")).to_contain_text("it has ended")
    assert page.locator("#candidates-title").count() == 0


def test_a_job_that_never_was_is_told_so(site: Site) -> None:
    page = site.page("/jobs/424242")
    expect(page.locator("h1")).to_contain_text("No job 424242")
