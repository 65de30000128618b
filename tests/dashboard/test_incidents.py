"""Incidents on the pages: one block per fault, opened to see all; what a suite tried is not the device's trouble."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from playwright.sync_api import expect
from sqlalchemy import select

from farm.store import clusters
from farm.store import tables as t
from tests.dashboard.conftest import Site

RUNNING = 9


def test_tries_that_differ_in_a_number_are_one_block_and_not_on_the_devices_page(own_site: Site) -> None:
    now = datetime.now(UTC)
    with own_site.db.session() as session:
        attempt, device = session.execute(
            select(t.Attempt.id, t.Attempt.device_id)
            .join(t.Job, t.Job.id == t.Attempt.job_id)
            .where(t.Job.run_id == RUNNING)
            .limit(1)
        ).one()
        for number in range(3):
            words = f"connect 127.0.0.1 port {5001 + number}: nothing listens there"
            row = t.Incident(
                attempt_id=attempt,
                seq=9000 + number,
                device_id=device,
                at=now + timedelta(seconds=number),
                klass="sandbox-refused",
                summary=words,
                evidence=f"python: connect {number}",
            )
            session.add(row)
            clusters.sign(session, row)
        name = session.get_one(t.Device, device).name
    for path in (f"/runs/{RUNNING}", f"/attempts/{attempt}"):
        page = own_site.page(path)
        block = page.locator("#incidents li", has_text="sandbox refused")
        expect(block.get_by_text("3 times")).to_be_visible()
        expect(page.get_by_text("port 5003")).to_be_hidden()
        block.get_by_text("all 3, the last").click()
        expect(page.get_by_text("port 5003")).to_be_visible()
    page = own_site.page(f"/devices/{name}")
    expect(page.locator("h1").first).to_be_visible()
    expect(page.get_by_text("nothing listens there")).to_have_count(0)
