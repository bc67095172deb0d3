"""`tandem log`."""

import argparse
import time
from datetime import datetime

from router.cli.common import print_json
from router.cli.past.looking import add_looking_arguments, find_ledger, look, nothing_found
from router.cli.tables import columns_here, style_here, write_markdown
from router.contract.request import JsonObject
from router.contract.stores import EntryReader
from router.screen.figures import count, day_and_clock, duration, money
from router.screen.lines import Layout, short_name
from router.screen.text import Style
from router.screen.turns import Turn, Turns

_TITLES = ("time", "client", "turn", "tier", "calls", "first", "took", "in", "out", "cost", "why")
_LEFT = ("time", "caller", "client", "tier", "why")

EXAMPLES = ("log", "log --since 2h -n 50", "log --caller ada", "log --json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_looking_arguments(parser, counted="turns")
    parser.add_argument("--caller", metavar="NAME", help="only this caller's turns (stats --by caller lists the callers)")


def run(arguments: argparse.Namespace) -> int:
    """Print the newest turns, the last one at the end."""
    turns = look(find_ledger(arguments), lambda ledger: read_turns(ledger, arguments.since, arguments.count, arguments.caller))
    if not turns:
        raise nothing_found(arguments)
    names_callers = len({turn.caller for turn in turns}) > 1
    if arguments.json:
        print_json([_as_json(turn) for turn in turns])
        return 0
    if arguments.markdown:
        titles = ("time", "caller", *_TITLES[1:]) if names_callers else _TITLES
        rows = [_row(turn, names_callers=names_callers) for turn in turns]
        print("\n".join(write_markdown(titles, rows, left=_LEFT)))
        return 0
    now = time.time()
    today = datetime.fromtimestamp(now).date()
    is_dated = any(datetime.fromtimestamp(turn.at).date() != today for turn in turns)
    layout = Layout(columns_here(), style_here(), is_dated=is_dated, names_callers=names_callers)
    print(layout.head())
    for turn in turns:
        print(layout.line(turn, now))
    return 0


def read_turns(ledger: EntryReader, since: float, limit: int, caller: str | None = None) -> list[Turn]:
    """The newest turns of a ledger, or of one caller in it, oldest first. Raises `StoreUnusable`."""
    calls, before = ledger.read_newest(since, limit, caller)
    turns = Turns()
    for (caller, session), known in before.items():
        turns.count_from(caller, session, known)
    found: dict[int, Turn] = {}
    for call in calls:
        turn = turns.replay(call.line, decided=call.decided)
        if turn is not None:
            found[id(turn)] = turn
    return list(found.values())[-limit:]


def _as_json(turn: Turn) -> JsonObject:
    return {
        "at": turn.at,
        "caller": turn.caller,
        "client": turn.client or None,
        "session": turn.session or None,
        "job": turn.job or None,
        "turn": turn.number,
        "kind": turn.kind or None,
        "tier": turn.tier,
        "moved_up": turn.has_moved_up,
        "calls": turn.calls,
        "first_seconds": turn.first_seconds,
        "seconds": round(turn.seconds, 3),
        "input_tokens": turn.input_tokens,
        "output_tokens": turn.output_tokens,
        "cost_usd": turn.cost_usd,
        "cost_is_partial": turn.lacks_cost,
        "outcome": turn.outcome,
        "status": turn.status,
        "trouble": turn.trouble or None,
        "why": turn.why or None,
    }


def _row(turn: Turn, *, names_callers: bool) -> list[str]:
    has_tier = turn.tier is not None
    return [
        day_and_clock(turn.at),
        *([turn.caller] if names_callers else []),
        short_name(turn, Style()),
        str(turn.number or "-"),
        f"{turn.tier}{' ↑' if turn.has_moved_up else ''}" if has_tier else str(turn.status),
        str(turn.calls or ""),
        duration(turn.first_seconds) if has_tier else "",
        duration(turn.seconds) if has_tier else "",
        count(turn.input_tokens) if has_tier else "",
        count(turn.output_tokens) if has_tier else "",
        money(turn.cost_usd, is_part=turn.lacks_cost) if has_tier else "",
        "; ".join(part for part in (turn.trouble, turn.why) if part),
    ]
