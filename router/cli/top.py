"""`tandem top`: a running router's turns as they happen, from its feed."""

import argparse
import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from router.cli import Ended
from router.cli.asking import Refused, Unreachable, ask, ask_object, explain_refusal
from router.cli.common import say
from router.cli.feed_reader import LOST, REFUSED, FeedReader, Told
from router.cli.reaching import add_router_arguments, find_url, read_own_key
from router.screen.feed_view import SAVINGS, SAVINGS_SPAN, STATS, FeedView
from router.screen.terminal import Plain, style_of
from router.telemetry.colour import can_redraw

EXAMPLES = ("top", "top --url https://tandem.example:4000 --key-env TANDEM_KEY", "top --json")
_SILENCE_SECONDS = 40.0
"""The router sends something every 15 seconds: a longer silence means a lost connection."""
_ASK_SECONDS = 5.0
_TICK_SECONDS = 0.25
_LOOK_SECONDS = 2.0
_SAVINGS_EVERY = 15


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_router_arguments(parser)
    parser.add_argument("--words", action="store_true", help="show what was typed, with ledger.keep_text")
    parser.add_argument("--json", action="store_true", help="print JSON: a line for each finished call")


def run(arguments: argparse.Namespace) -> int:
    url, key = find_url(arguments.url), read_own_key(arguments.key_env)
    told: queue.SimpleQueue[Told] = queue.SimpleQueue()

    def open_feed(query: str) -> Any:
        return ask(url, f"/tandem/feed{query}", within_seconds=_SILENCE_SECONDS, key=key)

    after = None if arguments.json else "0"
    FeedReader(open_feed, told.put, query="words=1" if arguments.words else "", after=after).start()
    if arguments.json:
        return _follow(told, url, _print_rows)
    is_still = not can_redraw(sys.stdout)
    view = FeedView(Plain(sys.stdout), style_of(sys.stdout, os.environ), is_still=is_still)
    if not is_still:
        view.note(f"turns of {url}; Ctrl-C stops")
        threading.Thread(target=_look, args=(url, key, told.put), name="gauges", daemon=True).start()
    return _follow(told, url, lambda found: view.take(*found), view)


def _print_rows(told: Told) -> None:
    rows = told.data.get("rows")
    for row in rows if told.event == "batch" and isinstance(rows, list) else []:
        print(json.dumps(row, ensure_ascii=False), flush=True)


def _follow(told: "queue.SimpleQueue[Told]", url: str, take: Callable[[Told], None], view: FeedView | None = None) -> int:
    """Take and draw events until Ctrl-C. Raises `Ended` if the router refuses."""
    try:
        while True:
            for found in _take_all(told, _TICK_SECONDS):
                if found.event == REFUSED:
                    raise _refuse(url, found)
                if found.event == LOST:
                    (view.lose if view is not None else say)(f"lost the router at {url} ({found.data['reason']}); trying again")
                else:
                    take(found)
            if view is not None:
                view.draw()
    except KeyboardInterrupt:
        return 0
    finally:
        if view is not None:
            view.draw(is_last=True)


def _take_all(told: "queue.SimpleQueue[Told]", within_seconds: float) -> list[Told]:
    """Wait for events, and return all that are there; empty after the time."""
    found = []
    try:
        found.append(told.get(timeout=within_seconds))
        while True:
            found.append(told.get_nowait())
    except queue.Empty:
        return found


def _look(url: str, key: str, tell: Callable[[Told], None]) -> None:
    """Poll target figures every two seconds, and the savings twice a minute."""
    looks, sleep = 0, threading.Event().wait
    while True:
        asked = {STATS: "/tandem/stats"} | (
            {SAVINGS: f"/tandem/savings?since={SAVINGS_SPAN}"} if not looks % _SAVINGS_EVERY else {}
        )
        for event, path in asked.items():
            with suppress(Refused, Unreachable):  # the feed reports that the router is gone
                tell(Told(event, ask_object(url, path, within_seconds=_ASK_SECONDS, key=key)))
        looks += 1
        sleep(_LOOK_SECONDS)


def _refuse(url: str, told: Told) -> Ended:
    """Why there is no feed, and what helps."""
    status = told.data["status"]
    if status == 404:
        hint = "set page: on in its config, and run the same version there"
        return Ended(1, f"what answers at {url} has no live feed (404)\n  hint: {hint}")
    error = Refused(int(str(status)), f"status {status}") if status else Unreachable(str(told.data.get("reason")))
    return explain_refusal(url, error)
