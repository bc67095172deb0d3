"""What the page makes of answers that a router gives rarely: each of them is scripted here."""

import json
import re
import time
from collections.abc import Mapping
from typing import Any

from playwright.sync_api import Page, expect

HELLO = {"caller": "local", "admin": True, "keys": False, "keeps_text": False, "running": [], "notices": []}


def call(name: str, **more: Any) -> dict[str, Any]:
    known = {"id": name, "at": time.time(), "caller": "local", "turn_kind": "ask", "client": "tests", "because": "by script"}
    return {**known, "session": None, "tier": "fast", "target": "quick", **more}


def script_feed(page: Page, *batches: Mapping[str, Any]) -> None:
    """Answer the feed with these batches, all at once. The browser does not come again while a test lasts."""
    events = [("hello", {**HELLO, "now": time.time()}), *(("batch", batch) for batch in batches)]
    written = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)
    script(page, "**/tandem/feed*", f"retry: 3600000\n\n{written}", "text/event-stream")
    script(page, "**/tandem/turns*", json.dumps({"turns": [], "next": None}))


def script(page: Page, path: str, body: str, kind: str = "application/json") -> None:
    page.route(path, lambda route: route.fulfill(body=body, content_type=kind))


def test_a_call_that_moves_to_another_target_is_shown_there_once_and_in_its_place(page, router):
    moved = call("req_moves", tier="deep", target="thorough")
    script_feed(page, {"begun": [call("req_moves")]}, {"begun": [call("req_after")]}, {"begun": [moved]})

    page.goto(f"{router.url}/#/turns")

    shown = page.locator("[data-running]")
    expect(shown.nth(0)).to_have_attribute("data-running", "req_after")
    expect(shown.nth(1)).to_contain_text(re.compile("deep.*thorough", re.DOTALL))
    expect(shown).to_have_count(2)


def test_where_rows_were_left_out_exactly_what_the_batch_lists_still_runs(page, router):
    long_ago = time.time() - 3600
    begun = [call("req_over"), call("req_long", at=long_ago), call("req_new")]
    script_feed(page, {"begun": begun}, {"begun": [], "rows": [], "more": 3, "missed": 0, "running": ["req_long", "req_new"]})

    page.goto(f"{router.url}/#/turns")

    for name in ("req_new", "req_long"):
        expect(page.locator(f"[data-running={name}]")).to_be_visible()
    expect(page.locator("[data-running]")).to_have_count(2)


def test_the_regret_says_how_far_back_it_goes_what_it_counts_and_where_no_price_is_known(page, router):
    figures = {
        "saved_usd": {"value": 0.0, "unit": "usd", "count": 0, "rows": []},
        "lost_usd": {"value": 0.0, "unit": "usd", "count": 1, "rows": ["req_1"]},
        "saved_seconds": {"value": 12.0, "unit": "seconds", "count": 2, "rows": ["req_1", "req_2"]},
        "hops_usd": {"value": 0.5, "unit": "usd", "count": 2, "rows": ["req_3", "req_4"]},
        "after_interrupt_tokens": {"value": 30, "unit": "tokens", "count": 1, "rows": ["req_5"]},
    }
    sure = {"sure": "estimated", "how": "As it was scripted."}
    found = {name: {**figure, **sure} for name, figure in figures.items()}
    answer = {"since": 1763000000, "from": 1763380800, "complete": False, "turns": 3, "figures": found}
    script(page, "**/tandem/regret*", json.dumps(answer))

    page.goto(f"{router.url}/#/regret")

    expect(page.locator("[data-turns]")).to_have_text(re.compile(r"^3 turns since 1[678]/11/2025, \d\d:\d\d:\d\d$"))
    for name, value in (("saved_usd", "–"), ("lost_usd", "$0"), ("hops_usd", "$0.500")):
        expect(page.locator(f"[data-figure={name}] .value")).to_have_text(value)
    for name, counted in (("saved_seconds", "2 turns"), ("hops_usd", "2 calls"), ("after_interrupt_tokens", "1 call")):
        expect(page.locator(f"[data-figure={name}] summary")).to_have_text(f"{counted} behind it")


def test_a_regret_that_is_complete_needs_no_date(page, router):
    page.goto(f"{router.url}/#/regret")

    expect(page.locator("[data-turns]")).to_have_text(re.compile(r"^[\d,]+ turns?$"))


def test_background_jobs_that_wait_to_be_collected_are_shown_with_the_command_that_collects_them(page, router):
    script_feed(page)
    jobs = [
        {"id": f"resp_{number}", "state": "completed", "ended_at": time.time() - 60, "caller": "local"} for number in range(5)
    ]
    script(page, "**/tandem/stats", json.dumps({"targets": {}, "jobs": jobs}))

    page.goto(f"{router.url}/#/turns")

    expect(page.locator("[data-job]")).to_have_count(3)
    expect(page.locator("[data-jobs]")).to_contain_text("tandem jobs result resp_4")
    expect(page.locator("[data-jobs]")).to_contain_text("and 2 more")


def before_first_frame(page: Page, act: str) -> None:
    """Replace the feed, and have it `act` after the first drawing of the page and before the browser shows that."""
    feed = f"constructor() {{ super(); queueMicrotask(() => {{ {act} }}); }} close() {{}}"
    page.add_init_script(f"window.EventSource = class extends EventTarget {{ {feed} }};")


def test_a_feed_that_answers_before_the_first_frame_is_shown_as_live(page, router):
    data = json.dumps(json.dumps({**HELLO, "now": time.time()}))
    before_first_frame(page, f"this.dispatchEvent(new MessageEvent('hello', {{ data: {data} }}));")

    page.goto(f"{router.url}/#/sessions")

    expect(page.locator("[data-connection]")).to_have_attribute("data-connection", "live")


def test_an_address_that_changes_before_the_first_frame_is_followed(page, router):
    before_first_frame(page, "history.replaceState(null, '', '#/targets'); dispatchEvent(new Event('hashchange'));")

    page.goto(f"{router.url}/#/sessions")

    expect(page.locator("[data-view=targets]")).to_be_visible()
