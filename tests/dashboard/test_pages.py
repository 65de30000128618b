"""Every page in a real browser: both themes, desk and phone, nothing sideways, nothing that axe objects to."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from farm.store import tables as t
from tests.dashboard.conftest import DESK, PHONE, ROOT, Site

AXE = ROOT / ".cache" / "javascript" / "node_modules" / "axe-core" / "axe.min.js"
PAGES = {
    "fleet": "/",
    "runs": "/runs",
    "search": "/runs?q=husky",
    "queue": "/runs/new",
    "passed run": "/runs/7",
    "crashed run": "/runs/6",
    "running run": "/runs/9",
    "queued run": "/runs/10",
    "cancelled run": "/runs/8",
    "waiting job": "/jobs/26",
    "attempt": "/attempts/17",
    "lost attempt": "/attempts/21",
    "live attempt": "/attempts/23?log=logcat",
    "device": "/devices/husky-v1",
    "unlisted device": "/devices/R5CT20ZZZZ",
    "failures": "/failures",
    "deployments": "/failures/deployments",
    "a fault": "/failures/1",
    "gone": "/runs/4242",
}


def violations(page: Page) -> list[str]:
    """What axe objects to, one line each."""
    assert AXE.is_file(), f"{AXE} is missing: `python tools/setup.py --with-tests` brings it"
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    found: list[dict[str, Any]] = page.evaluate(
        "async () => (await axe.run(document, {resultTypes: ['violations']})).violations"
    )
    return [
        f"{violation['id']} ({violation['impact']}): {node['html'][:200]} — {json.dumps(node['any'])[:200]}"
        for violation in found
        for node in violation["nodes"]
    ]


def assert_whole(page: Page) -> None:
    """Nothing sideways, nothing that axe objects to: both themes at the desk, and the phone, of one loaded page."""
    expect(page.locator("h1").first).to_be_visible()
    for theme, viewport in (("light", DESK), ("dark", DESK), ("light", PHONE)):
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page.set_viewport_size(viewport)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= viewport["width"], f"{page.url} is {width} px wide at {viewport['width']} ({theme})"
        assert violations(page) == [], f"{page.url}, {theme}, {viewport['width']} px"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_in_both_themes_at_desk_and_phone(name: str, site: Site) -> None:
    assert_whole(site.page(PAGES[name]))


def test_the_login_page_is_whole_as_well(site: Site) -> None:
    page = site.page("/login?error=wrong-token&next=/runs", scopes=None, viewport=PHONE)
    expect(page.get_by_role("alert")).to_contain_text("not known")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_a_token_logs_in_and_leads_back_to_where_one_wanted_to_go(site: Site) -> None:
    page = site.page("/runs/7", scopes=None)
    expect(page).to_have_url(f"{site.served.origin}/login?next=%2Fruns%2F7")
    page.get_by_label("Token").fill("nonsense")
    page.get_by_role("button", name="log in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Token").fill(site.served.token)
    page.get_by_role("button", name="log in").click()
    expect(page).to_have_url(f"{site.served.origin}/runs/7")
    expect(page.locator("h1")).to_contain_text("reference engine 0.1.0")
    page.get_by_role("button", name="log out").click()
    page.goto("/runs/7")
    expect(page.get_by_label("Token")).to_be_visible()


def test_the_theme_is_the_systems_until_it_is_chosen_and_then_kept(site: Site) -> None:
    page = site.page("/", color_scheme="light")
    dark, light = "rgb(15, 18, 21)", "rgb(247, 248, 249)"
    background = "getComputedStyle(document.documentElement).backgroundColor"
    assert page.evaluate(background) == light
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(background) == dark
    page.get_by_role("button", name="Change between light and dark").click()
    assert page.evaluate(background) == light
    page.goto("/runs")
    assert page.evaluate(background) == light, "the choice stands on the next page"


def test_the_keyboard_reaches_everything_that_it_promises(site: Site) -> None:
    page = site.page("/")
    page.keyboard.press("j")
    first = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent + document.activeElement.href") != first
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.textContent") == first
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", "focus can be seen"
    page.keyboard.press("Enter")
    page.wait_for_url("**/devices/*")
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_url("**/runs")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search runs and devices")).to_be_focused()
    page.keyboard.type("n")  # typed, not a command
    assert page.url.endswith("/runs")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("f")
    page.wait_for_url(f"{site.served.origin}/")
    page.keyboard.press("n")
    page.wait_for_url("**/runs/new")


def test_a_search_for_one_thing_goes_straight_to_it(site: Site) -> None:
    page = site.page("/")
    for text, target in (("7", "/runs/7"), ("husky-v1", "/devices/husky-v1"), ("virtual-rk3568", "/devices/rk-evb-v1")):
        page.keyboard.press("/")
        page.keyboard.type(text)
        page.keyboard.press("Enter")
        page.wait_for_url(f"**{target}")
        page.locator("h1").click()


def test_the_fleet_is_filtered_while_one_types(site: Site) -> None:
    page = site.page("/")
    shown = page.locator(".tile:visible")
    expect(shown).to_have_count(8)
    page.keyboard.press("/")
    page.keyboard.type("rk3568 ")
    expect(shown).to_have_count(2)
    expect(page.locator("#found")).to_contain_text("2 of 8 devices")
    page.keyboard.type("VIRTUAL")
    expect(shown).to_have_count(1)
    expect(shown).to_contain_text("rk-evb-v1")
    page.evaluate("htmx.trigger(document.getElementById('live'), 'refresh')")
    page.wait_for_event("requestfinished", lambda request: "/ui/fleet" in request.url)
    expect(shown).to_have_count(1)
    page.keyboard.type("x")
    expect(page.locator("#found")).to_contain_text("No device has")
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(shown).to_have_count(8)
    expect(page.locator("#found")).to_be_hidden()
    page.keyboard.press("/")
    page.keyboard.type("oriole")
    expect(shown).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs?q=oriole")


def test_runs_are_searched_while_one_types(site: Site) -> None:
    page = site.page("/runs?state=ended")
    page.keyboard.press("/")
    page.keyboard.type("slower on pur")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("h1")).to_have_text("Search: slower on pur")
    expect(page).to_have_url(re.compile(r"/runs\?state=ended&q=slower\+on\+pur$"))
    expect(page.get_by_role("link", name="queued", exact=True)).to_have_attribute(
        "href", "/runs?state=queued&q=slower+on+pur"
    )
    page.keyboard.press("Control+A")
    page.keyboard.type("oriole")  # a device alone
    expect(page.locator(".empty")).to_contain_text("No run found")
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    expect(page.locator("h1")).to_have_text("Runs")
    expect(page).to_have_url(re.compile(r"/runs\?state=ended$"))


def test_a_device_that_adb_cannot_reach_says_what_to_do(site: Site) -> None:
    page = site.page("/")
    tile = page.locator(".tile", has_text="R5CT20ZZZZ")
    expect(tile).to_contain_text("accept the key on its screen")
    expect(page.locator(".tile", has_text="husky-02")).not_to_contain_text("accept the key")
    tile.get_by_role("link").first.click()
    expect(page.locator(".banner")).to_contain_text("accept the key on its screen")


def test_the_temperatures_of_all_tiles_stand_on_one_marked_scale(site: Site) -> None:
    page = site.page("/")
    scales = page.locator(".tile .scale")
    assert scales.count() == 6
    assert len(set(scales.all_inner_texts())) == 1
    expect(scales.first).to_contain_text("25\u202f°C")


def test_every_figure_of_a_virtual_device_is_marked_so(site: Site) -> None:
    page = site.page("/runs/7")
    rows = page.locator(".measured tbody tr")
    assert rows.count() == 12
    for index in range(rows.count()):
        expect(rows.nth(index)).to_contain_text("virtual")
    for heading in page.locator(".stages thead th").all()[1:]:
        expect(heading).to_contain_text("virtual")
    expect(page.locator("#answer")).to_contain_text("virtual")
    page.goto("/")
    expect(page.locator(".tile", has_text="husky-v1")).to_contain_text("virtual")
    expect(page.locator(".tile", has_text="husky-02")).not_to_contain_text("virtual")


def test_the_answer_stands_in_the_first_line(site: Site) -> None:
    page = site.page("/runs/6")
    expect(page.locator("#answer")).to_contain_text("crashed on 1 of 3 devices: rk-evb-v1")
    page.goto("/runs/7")
    expect(page.locator("#answer")).to_contain_text("passed on 3 of 3 devices")
    lost = page.locator("#attempts li", has_text="try 1")
    expect(lost).to_contain_text("tried again: the device went away (adb lost the device for 20 s in execute)")
    expect(lost.get_by_role("link", name="runner log")).to_have_attribute("href", "/attempts/21?log=runner#log")
    assert page.locator("#attempts").get_by_role("link", name="logcat").count() == 4, "a log of every try"
    lost.get_by_role("link", name="mt-9300-v1").click()
    expect(page.locator(".banner")).to_contain_text("Tried again: try 2, since the device went away")
    page.get_by_role("link", name="try 2").click()
    expect(page.locator("h1")).to_contain_text("try 2")
    page.goto("/runs/9")
    expect(page.locator("#answer")).to_contain_text("17 of 24 tests done")
    page.goto("/runs/10")
    expect(page.locator("#answer")).to_contain_text("waits for an RK3568")


def test_without_scripts_the_pages_say_the_same(site: Site) -> None:
    page = site.page("/", java_script_enabled=False)
    expect(page.locator(".tile", has_text="husky-v1")).to_contain_text("7 of 12 tests")
    page.goto("/runs/7")
    expect(page.locator(".matrix")).to_contain_text("latency::ttft")
    page.goto("/runs/new")
    page.get_by_label("On which devices").fill("soc=nothing")
    page.get_by_role("button", name="queue the run").click()
    expect(page.get_by_role("alert")).to_contain_text("Not queued")
    expect(page.get_by_label("On which devices")).to_have_value("soc=nothing")


def test_who_may_only_read_is_offered_nothing_else(site: Site) -> None:
    from farm.store.people import Scope

    page = site.page("/runs/9", scopes=(Scope.READ,))
    expect(page.locator("h1")).to_be_visible()
    assert page.get_by_role("button", name="cancel").count() == 0
    page.goto("/runs/new")
    expect(page.get_by_role("button", name="queue the run")).to_be_disabled()


def test_an_empty_farm_says_what_to_do_first(empty_site: Site) -> None:
    page = empty_site.page("/")
    expect(page.locator(".empty")).to_contain_text("farm demo")
    assert violations(page) == []
    page.goto("/runs")
    expect(page.locator(".empty")).to_contain_text("No run yet")
    assert violations(page) == []
    page.goto("/runs?state=running")
    expect(page.locator(".empty")).to_contain_text("No run is running")
    page.goto("/runs?q=zzz")
    expect(page.locator(".empty")).to_contain_text("Nothing found")
    page.goto("/runs/new")
    expect(page.locator(".empty")).to_contain_text("farm bundle build")
    assert violations(page) == []


def test_a_phone_that_has_not_accepted_the_key_is_the_first_thing_that_one_reads(empty_site: Site) -> None:
    with empty_site.db.session() as session:
        noted = {"unidentified": [{"address": "<b>3A02</b>", "state": "unauthorized"}]}
        session.merge(t.Host(name="local", seen_at=datetime.now(UTC) + timedelta(days=1), drained=False, info=noted))
    page = empty_site.page("/")
    line = page.get_by_label("Devices that cannot say who they are")
    expect(line).to_contain_text("<b>3A02</b> is unauthorized: accept the key on its screen")
    assert violations(page) == []


def test_a_wrong_inventory_is_told_where_people_look(empty_site: Site) -> None:
    with empty_site.db.session() as session:
        wrong = {"path": "devices.yaml", "errors": ["devices.yaml:13: unknown key <i>'lables'</i>"], "read_at": ""}
        session.merge(t.Setting(key="inventory:local", value=wrong))
    page = empty_site.page("/")
    expect(page.get_by_role("alert")).to_contain_text("devices.yaml:13: unknown key <i>'lables'</i>")
    expect(page.get_by_role("alert")).to_contain_text("The one before it stays in force")
    assert violations(page) == []


def test_pages_forbid_inline_scripts_and_foreign_hosts(site: Site) -> None:
    for path in ("/", "/runs/7", "/login", "/static/app.js", "/runs/4242"):
        answer = site.served.ask("GET", path)
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_templates_hold_no_inline_script_style_or_handler() -> None:
    for template in sorted((ROOT / "dashboard" / "templates").glob("*.html")):
        text = template.read_text()
        assert not re.search(r"<script(?![^>]*\bsrc=)", text), template.name
        assert not re.search(r"\s(on[a-z]+|style)\s*=", text), template.name
        assert "|safe" not in text, template.name


def test_every_library_that_is_served_is_used() -> None:
    copied = json.loads((ROOT / "dashboard" / "package.json").read_text())["farm:vendor"]
    templates = "".join(path.read_text() for path in (ROOT / "dashboard" / "templates").glob("*.html"))
    assert copied
    assert [name for name in copied if f"/static/vendor/{name}" not in templates] == []


def test_a_file_of_the_farm_is_kept_by_its_version(site: Site) -> None:
    page = site.page("/")
    source = page.locator("link[rel=stylesheet]").get_attribute("href")
    assert source
    assert "immutable" in site.served.client.get(source).headers["cache-control"]
    assert site.served.client.get("/static/app.css?v=old").headers["cache-control"] == "no-cache"
    assert site.served.client.get("/static/../pages.py").status_code in (401, 404)
    assert Path(source.partition("?")[0]).name == "app.css"
