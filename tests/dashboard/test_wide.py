"""No page scrolls sideways, on a phone or at a desk, whatever devices, people and engines are called."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from sqlalchemy import String, update
from sqlalchemy import cast as as_type
from sqlalchemy.orm import Session

from farm.store import tables as t
from tests.dashboard.conftest import DESK, PHONE, Site, site_of
from tests.dashboard.test_pages import PAGES

#: One word without a place to break: a hash, a path, a name that a script made.
WORD = "A" + "b1c2d3e4" * 12
#: What sticks out of the window and not out of a box that scrolls by itself.
STICKS_OUT = """() => [...document.querySelectorAll('body *')]
  .filter(e => e.getBoundingClientRect().right > innerWidth && !e.closest('.scroll'))
  .slice(0, 5).map(e => e.outerHTML.slice(0, 120))"""


def _long_words(session: Session) -> None:
    """Whatever text comes from people, devices and engines is long and cannot be broken between words."""
    session.execute(update(t.Bundle).values(name=WORD, version=WORD, git_sha="3f" * 20))
    session.execute(update(t.Run).values(title=WORD, created_by=WORD, selector=WORD * 2))
    session.execute(update(t.Run).where(t.Run.cancel_at.is_not(None)).values(cancel_by=WORD))
    session.execute(update(t.Test).where(t.Test.outcome.is_not(None)).values(message=WORD * 3, detail=WORD * 3))
    session.execute(update(t.Incident).values(summary=WORD * 2, evidence=WORD * 3, klass=WORD[:60]))
    session.execute(update(t.Attempt).values(reason=WORD * 2, waiting_for=WORD))
    ended = t.Attempt.outcome.is_not(None)
    session.execute(update(t.Attempt).where(ended).values(late_outcome="device-lost", late_reason=WORD))
    session.execute(update(t.Measurement).values(name=WORD[:90], labels={WORD: WORD}))
    session.execute(update(t.Stage).values(name=WORD[:90]))
    session.execute(update(t.Artifact).values(name=t.Artifact.name + WORD))
    device, labels = t.Device, {"model": WORD, "soc": WORD, "android": "16"}
    session.execute(update(device).values(serial=device.serial + WORD, type=WORD, pool=WORD, address=WORD[:60]))
    session.execute(update(device).values(labels=labels, health_reason=WORD, health_by=WORD[:60]))
    named = device.name.not_in(["husky-v1", "R5CT20ZZZZ"])
    session.execute(update(device).where(named).values(name=device.name + as_type(WORD[:50], String)))
    session.execute(update(t.DeviceEvent).where(t.DeviceEvent.kind == "connection").values(detail={"note": WORD * 2}))
    session.execute(update(t.Host).values(info={"unidentified": [{"address": WORD, "state": "unauthorized"}]}))
    session.execute(update(t.Job).values(wait_reason=WORD * 2, selector=WORD))
    session.merge(
        t.Setting(
            key="inventory:local", value={"host": "local", "path": "devices.yaml", "errors": [WORD * 2], "read_at": ""}
        )
    )


@pytest.fixture(scope="module")
def wordy_site(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Site]:
    with site_of(tmp_path_factory.mktemp("wordy"), browser) as site:
        with site.db.session() as session:
            _long_words(session)
        yield site


@pytest.mark.parametrize("name", PAGES)
def test_no_page_scrolls_sideways_even_with_everything_unfolded(name: str, wordy_site: Site) -> None:
    page = wordy_site.page(PAGES[name])
    for viewport in (DESK, PHONE):
        page.set_viewport_size(viewport)
        expect(page.locator("h1").first).to_be_visible()
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= viewport["width"], f"{width} px at {viewport['width']}: {page.evaluate(STICKS_OUT)}"
    wordy_site.close()
