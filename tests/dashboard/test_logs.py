"""The log of an attempt: as it grows, filtered, and harmless whatever a device writes."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from tests.dashboard.conftest import Site

LIVE, ENDED = 23, 17


def _log(site: Site, attempt: int, text: str, mode: str = "w") -> Path:
    path = site.state / "attempts" / str(attempt) / "runner.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open(mode) as file:
        file.write(text)
    return path


def _lines(page: Page) -> str:
    return page.locator("#log-lines").inner_text()


def test_a_live_log_grows_while_one_reads_it(site: Site) -> None:
    _log(site, LIVE, "first line\nsecond li")
    page = site.page(f"/attempts/{LIVE}?log=runner")
    expect(page.locator("#log-lines")).to_contain_text("second li")
    _log(site, LIVE, "ne\nthird line\n", "a")
    expect(page.locator("#log-lines")).to_contain_text("third line")
    assert _lines(page).splitlines() == ["first line", "second line", "third line"], "a torn line is joined"
    expect(page.locator("#log-state")).to_have_text("3 lines")


def test_a_log_that_begins_later_appears_by_itself(site: Site) -> None:
    (site.state / "attempts" / str(LIVE) / "runner.log").unlink(missing_ok=True)
    page = site.page(f"/attempts/{LIVE}?log=runner")
    expect(page.locator("#log-none")).to_contain_text("no runner log yet")
    _log(site, LIVE, "here it is\n")
    expect(page.locator("#log-lines")).to_contain_text("here it is")
    expect(page.locator("#log-none")).to_have_count(0)


def test_a_filter_shows_only_lines_that_hold_it(site: Site) -> None:
    _log(site, ENDED, "".join(f"line {i} of {'farm-engine' if i % 10 == 0 else 'system'}\n" for i in range(100)))
    page = site.page(f"/attempts/{ENDED}?log=runner")
    page.get_by_placeholder("only lines with").fill("FARM-engine")
    expect(page.locator("#log-state")).to_have_text("10 of 100 lines")
    expect(page.get_by_text("line 11 of system")).to_be_hidden()
    page.get_by_placeholder("only lines with").fill("")
    expect(page.locator("#log-state")).to_have_text("100 lines")


def test_earlier_lines_are_a_click_away_and_none_is_lost_or_doubled(site: Site) -> None:
    wanted = [f"{i:06d} some text that makes the line long enough to matter" for i in range(6000)]
    _log(site, ENDED, "\n".join(wanted) + "\n")
    page = site.page(f"/attempts/{ENDED}?log=runner")
    expect(page.locator("#log-lines")).to_contain_text("005999")
    assert "000000" not in _lines(page)
    older = page.get_by_role("button", name="show earlier lines")
    for _ in range(4):
        if older.count() == 0:
            break
        before = page.locator("#log-lines .line").count()
        older.click()
        expect(page.locator("#log-lines .line").nth(before)).to_be_attached()  # the page's policy allows no eval
    shown = page.evaluate("[...document.querySelectorAll('#log-lines .line')].map(line => line.textContent)")
    assert shown == wanted


def test_markup_in_a_log_stays_text(site: Site) -> None:
    evil = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>\n</pre><b id=broken>\n"
    _log(site, LIVE, evil)
    page = site.page(f"/attempts/{LIVE}?log=runner")
    expect(page.locator("#log-lines")).to_contain_text("<script>window.pwned = 1</script>")
    _log(site, LIVE, evil, "a")
    expect(page.locator("#log-state")).to_have_text("4 lines")
    assert page.evaluate("window.pwned") is None
    assert page.locator("#broken").count() == 0


def test_bytes_that_are_no_text_do_not_stop_the_page(site: Site) -> None:
    path = _log(site, LIVE, "")
    path.write_bytes(b"before \xff\xfe\x00\x1b[31m after\n")
    page = site.page(f"/attempts/{LIVE}?log=runner")
    expect(page.locator("#log-lines")).to_contain_text("after")
