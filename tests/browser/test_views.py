"""Every view in both themes, wide and narrow: drawn without a complaint, without sideways scrolling, and open to everyone."""

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

VIEWS = ("today", "turns", "turn", "sessions", "session", "savings", "targets")
WIDTHS = (1440, 390)
SERIOUS = ("serious", "critical")


def address_of(view: str, router) -> str:
    if view == "turn":
        return f"turn/{router.ask('Migrate the whole code base to async, with tests', x_tandem_session='afternoon')}"
    return "session/x%3Aafternoon" if view == "session" else view


def check(page: Page, view: str, theme: str, width: int, folder: str | None) -> None:
    """What must hold for a view as it is shown now."""
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{folder}/{view}-{theme}-{width}.png", full_page=True)
    too_wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert too_wide <= 0, f"{view} is {too_wide} px too wide at {width}"
    found = Axe().run(page).response["violations"]
    assert [(rule["id"], rule["nodes"][0]["html"]) for rule in found if rule["impact"] in SERIOUS] == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_whole_and_accessible(page, router, view, theme, width, pytestconfig):
    page.set_viewport_size({"width": width, "height": 900})

    page.goto(f"{router.url}/#/{address_of(view, router)}")

    expect(page.locator("body")).to_have_attribute("data-ready", re.compile("."))
    expect(page.locator(f"[data-view={view}]")).to_be_visible()
    page.wait_for_load_state("load")
    expect(page.locator("[data-connection]")).to_have_attribute("data-connection", "live")
    expect(page.locator("main [aria-busy=true]")).to_have_count(0)
    expect(page.locator("[data-plot] canvas")).to_have_count(2 if view == "targets" else 0)
    check(page, view, theme, width, pytestconfig.getoption("--screenshots"))


@pytest.mark.refusals
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("theme", ["light", "dark"], indirect=True)
def test_the_login_and_the_callers_are_whole_and_accessible(page, keyed, theme, width, pytestconfig):
    folder = pytestconfig.getoption("--screenshots")
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{keyed.url}/#/callers")
    expect(page.locator("#login-key")).to_be_visible()
    expect(page.locator("[data-connection], [data-nav]")).to_have_count(0)  # nothing is lost yet, and nothing can be opened
    check(page, "login", theme, width, folder)

    page.locator("#login-key").fill(keyed.keys["ada"])
    page.locator("#login button[type=submit]").click()

    expect(page.locator('[data-caller="bob"]').first).to_be_visible()
    check(page, "callers", theme, width, folder)
