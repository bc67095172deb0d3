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
    script(page, "**/tandem/turns*", json.dumps({"rows": [], "next": None}))


def script(page: Page, path: str, body: str, kind: str = "application/json") -> None:
    page.route(path, lambda route: route.fulfill(body=body, content_type=kind))


def test_a_call_that_moves_to_another_target_is_shown_there_once_and_in_its_place(page, router):
    moved = call("req_moves", tier="deep", target="thorough")
    script_feed(page, {"begun": [call("req_moves")]}, {"begun": [call("req_after")]}, {"begun": [moved]})

    page.goto(router.url)

    shown = page.locator("[data-running]")
    expect(shown.nth(0)).to_have_attribute("data-running", "req_after")
    expect(shown.nth(1)).to_contain_text(re.compile("deep.*thorough", re.DOTALL))
    expect(shown).to_have_count(2)


def test_where_rows_were_left_out_exactly_what_the_batch_lists_still_runs(page, router):
    long_ago = time.time() - 3600
    begun = [call("req_over"), call("req_long", at=long_ago), call("req_new")]
    script_feed(page, {"begun": begun}, {"begun": [], "rows": [], "more": 3, "missed": 0, "running": ["req_long", "req_new"]})

    page.goto(router.url)

    for name in ("req_new", "req_long"):
        expect(page.locator(f"[data-running={name}]")).to_be_visible()
    expect(page.locator("[data-running]")).to_have_count(2)
