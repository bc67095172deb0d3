"""Logging in to the page where keys are needed, and what other sites can do with that: nothing."""

import pytest
from playwright.sync_api import BrowserContext, Page, expect

pytestmark = pytest.mark.refusals


def log_in(page: Page, router, name: str) -> None:
    page.goto(f"{router.url}/#/turns")
    page.locator("#login-key").fill(router.keys[name])
    page.locator("#login button[type=submit]").click()
    expect(page.locator("[data-connection]")).to_have_attribute("data-connection", "live")
    expect(page.locator("[data-view=turns]")).to_be_visible()


def log_out(page: Page) -> None:
    """A page that is left before the form is back may not have sent it."""
    page.locator("[data-logout]").click()
    expect(page.locator("[data-view=login]")).to_be_visible()


def test_without_a_login_the_page_shows_the_form_and_nothing_else(page, keyed):
    page.goto(keyed.url)

    expect(page.locator("[data-view=login] #login-key")).to_be_visible()
    expect(page.locator("[data-row]")).to_have_count(0)
    expect(page.locator("[data-logout]")).to_have_count(0)


def test_a_wrong_key_is_refused_and_the_right_one_let_in(page, keyed):
    page.goto(f"{keyed.url}/#/turns")
    page.locator("#login-key").fill("tdm_00000000_wrong")
    page.locator("#login button[type=submit]").click()
    expect(page.locator("[data-login-error]")).to_be_visible()

    page.locator("#login-key").fill(keyed.keys["bob"])
    page.locator("#login button[type=submit]").click()

    expect(page.locator("[data-row]")).to_have_count(1)
    expect(page.locator("[data-logout]")).to_be_visible()


def test_a_caller_sees_its_own_turns_and_an_admin_everyones_with_the_callers(page, keyed, browser):
    log_in(page, keyed, "bob")
    expect(page.locator("[data-row]")).to_have_count(1)
    expect(page.locator('[data-nav="callers"]')).to_have_count(0)
    log_out(page)

    log_in(page, keyed, "ada")
    expect(page.locator("[data-row]")).to_have_count(2)
    page.locator('[data-nav="callers"]').click()

    expect(page.locator('[data-caller="bob"]').first).to_be_visible()


def test_a_login_survives_a_reload_and_ends_with_a_logout(page, keyed, context: BrowserContext):
    log_in(page, keyed, "bob")
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    assert page.evaluate("document.cookie") == ""
    page.reload()
    expect(page.locator("[data-row]")).to_have_count(1)

    log_out(page)
    assert context.cookies() == []
    page.reload()

    expect(page.locator("[data-view=login]")).to_be_visible()


def test_an_admin_opens_the_session_of_the_caller_that_was_clicked(page, keyed):
    log_in(page, keyed, "ada")
    opened = page.locator("[data-session]")

    for name in ("bob", "ada"):
        page.goto(f"{keyed.url}/#/sessions")
        page.locator('[data-row="x:same"]', has_text=name).locator("[data-row-link]").click()
        expect(opened.locator("[data-block]")).to_have_attribute("data-block", keyed.asked[name])

        opened.locator("[data-row-link]").click()
        turn = page.locator(f'[data-turn="{keyed.asked[name]}"]')
        expect(turn.locator("[data-block]")).to_have_attribute("data-block", keyed.asked[name])

        page.get_by_text("Show the session").click()
        expect(opened.locator("[data-block]")).to_have_attribute("data-block", keyed.asked[name])
        expect(page).to_have_url(f"{keyed.url}/#/session/x%3Asame?caller={name}")


def test_the_address_of_a_session_names_its_caller_for_an_admin_alone(page, keyed):
    asked = keyed.asked["bob"]

    for reader, address in (("ada", "#/session/x%3Asame?caller=bob"), ("bob", "#/session/x%3Asame")):
        log_in(page, keyed, reader)
        page.locator(f'[data-row="{asked}"] a.quiet').click()
        expect(page.locator("[data-session] [data-block]")).to_have_attribute("data-block", asked)
        expect(page).to_have_url(f"{keyed.url}/{address}")
        page.reload()
        expect(page.locator("[data-session] [data-block]")).to_have_attribute("data-block", asked)
        log_out(page)


def test_another_site_can_neither_read_nor_write_with_the_login(page, keyed, router, context):
    """`localhost` and `127.0.0.1` are two sites to a browser, and two ports two origins of one site."""
    log_in(page, keyed, "ada")
    stranger = context.new_page()
    calls = keyed.count_calls()
    stranger.goto(f"http://localhost:{router.port}/healthz")

    tried = stranger.evaluate(
        """async (url) => {
            const tries = [["/tandem/stats", {}], ["/tandem/wrong/req_1", {method: "POST", body: '{"tier": "deep"}'}]];
            const found = [];
            for (const [path, options] of tries)
                for (const mode of ["cors", "no-cors"])
                    found.push(await fetch(url + path, {credentials: "include", mode, ...options})
                        .then((answer) => answer.type === "opaque" ? "opaque" : answer.status, () => "refused"));
            return found;
        }""",
        keyed.url,
    )

    assert set(tried) <= {"refused", "opaque"}
    keyed.wait_for_lines("requests from other web pages are refused", 4)
    assert keyed.count_calls() == calls
