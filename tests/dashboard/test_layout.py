"""How pages use their room: nothing cut off without a sign, no tall empty rows, no holes beside long columns."""

from __future__ import annotations

from sqlalchemy import delete, select

from farm.store import tables as t
from tests.dashboard.conftest import PHONE, Site
from tests.dashboard.test_pages import PAGES

#: Bottoms of the last panels of the two columns, left and right.
BOTTOMS = """() => [...document.querySelectorAll('.columns > .stack')]
  .map(e => e.lastElementChild.getBoundingClientRect().bottom)"""

#: Whether a field without text shows the whole of its hint.
HINT_FITS = """e => {
  const drawn = document.createElement('canvas').getContext('2d');
  drawn.font = getComputedStyle(e).font;
  return drawn.measureText(e.placeholder).width <= e.clientWidth - 16;
}"""


def test_a_phones_header_takes_two_rows(site: Site) -> None:
    page = site.page(PAGES["fleet"], viewport=PHONE)
    page.locator("#live-state:visible").wait_for()
    tops = page.evaluate("[...document.querySelectorAll('.top > *')].map(e => e.getBoundingClientRect())")
    rows = {round(box["top"] + box["height"] / 2) // 30 for box in tops if box["height"]}
    assert len(rows) <= 2, tops
    assert page.get_by_role("link", name="device farm").count() == 1, "the mark alone is to be seen, its name is heard"


def test_a_wide_table_shows_that_it_goes_on_and_keeps_its_first_column(site: Site) -> None:
    page = site.page(PAGES["passed run"], viewport=PHONE)
    for box in page.locator(".scroll").all():
        if not box.evaluate("e => e.scrollWidth > e.clientWidth"):
            continue
        assert box.evaluate("e => getComputedStyle(e).backgroundAttachment") == "local, scroll"
        first = box.locator("tbody tr:first-child > :first-child").first
        before = first.evaluate("e => e.getBoundingClientRect().left")
        box.evaluate("e => { e.scrollLeft = e.scrollWidth }")
        assert first.evaluate("e => e.getBoundingClientRect().left") == before
        break
    else:
        raise AssertionError("no table is wider than a phone")


def test_rows_of_measurements_are_no_taller_than_their_words(site: Site) -> None:
    page = site.page(PAGES["passed run"], viewport=PHONE)
    heights = page.evaluate("[...document.querySelectorAll('.measured tbody tr')].map(e => e.offsetHeight)")
    assert heights
    assert max(heights) <= 60, heights


def test_the_list_of_attempts_stands_under_the_shorter_column(own_site: Site) -> None:
    page = own_site.page(PAGES["passed run"])
    left, right = page.evaluate(BOTTOMS)
    assert page.locator(".stack:has(#matrix-title) #attempts").count() == 0, (left, right)
    with own_site.db.session() as session:
        of_run = select(t.Attempt.id).join(t.Job, t.Attempt.job_id == t.Job.id).where(t.Job.run_id == 7)
        session.execute(delete(t.Test).where(t.Test.attempt_id.in_(of_run), t.Test.ordinal > 1))
    page.reload()
    left, right = page.evaluate(BOTTOMS)
    assert page.locator(".stack:has(#matrix-title) #attempts").count() == 1, (left, right)
    assert abs(left - right) < 200, (left, right)


def test_the_forms_of_a_fault_have_labels_and_room_for_their_hints(site: Site) -> None:
    for viewport in (PHONE, None):
        page = site.page(PAGES["a fault"], **({"viewport": viewport} if viewport else {}))
        for label in ("Name", "Mute"):
            field = page.get_by_label(label, exact=True)
            assert field.evaluate(HINT_FITS), label
