"""A turn of every kind: the sentence that its caller got, the tier that served, and what can be done with it."""

import pytest
from playwright.sync_api import Page, expect
from test_login import log_in
from test_views import WIDTHS, check

pytestmark = pytest.mark.refusals

SENTENCES = {
    "plain": ("fast", "quick edit"),
    "spilled": ("deep", "quick failed (503), so thorough answers"),
    "tool result": ("deep", "2 tool calls into a turn on fast"),
    "moved up": ("deep", "quick failed (503), so thorough answers"),
    "moved down": ("fast", "x-tandem-tier asks for fast"),
    "interrupted": ("deep", "interrupted"),
    "refused": ("", "daily budget of 0.0000010 USD"),
    "job": ("deep", "job"),
}


@pytest.fixture
def open_turn(page: Page, kinds):
    log_in(page, kinds, "ada")

    def open_kind(kind: str):
        page.goto(f"{kinds.url}/#/turn/{kinds.asked[kind]}")
        turn = page.locator(f'[data-call-shown="{kinds.asked[kind]}"]')
        expect(turn).to_be_visible()
        return turn

    return open_kind


@pytest.mark.parametrize("kind", SENTENCES)
def test_a_turn_says_what_happened_in_the_sentence_of_its_caller(page, open_turn, kind, pytestconfig):
    tier, sentence = SENTENCES[kind]

    turn = open_turn(kind)

    expect(turn).to_contain_text(sentence)
    expect(turn.locator("h1 [data-tier]")).to_have_attribute("data-tier", tier)
    expect(page.locator("main [role=status]:has-text('Loading')")).to_have_count(0)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            check(page, f"turn-{kind.replace(' ', '-')}", theme, width, pytestconfig.getoption("--screenshots"))
