"""The page of one of several routers: the calls of all of them, live, in order, each once; and what it says when it is alone."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import routers
from playwright.sync_api import Page, expect
from test_page import open_page

PROGRAMS = ("valkey-server", "redis-server")


class Several:
    def __init__(self, server: routers.Server, running: list[routers.Router]) -> None:
        self.server, self.routers = server, running


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Several]:
    """Three routers named a, b and c that share a server."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("no Valkey or Redis server on this machine")
    with tempfile.TemporaryDirectory(prefix="tandem-vk-") as folder:
        server, running = routers.Server(program, Path(folder)), []
        try:
            for name in "abc":
                more = f"shared: {{replica: {name}, valkey: {{url: env:TANDEM_VALKEY_URL}}}}\n"
                running.append(routers.Router(tmp_path_factory.mktemp(name), more, TANDEM_VALKEY_URL=server.url))
            yield Several(server, running)
        finally:
            for router in running:
                router.stop()
            server.stop()


def see_running(page: Page, router: routers.Router, name: str) -> str:
    """Wait until the page shows a call of another router, and return its id: that router knows then that somebody looks.

    What ended there before that is not reported.
    """
    with router.asking(routers.UNHURRIED, x_tandem_tier="deep"):
        running = page.locator("[data-running]", has=page.locator(f'[data-replica="{name}"]'))
        expect(running.locator("[data-clock]")).to_be_visible()
        return str(running.get_attribute("data-running"))


def test_calls_of_all_routers_appear_live_in_order_and_each_once(page: Page, several):
    open_page(page, several.routers[0])
    expect(page.locator('[data-scope="all"]')).to_contain_text("Live from 3 routers")
    before = [see_running(page, several.routers[number], name) for number, name in enumerate("bc", 1)]
    expect(page.locator("[data-row]")).to_have_count(len(before))

    asked = [several.routers[number % 3].ask(f"fix typo {number}", x_tandem_session="shared") for number in range(12)]

    expect(page.locator("[data-row]")).to_have_count(len(before) + 12)
    shown = page.locator("[data-row]").evaluate_all("rows => rows.map(row => row.dataset.row)")
    assert shown == [*asked[::-1], *before[::-1]]
    expect(page.locator('[data-replica="b"]')).to_have_count(1 + 4)
    expect(page.locator("[data-running]")).to_have_count(0)


def test_a_call_that_runs_at_another_router_is_shown_with_a_clock_until_it_is_over(page: Page, several):
    open_page(page, several.routers[0])

    name = see_running(page, several.routers[1], "b")

    expect(page.locator(f'[data-row="{name}"] [data-replica="b"]')).to_be_visible()
    expect(page.locator("[data-running]")).to_have_count(0)


def test_a_row_of_another_router_says_where_the_rest_of_it_is(page: Page, several):
    open_page(page, several.routers[0])
    name = see_running(page, several.routers[2], "c")

    page.locator(f'[data-row="{name}"] [data-row-link]').click()

    expect(page.locator(f'[data-turn="{name}"] [data-elsewhere="c"]')).to_contain_text("open the page of that router")


@pytest.mark.parametrize("view", ["sessions", "targets", "savings"])
def test_views_of_the_ledger_say_whose_it_is(page: Page, several, view):
    open_page(page, several.routers[1], view)

    expect(page.locator('[data-scope="ledger"]')).to_contain_text(re.compile(r"ledger of this (router|one), b\."))


def test_a_router_that_is_alone_says_so_goes_on_showing_its_own_calls_and_takes_the_others_back(page: Page, several):
    here, other = several.routers[:2]
    open_page(page, here)
    expect(page.locator('[data-scope="all"]')).to_be_visible()

    several.server.stop()
    expect(page.locator('[data-scope="alone"]')).to_contain_text("only those of this router, a")
    expect(page.locator('[data-notice="store_away"]')).to_be_visible()
    name = here.ask("fix the typo while alone")
    expect(page.locator(f'[data-row="{name}"]')).to_be_visible()

    several.server.start()
    expect(page.locator('[data-scope="all"]')).to_be_visible()
    expect(page.locator("[data-notice]")).to_have_count(0)
    name = see_running(page, other, "b")
    expect(page.locator(f'[data-row="{name}"]')).to_be_visible()
