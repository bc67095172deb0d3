"""`tandem log`: the newest turns, with `--sessions` the newest sessions, with `--follow` turns as they finish."""

import argparse
import time
from collections.abc import Sequence
from datetime import datetime

from router.cli import Ended
from router.cli.common import print_json
from router.cli.figures import count, day_and_clock, duration, money
from router.cli.following import follow
from router.cli.lines import Layout, short_name
from router.cli.past.looking import LAST, add_looking_arguments, nothing_found, open_past, read_turns
from router.cli.tables import columns_here, style_here, write_lines, write_markdown
from router.cli.text import Style
from router.contract.past import SessionSums
from router.past.turns import Turn

_TITLES = ("time", "client", "turn", "tier", "calls", "first", "took", "in", "out", "cost", "why")
_LEFT = ("time", "caller", "client", "tier", "why")
_SESSION_TITLES = ("client", "first", "last", "turns", "fast", "deep", "moved", "calls", "in", "out", "cost", "took")

EXAMPLES = (
    "log",
    "log --since 2h -n 50",
    "log --caller ada --json",
    "log --sessions --since 7d",
    "log --follow",
    "log --url https://tandem.example:4000 --key-env TANDEM_KEY",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_looking_arguments(parser, counted="turns or sessions")
    parser.add_argument("--sessions", action="store_true", help="a line per session")
    parser.add_argument("--follow", action="store_true", help="print turns of a running router as they finish")
    parser.add_argument("--caller", metavar="NAME", help="the caller's name: only its turns")


def run(arguments: argparse.Namespace) -> int:
    """Print the newest turns or sessions, the last one at the end, or turns as they finish."""
    if arguments.follow:
        if arguments.sessions or arguments.markdown or arguments.since or arguments.last != LAST:
            raise Ended(2, "--follow prints turns from now on, without --sessions, --markdown, --since and -n")
        return follow(arguments)
    past, asked = open_past(arguments), (arguments.since, arguments.last, arguments.caller)
    if arguments.sessions:
        sessions = past.read_sessions(*asked)[::-1]
        if not sessions:
            raise nothing_found(arguments)
        if arguments.json:
            print_json([session._asdict() for session in sessions])
        else:
            rows = [_session_row(session) for session in sessions]
            left = ("client", "first", "last")
            print("\n".join(write_lines(_SESSION_TITLES, rows, is_markdown=arguments.markdown, left=left)))
        return 0
    turns = read_turns(past, *asked)
    if not turns:
        raise nothing_found(arguments)
    if arguments.json:
        print_json([turn.as_json() for turn in turns])
    else:
        print("\n".join(_write_markdown(turns) if arguments.markdown else _write_lines(turns)))
    return 0


def _write_lines(turns: Sequence[Turn]) -> list[str]:
    today = datetime.fromtimestamp(time.time()).date()
    is_dated = any(datetime.fromtimestamp(turn.at).date() != today for turn in turns)
    layout = Layout(columns_here(), style_here(), is_dated=is_dated, names_callers=_has_callers(turns))
    return [layout.head(), *(line for turn in turns for line in layout.lines(turn))]


def _write_markdown(turns: Sequence[Turn]) -> list[str]:
    names_callers = _has_callers(turns)
    titles = ("time", "caller", *_TITLES[1:]) if names_callers else _TITLES
    return write_markdown(titles, [_row(turn, names_callers=names_callers) for turn in turns], left=_LEFT)


def _has_callers(turns: Sequence[Turn]) -> bool:
    return len({turn.caller for turn in turns}) > 1


def _row(turn: Turn, *, names_callers: bool) -> list[str]:
    named = [day_and_clock(turn.at), *([turn.caller] if names_callers else []), short_name(turn, Style())]
    marked = f"marked {turn.mark}" if turn.mark is not None else ""
    why = "; ".join(part for part in (turn.trouble, marked, turn.why) if part)
    if turn.tier is None:
        return [*named, str(turn.number or "-"), str(turn.status), str(turn.calls or ""), *[""] * 5, why]
    return [
        *named,
        str(turn.number or "-"),
        f"{turn.tier}{' ↑' if turn.has_moved_up else ''}",
        str(turn.calls or ""),
        duration(turn.first_seconds),
        duration(turn.seconds),
        count(turn.input_tokens),
        count(turn.output_tokens),
        turn.billing or money(turn.cost_usd, is_part=turn.lacks_cost),
        why,
    ]


def _session_row(session: SessionSums) -> list[str]:
    return [
        short_name(Turn(0.0, session.client or "", session.session), Style()),
        day_and_clock(session.first_at),
        day_and_clock(session.last_at),
        *(str(figure) for figure in (session.turns, session.fast, session.deep, session.moved_up, session.calls)),
        count(session.input_tokens),
        count(session.output_tokens),
        money(session.cost_usd, is_part=bool(session.unpriced)),
        duration(session.seconds),
    ]
