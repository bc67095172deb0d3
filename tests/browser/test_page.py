"""The live page in a real browser: what people see while turns happen, and where a turn leads them."""

import re

import pytest
from playwright.sync_api import Page, expect
from routers import TOOL_RESULTS, UNHURRIED

LONG = "Plan the migration of the whole code base to another framework, with tests"
MARKUP = '<img src=x onerror="alert(1)"><script>alert(2)</script><b>bold</b>'


def open_page(page: Page, router, address: str = "turns", query: str = "") -> None:
    page.goto(f"{router.url}/{query}#/{address}")
    expect(page.locator("body")).to_have_attribute("data-ready", re.compile("."))
    expect(page.locator("[data-connection]")).to_have_attribute("data-connection", "live")


def test_a_turn_is_shown_with_a_clock_while_it_runs_and_as_a_row_once_it_is_over(page, router):
    open_page(page, router)
    running = page.locator("[data-running]")

    with router.asking(UNHURRIED, x_tandem_tier="deep"):
        expect(running.locator("[data-clock]")).to_be_visible()
        name = running.get_attribute("data-running")

    row = page.locator(f'[data-row="{name}"]')
    expect(row).to_contain_text("deep")
    expect(row).to_contain_text("thorough")
    expect(running).to_have_count(0)


def test_a_row_leads_to_its_turn_which_explains_it(page, router):
    name = router.ask(LONG)
    open_page(page, router)

    page.locator(f'[data-row="{name}"] [data-row-link]').first.click()

    turn = page.locator(f'[data-turn="{name}"]')
    expect(turn.locator("h1")).to_contain_text("deep")
    expect(turn.locator("[data-evidence]").first).to_be_visible()
    for tier in ("fast", "deep"):
        expect(turn.locator(f'[data-estimate="{tier}"] [data-part="work"]').first).to_be_attached()
    expect(turn.locator("[data-flip]").first).to_be_visible()
    expect(turn.locator("[data-attempt]")).to_have_count(1)
    expect(page).to_have_url(f"{router.url}/#/turn/{name}")


def test_a_mark_shows_in_the_turn_the_list_and_the_session_until_it_is_taken_back(page, router):
    name = router.ask("correct the spelling of one word", x_tandem_session="marked")
    open_page(page, router, f"turn/{name}")

    page.locator('[data-wrong="deep"]').click()
    expect(page.locator("[data-marked]")).to_have_attribute("data-marked", "deep")

    for address in ("turns", "session/x%3Amarked"):
        open_page(page, router, address)
        expect(page.locator(f'[data-row="{name}"] [data-mark="deep"]')).to_be_visible()
    open_page(page, router, f"turn/{name}")
    page.locator("[data-unmark]").click()
    expect(page.locator('[data-wrong="deep"]')).to_be_visible()


def test_a_turn_that_both_tiers_served_cannot_be_marked_and_says_where_it_moved(page, router):
    named = {"x_tandem_session": "moved"}
    first = router.ask("fix the return", x_tandem_tier="fast", **named)
    moved = router.ask("fix the return", *TOOL_RESULTS, x_tandem_tier="deep", **named)
    open_page(page, router, f"turn/{first}")

    turn = page.locator(f'[data-turn="{first}"]')
    expect(turn.locator("[data-call]")).to_have_count(2)
    expect(turn.locator("[data-wrong]")).to_have_count(0)
    turn.locator(f'[data-hop-of="{moved}"] a').click()

    expect(page.locator(f'[data-call-shown="{moved}"] [data-of-turn="{first}"]')).to_be_visible()


def test_the_calls_of_a_turn_are_one_row_that_grows(page, router):
    named = {"x_tandem_session": "grows"}
    first = router.ask("fix the return", **named)
    open_page(page, router)
    row = page.locator(f'[data-row="{first}"]')
    expect(row.locator(".c-calls")).to_have_text("1")

    second = router.ask("fix the return", *TOOL_RESULTS, **named)

    expect(row.locator(".c-calls")).to_have_text("2")
    expect(page.locator(f'[data-row="{second}"]')).to_have_count(0)


def test_a_session_shows_its_turns_as_a_strip_with_the_hop_between_tiers(page, router):
    open_page(page, router, "sessions")

    page.locator('[data-row="x:afternoon"] [data-row-link]').click()

    session = page.locator("[data-session]")
    expect(session.locator("[data-strip] [data-block]")).to_have_count(3)
    expect(session.locator('[data-hop="up"]').first).to_be_visible()


def test_the_list_is_filtered_by_tier_and_by_text_and_its_address_says_so(page, router):
    fast, deep = router.ask("fix a typo", x_tandem_tier="fast"), router.ask("fix a typo", x_tandem_tier="deep")
    open_page(page, router)
    expect(page.locator(f'[data-row="{deep}"]')).to_be_visible()

    page.locator('[data-choice="fast"]').first.click()
    expect(page.locator(f'[data-row="{fast}"]')).to_be_visible()
    expect(page.locator(f'[data-row="{deep}"]')).to_have_count(0)
    expect(page).to_have_url(re.compile("tier=fast"))

    page.locator("[data-filter]").fill("no call has these words")
    expect(page.locator("[data-row]")).to_have_count(0)
    expect(page.locator("[data-empty]")).to_be_visible()


def test_markup_in_a_prompt_a_session_and_a_model_stays_text(page, router):
    name = router.ask(f"fix {MARKUP}", x_tandem_session=MARKUP)
    open_page(page, router, query="?words=1")

    expect(page.locator(f'[data-row="{name}"]')).to_contain_text("<img src=x")
    page.goto(f"{router.url}/?words=1#/turn/{name}")
    expect(page.locator(f'[data-turn="{name}"]')).to_contain_text("onerror")
    for inserted in ("img[src=x]", "main script", "main b:has-text('bold')"):
        expect(page.locator(inserted)).to_have_count(0)


def test_words_are_shown_only_where_they_are_asked_for(page, router):
    name = router.ask("fix the typo in a most peculiar word")
    open_page(page, router)
    expect(page.locator(f'[data-row="{name}"]')).to_be_visible()
    expect(page.locator(f'[data-row="{name}"]')).not_to_contain_text("peculiar")

    open_page(page, router, query="?words=1")
    expect(page.locator(f'[data-row="{name}"]')).to_contain_text("peculiar")


def test_a_turn_shows_words_only_where_they_are_asked_for(page, router):
    name = router.ask("fix the typo in a most peculiar word")
    turn = page.locator(f'[data-turn="{name}"]')
    open_page(page, router, f"turn/{name}")
    expect(turn.locator("h1")).to_be_visible()
    expect(turn).not_to_contain_text("peculiar")

    with page.expect_request(lambda request: request.url.endswith(f"/tandem/decisions/{name}?words=1")):
        open_page(page, router, f"turn/{name}", query="?words=1")
    expect(turn.locator("[data-words]")).to_contain_text("peculiar")


def test_the_views_are_reached_with_the_keyboard_alone(page, router):
    open_page(page, router)

    page.keyboard.press("?")
    expect(page.locator("[data-keys]")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("[data-keys]")).to_have_count(0)
    page.locator('[data-nav="targets"]').focus()
    page.keyboard.press("Enter")

    expect(page.locator("[data-view=targets] [data-target=quick]").first).to_be_visible()


def test_the_theme_is_switched_and_remembered(page, router):
    open_page(page, router)

    page.locator("[data-theme-switch]").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()

    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


@pytest.mark.refusals
def test_an_unknown_turn_and_an_unknown_address_are_explained(page, router):
    open_page(page, router, "turn/req_unknown")
    expect(page.locator("[data-view=turn]")).to_contain_text("No such turn")

    open_page(page, router, "nowhere")
    expect(page.locator("[data-view=today]")).to_be_visible()
