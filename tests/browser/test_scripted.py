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


def test_the_savings_say_how_far_back_they_go_and_list_the_turns_behind_them(page, router):
    both = {"seconds": 12.0, "usd": 0.5}
    turn = {
        "request": "req_1",
        "at": time.time(),
        "caller": "local",
        "client": "codex",
        "session": "x:s",
        "because": "a quick edit",
    }
    turn |= {"redone": "moved_up", "seconds": 3.0, "usd": 0.1, "saved_seconds": 0.0, "saved_usd": 0.0}
    figures = dict.fromkeys(("spent", "all_deep", "saved"), both)
    counted = {
        "turns": 3,
        "fast_turns": 2,
        "calls": 9,
        "redone": {**both, "turns": 1},
        "redone_turns": [turn],
        "saving_turns": [],
    }
    answer = {"from": 1763380800, "complete": False, "sentence": "$0.50 less than all on deep", **figures, **counted}
    script(page, "**/tandem/savings*", json.dumps(answer))

    page.goto(f"{router.url}/#/savings")

    expect(page.locator("[data-sentence]")).to_have_text("$0.50 less than all on deep")
    expect(page.locator("[data-turns]")).to_have_text(re.compile(r"^3 turns since 1[678]/11/2025, \d\d:\d\d:\d\d$"))
    expect(page.locator("[data-figure=saved] .value")).to_contain_text("$0.500")
    expect(page.locator("[data-behind=redone] [data-behind-row=req_1]")).to_contain_text("moved up while it ran")
    expect(page.locator("[data-behind=saved]")).to_have_count(0)


def job(name: str, state: str, **more: Any) -> dict[str, Any]:
    known = {"id": name, "state": state, "tier": "deep", "title": "review it", "session": None, "caller": "local"}
    return {**known, "created_at": time.time() - 60, "ended_at": None, "is_collected": False, **more}


def test_jobs_are_turns_on_top_that_are_cancelled_while_they_run_and_read_when_they_are_done(page, router):
    script_feed(page)
    ended = {"ended_at": time.time()}
    jobs = [
        job("resp_1", "running"),
        job("resp_2", "completed", **ended),
        job("resp_3", "completed", **ended, is_collected=True),
    ]
    script(page, "**/tandem/jobs?*", json.dumps({"data": jobs}))
    script(page, "**/v1/responses/resp_2", json.dumps({"output": [{"content": [{"text": "All is well."}]}]}))
    cancelled: list[str] = []
    page.route("**/tandem/jobs/*/cancel*", lambda route: cancelled.append(route.request.method) or route.fulfill(body="{}"))

    page.goto(f"{router.url}/#/turns")

    expect(page.locator("[data-job]")).to_have_count(2)
    page.locator("[data-job=completed] [data-job-result]").click()
    expect(page.locator("[data-result]")).to_have_text("All is well.")
    with page.expect_request("**/tandem/jobs/resp_1/cancel*"):
        page.locator("[data-job=running] [data-job-cancel]").click()
    assert cancelled == ["POST"]


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
