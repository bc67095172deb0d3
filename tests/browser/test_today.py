"""Today and the scope of all views: figures, names that filter, and bars that lead to the turns behind them."""

import re

import pytest
from playwright.sync_api import expect
from test_login import log_in, log_out
from test_page import open_page


def test_figures_lead_to_turns_and_a_name_filters_every_view(page, router):
    open_page(page, router, "today?range=7d")

    for name in ("spent", "saved", "fast", "redone", "errors"):
        expect(page.locator(f"[data-card={name}] .value")).to_be_visible()
    page.locator("[data-group=target] [data-name=quick] [data-by=target]").click()
    expect(page.locator("[data-chip=target]")).to_contain_text("quick")
    page.locator('[data-nav="turns"]').click()

    expect(page.locator("[data-view=turns] [data-chip=target]")).to_contain_text("quick")
    expect(page).to_have_url(re.compile("range=7d.*target=quick"))
    expect(page.locator('[data-row] [data-tier="fast"]').first).to_be_visible()
    page.locator("[data-chip=target]").click()
    expect(page.locator('[data-row] [data-tier="deep"]').first).to_be_visible()


def test_a_bar_leads_to_the_turns_of_its_day(page, router):
    open_page(page, router, "today")

    page.locator("[data-bars=turns] [data-bar]").last.click()

    expect(page.locator("[data-view=turns] [data-chip=from]")).to_be_visible()
    expect(page.locator("[data-row]").first).to_be_visible()


@pytest.mark.refusals
def test_a_caller_sees_what_is_left_of_its_budget_and_an_admin_every_person(page, keyed):
    log_in(page, keyed, "bob")
    page.goto(f"{keyed.url}/#/today")
    expect(page.locator("[data-own-budget] [data-budget=day]")).to_contain_text("left")
    expect(page.locator("[data-group=caller]")).to_have_count(0)
    log_out(page)

    log_in(page, keyed, "ada")
    page.goto(f"{keyed.url}/#/today")
    expect(page.locator("[data-group=caller] [data-name=bob]")).to_be_visible()
