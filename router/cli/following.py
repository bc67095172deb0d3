"""`tandem log --follow`: turns of a running router as they finish, from its feed."""

import argparse
import json
import queue
import sys
from collections import deque
from collections.abc import Iterable
from typing import Any

import msgspec

from router.cli import Ended
from router.cli.asking import Refused, Unreachable, ask, explain_refusal
from router.cli.common import say
from router.cli.feed_reader import LOST, REFUSED, FeedReader, Told
from router.cli.figures import plural
from router.cli.reaching import find_running, read_own_key
from router.cli.turn_lines import FinishedTurns, TurnLines
from router.contract.entry import LINE_FIELDS, read_line
from router.contract.request import JsonObject, objects_in
from router.dialects.fields import as_object
from router.past.rows import Call, Kept
from router.past.turns import Begun, Turn

_SILENCE_SECONDS = 40.0
"""The router sends something every 15 seconds: a longer silence means a lost connection."""
_TICK_SECONDS = 0.25
_REMEMBERED = 2_000
"""Requests remembered: a router may send them again after a lost connection, or when another target is tried."""


def follow(arguments: argparse.Namespace) -> int:
    """Print turns until Ctrl-C. Raises `Ended` if the router refuses."""
    url, key = find_running(arguments.config, arguments.url).url, read_own_key(arguments.key_env)
    told: queue.SimpleQueue[Told] = queue.SimpleQueue()

    def open_feed(query: str) -> Any:
        return ask(url, f"/tandem/feed{query}", within_seconds=_SILENCE_SECONDS, key=key)

    def write(turns: Iterable[Turn]) -> None:
        wanted = [turn for turn in turns if arguments.caller in (None, turn.caller)]
        if arguments.json:
            for turn in wanted:
                shown = turn.as_json()
                del shown["turn"]  # earlier turns of its session were not counted
                print(json.dumps(shown, ensure_ascii=False), flush=True)
        else:
            lines.write(wanted)

    FeedReader(open_feed, told.put).start()
    if sys.stdout.isatty():
        say(f"turns of {url} as they finish; Ctrl-C stops")
    turns, lines, is_lost = FeedTurns(), TurnLines(sys.stdout), False
    try:
        while True:
            for found in _take_all(told):
                if found.event == REFUSED:
                    raise _refuse(url, found)
                if found.event != LOST:
                    turns.read(*found)
                elif not is_lost:
                    say(f"lost the router at {url} ({found.data['reason']}); trying again")
                is_lost = found.event == LOST
            write(turns.take())
    except KeyboardInterrupt:
        write(turns.take(is_last=True))
        return 0


class FeedTurns(FinishedTurns):
    """Reads the events of a feed."""

    def __init__(self) -> None:
        super().__init__()
        self._begun, self._over = deque[str](maxlen=_REMEMBERED), deque[str](maxlen=_REMEMBERED)

    def read(self, event: str, data: JsonObject) -> None:
        if event == "hello":
            self.stop_all_but({str(call.get("id")) for call in objects_in(data.get("running"))})
        for call in objects_in(data.get("begun" if event == "batch" else "running")):
            self._begin(call)
        for field, words in (("missed", "missed here"), ("more", "not shown")):
            if isinstance(count := data.get(field), int) and count:
                say(f"{plural(count, 'call')} {words}")
        for row in objects_in(data.get("rows")):
            line = read_line(map(row.get, LINE_FIELDS))
            if line is not None and line.id not in self._over:  # None from an incompatible router
                self._over.append(line.id)
                can_be_marked = as_object(row.get("turn")).get("can_be_marked")
                self.end(Call(line, Kept(tier=line.tier) if can_be_marked else None))

    def _begin(self, call: JsonObject) -> None:
        named = {"kind": call.get("turn_kind"), **call}
        known = {"kind": "", "tier": "", "because": "", **{field: value for field, value in named.items() if value is not None}}
        try:
            begun = msgspec.convert(known, Begun)
        except msgspec.ValidationError:
            return  # from an incompatible router
        if begun.id not in self._begun and begun.id not in self._over:
            self._begun.append(begun.id)
            self.begin(begun)


def _take_all(told: "queue.SimpleQueue[Told]") -> list[Told]:
    """Wait a moment for events, and return all that are there."""
    found = []
    try:
        found.append(told.get(timeout=_TICK_SECONDS))
        while True:
            found.append(told.get_nowait())
    except queue.Empty:
        return found


def _refuse(url: str, told: Told) -> Ended:
    """Why there is no feed, and what helps."""
    status = told.data["status"]
    if status == 404:
        hint = "set page: on in its config, and run the same version there"
        return Ended(1, f"what answers at {url} has no live feed (404)\n  hint: {hint}")
    error = Refused(int(str(status)), f"status {status}") if status else Unreachable(str(told.data.get("reason")))
    return explain_refusal(url, error)
