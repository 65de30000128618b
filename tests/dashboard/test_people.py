"""My tokens, people and teams, the audit log, in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from farm.store import people
from farm.store.people import Scope
from tests.dashboard.conftest import Site
from tests.dashboard.test_pages import assert_whole, violations

LONG = "Wolfeschlegelsteinhausenbergerdorff-" * 2


@pytest.fixture(scope="module", autouse=True)
def somebody(_shared_site: Site) -> None:
    """A farm with people, also such with names that no column was made for."""
    for name, team in (("ann", "vision"), ("bob", "audio"), (LONG[:90], LONG[:80])):
        answer = _shared_site.served.ask(
            "POST",
            "/api/tokens",
            json={"name": f"ci of {name}", "user": name, "team": team, "scopes": ["read", "submit"]},
        )
        assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("path", ["/me", "/people", "/audit", "/runs?team=vision", "/login"])
def test_a_page_of_people_is_whole_in_both_themes_at_desk_and_phone(path: str, site: Site) -> None:
    assert_whole(site.page(path, scopes=None if path == "/login" else (Scope.ADMIN,)))


def test_a_token_is_made_shown_once_works_and_is_revoked(site: Site) -> None:
    page = site.page("/", scopes=(Scope.READ, Scope.SUBMIT))
    page.get_by_role("link", name="default · tester").click()
    expect(page.locator(".empty")).to_contain_text("No token yet")
    assert page.get_by_label("admin").count() == 0, "nobody is offered what they cannot give"
    page.get_by_label("What it is for").fill("my <b>laptop</b>")
    page.get_by_label("submit").uncheck()
    page.get_by_label("Devices at once").fill("2")
    page.get_by_role("button", name="make the token").click()
    secret = page.locator("#secret").inner_text().strip()
    assert violations(page) == []
    me = site.served.ask("GET", "/api/me", token=secret).json()
    assert (me["name"], me["scopes"], me["max_devices"]) == ("tester", ["read"], 2)
    page.goto("/me")
    row = page.locator("tr", has_text="my <b>laptop</b>")
    expect(row).to_contain_text("2 devices")
    assert secret not in page.content()
    row.get_by_role("button", name="Revoke").click()
    page.wait_for_url("**/me")
    expect(page.locator(".empty")).to_be_visible()
    assert site.served.ask("GET", "/api/me", token=secret).status_code == 401


def test_a_form_that_asks_for_more_than_one_has_is_refused(site: Site) -> None:
    context = site.context(scopes=(Scope.READ, Scope.SUBMIT))
    page = context.new_page()
    page.goto("/me")
    page.locator("input[value=submit]").evaluate("box => { box.value = 'admin'; box.checked = true; }")
    page.get_by_label("What it is for").fill("more")
    page.get_by_role("button", name="make the token").click()
    expect(page.get_by_role("alert")).to_contain_text("you cannot give the scope 'admin'")
    assert violations(page) == []


def test_a_figure_that_is_none_is_told(site: Site) -> None:
    page = site.page("/me")
    page.get_by_label("What it is for").fill("x")
    page.get_by_label("Days").evaluate("field => { field.type = 'text'; field.value = 'soon'; }")
    page.get_by_role("button", name="make the token").click()
    expect(page.locator("main")).to_contain_text("Days cannot be 'soon'")


def test_an_admin_adds_changes_and_disables_a_user(site: Site) -> None:
    page = site.page("/people")
    page.get_by_label("Name of the new user").fill("carl")
    page.get_by_role("button", name="add a user").click()
    row = page.locator("#user-carl")
    expect(row).to_be_visible()
    row.get_by_label("Role of carl").select_option("operator")
    row.get_by_label("Team of carl").fill("vision")
    row.get_by_role("button", name="Save carl").click()
    expect(page.get_by_label("Role of carl")).to_have_value("operator")
    db = site.db
    with db.session() as session:
        user = people.ensure_user(session, "carl", db.now())
        secret, _ = people.add_token(session, user.id, "t", [Scope.READ], db.now())
    assert site.served.ask("GET", "/api/me", token=secret).json()["team"] == "vision"
    page.get_by_role("button", name="Disable carl").click()
    expect(page.locator("#user-carl")).to_contain_text("disabled")
    assert site.served.ask("GET", "/api/me", token=secret).status_code == 401
    page.get_by_role("button", name="Enable carl").click()
    expect(page.locator("#user-carl")).not_to_contain_text("disabled")
    page.get_by_label("Name of the new user").fill("carl")
    page.get_by_role("button", name="add a user").click()
    expect(page.locator("main")).to_contain_text("There is a user 'carl' already")


def test_a_teams_weight_and_quota_are_set_and_taken_back(site: Site) -> None:
    page = site.page("/people")
    page.get_by_label("Name of the new team").fill("speech")
    page.get_by_role("button", name="add a team").click()
    page.get_by_label("Weight of speech").fill("2.5")
    page.get_by_label("Devices at once of speech").fill("3")
    page.get_by_role("button", name="Save team speech").click()
    expect(page.get_by_label("Weight of speech")).to_have_value("2.5")
    expect(page.get_by_label("Devices at once of speech")).to_have_value("3")
    page.get_by_label("Devices at once of speech").fill("")
    page.get_by_role("button", name="Save team speech").click()
    expect(page.get_by_label("Devices at once of speech")).to_have_value("")
    page.get_by_role("button", name="Remove team speech").click()
    expect(page.locator("#team-speech")).to_have_count(0)
    expect(page.get_by_role("button", name="Remove team vision")).to_be_disabled()


def test_the_audit_log_tells_what_pages_did_and_is_searched(site: Site) -> None:
    page = site.page("/people")
    page.get_by_label("Name of the new user").fill("dora")
    page.get_by_role("button", name="add a user").click()
    expect(page.locator("#user-dora")).to_be_visible()
    page.get_by_role("link", name="audit log").click()
    first = page.locator("tbody tr").first
    expect(first).to_contain_text("user.create")
    expect(first).to_contain_text("user dora")
    expect(first).to_contain_text("role member")
    page.get_by_label("What was done").fill("token")
    page.get_by_role("button", name="show").click()
    expect(page.locator("tbody tr").first).to_contain_text("token.")
    assert page.locator("tbody tr", has_text="user.create").count() == 0
    page.get_by_label("Who", exact=True).fill("nobody-at-all")
    page.get_by_role("button", name="show").click()
    expect(page.locator(".empty")).to_contain_text("Nothing like that")
    assert violations(page) == []


def test_people_and_audit_are_the_admins_alone(site: Site) -> None:
    page = site.page("/me", scopes=(Scope.READ, Scope.SUBMIT, Scope.OPERATE))
    assert page.get_by_role("link", name="audit log").count() == 0
    for path in ("/people", "/audit"):
        page.goto(path)
        expect(page.locator("h1")).to_contain_text("Not with this token")


def test_runs_are_listed_by_team(site: Site) -> None:
    page = site.page("/runs")
    page.locator("tbody tr").first.get_by_role("link", name="default").click()
    page.wait_for_url("**/runs?team=default")
    expect(page.locator("h1")).to_contain_text("of team default")
    page.get_by_role("link", name="ended").click()
    page.wait_for_url("**team=default**")
    page.goto("/runs?team=vision")
    expect(page.locator(".empty")).to_contain_text("No run of team vision")
