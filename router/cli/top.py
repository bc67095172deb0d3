"""`tandem top`: the turns of a running router as they happen, from its feed."""

import argparse
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, TextIO

from router.cli import Ended
from router.cli.asking import ask
from router.cli.common import command_name, say
from router.cli.feed_reader import LOST, REFUSED, FeedReader, Told
from router.cli.reaching import add_router_arguments, find_url, read_own_key
from router.screen.feed_view import FeedView
from router.screen.gauges import write_regret, write_targets
from router.screen.jobs import read_jobs
from router.screen.terminal import size_of, style_of
from router.telemetry.colour import can_redraw

EXAMPLES = ("top", "top --url https://tandem.example:4000 --key-env TANDEM_KEY", "top --json")
_SILENCE_SECONDS = 40.0
"""The router sends something every 15 seconds: after this long without a byte, the connection is lost."""
_ASK_SECONDS = 5.0
_TICK_SECONDS = 0.25
_LOOK_SECONDS = 2.0
_REGRET_EVERY, _REGRET_SPAN = 15, "24h"
_QUIET_SECONDS = 10.0
"""Where lines cannot be redrawn, a turn is printed after this long without a call."""
_STATS, _REGRET = "stats", "regret"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_router_arguments(parser)
    parser.add_argument("--words", action="store_true", help="show what was typed, if the router keeps it (ledger.keep_text)")
    parser.add_argument("--json", action="store_true", help="print JSON: a line for each finished call")


def run(arguments: argparse.Namespace) -> int:
    """Show turns until Ctrl-C."""
    url, key = find_url(arguments.url), read_own_key(arguments.key_env)
    told: queue.SimpleQueue[Told] = queue.SimpleQueue()

    def open_feed(query: str) -> Any:
        return ask(url, f"/tandem/feed{query}", within_seconds=_SILENCE_SECONDS, key=key)

    after = None if arguments.json else "0"
    FeedReader(open_feed, told.put, query="words=1" if arguments.words else "", after=after).start()
    if arguments.json:
        return _follow(told, url, _print_rows)
    gauges = threading.Thread(target=_look, args=(url, key, told.put), name="gauges", daemon=True)
    drawing = Drawing(sys.stdout, url)
    if drawing.can_redraw:
        gauges.start()
    return _follow(told, url, drawing.take, drawing)


class Drawing:
    """A view on a stream: redrawn in place on a terminal, or a line for each turn."""

    def __init__(self, stream: TextIO, url: str, clock: Callable[[], float] = time.time) -> None:
        self.can_redraw = can_redraw(stream)
        self._stream, self._url, self._clock = stream, url, clock
        quiet = None if self.can_redraw else _QUIET_SECONDS
        self._view = FeedView(style_of(stream, os.environ), is_still=not self.can_redraw, quiet_seconds=quiet)
        self._targets: list[str] = []
        self._regret: list[str] = []
        self._jobs: list[str] = []
        self._size = (0, 0)
        self._has_news = True
        if self.can_redraw:
            self._view.board.note(f"turns of {url}; Ctrl-C stops")

    def take(self, told: Told) -> None:
        """Take what was found. It is drawn with the next `draw`."""
        self._has_news = True
        if told.event == LOST:
            self._view.lose(f"lost the router at {self._url} ({told.data['reason']}); trying again")
        elif told.event == _STATS:
            self._targets, self._jobs = write_targets(told.data), read_jobs(told.data)
        elif told.event == _REGRET:
            self._regret = write_regret(told.data, _REGRET_SPAN)
        else:
            self._view.take(told.event, told.data, self._clock())
        self._view.show_gauges([*self._targets, *self._regret, *self._jobs])

    def draw(self, *, is_last: bool = False) -> None:
        """Bring the stream up to date. On a terminal, nothing is written while nothing changes."""
        before, self._size = self._size, size_of(self._stream)
        is_due = self._has_news or self._view.board.is_running or self._size != before
        if self.can_redraw and not is_due and not is_last:
            return
        self._has_news = False
        text = self._view.draw(self._clock(), *self._size, is_last=is_last)
        if not self.can_redraw:
            text = text.replace("\r\n", "\n")
        if text:
            self._stream.write(text)
            self._stream.flush()


def _print_rows(told: Told) -> None:
    rows = told.data.get("rows")
    for row in rows if told.event == "batch" and isinstance(rows, list) else []:
        print(json.dumps(row, ensure_ascii=False), flush=True)


def _follow(told: "queue.SimpleQueue[Told]", url: str, take: Callable[[Told], None], drawing: Drawing | None = None) -> int:
    """Take what comes until Ctrl-C, and draw it a few times a second. Raises `Ended` where the router refuses."""
    try:
        while True:
            for found in _take_all(told, _TICK_SECONDS):
                if found.event == REFUSED:
                    raise _refuse(url, found)
                if found.event == LOST and drawing is None:
                    say(f"lost the router at {url} ({found.data['reason']}); trying again")
                take(found)
            if drawing is not None:
                drawing.draw()
    except KeyboardInterrupt:
        return 0
    finally:
        if drawing is not None:
            drawing.draw(is_last=True)


def _take_all(told: "queue.SimpleQueue[Told]", within_seconds: float) -> list[Told]:
    """Everything that came within some time: nothing, or what is there as soon as something is."""
    found = []
    try:
        found.append(told.get(timeout=within_seconds))
        while True:
            found.append(told.get_nowait())
    except queue.Empty:
        return found


def _look(url: str, key: str, tell: Callable[[Told], None]) -> None:
    """Ask for the figures of targets every two seconds, and for the regret twice a minute."""
    looks, sleep = 0, threading.Event().wait
    while True:
        if (stats := _ask_json(url, "/tandem/stats", key)) is not None:
            tell(Told(_STATS, stats))
        if not looks % _REGRET_EVERY and (regret := _ask_json(url, f"/tandem/regret?since={_REGRET_SPAN}", key)) is not None:
            tell(Told(_REGRET, regret))
        looks += 1
        sleep(_LOOK_SECONDS)


def _ask_json(url: str, path: str, key: str) -> Any:
    """What a route answers; None where it does not: the feed reports that the router is gone."""
    try:
        with ask(url, path, within_seconds=_ASK_SECONDS, key=key) as answer:
            found = json.load(answer)
    except (OSError, HTTPException, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _refuse(url: str, told: Told) -> Ended:
    """Why there is no feed, and what helps."""
    status = told.data["status"]
    if not status:
        hint = f"{command_name()} serve starts one; --url names one elsewhere"
        return Ended(1, f"no router answers at {url}: {told.data.get('reason')}\n  hint: {hint}")
    if status == 401:
        return Ended(1, f"the router at {url} needs a key, or does not accept this one (401)\n  hint: name it with --key-env")
    if status == 404:
        hint = "set page: on in its config, and run the same version there"
        return Ended(1, f"what answers at {url} has no live feed (404)\n  hint: {hint}")
    return Ended(1, f"the router at {url} does not give its feed (status {status})")
