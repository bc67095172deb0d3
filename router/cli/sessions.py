"""`tandem sessions`."""

import argparse

from router.cli.common import print_json
from router.cli.past.looking import add_looking_arguments, find_ledger, look, nothing_found
from router.cli.tables import write_lines
from router.contract.past import SessionSums
from router.screen.figures import count, day_and_clock, duration, money
from router.screen.lines import short_name
from router.screen.text import Style
from router.screen.turns import Turn

_TITLES = ("client", "first", "last", "turns", "fast", "deep", "moved", "calls", "in", "out", "cost", "took")
_LEFT = ("client", "first", "last")

EXAMPLES = ("sessions", "sessions --since 7d --markdown")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_looking_arguments(parser, counted="sessions")


def run(arguments: argparse.Namespace) -> int:
    """Print the newest sessions, the last one at the end."""
    found = look(find_ledger(arguments), lambda ledger: ledger.read_sessions(arguments.since, arguments.count))
    if not found:
        raise nothing_found(arguments)
    found.reverse()
    if arguments.json:
        print_json([session._asdict() for session in found])
        return 0
    rows = [_row(session) for session in found]
    print("\n".join(write_lines(_TITLES, rows, is_markdown=arguments.markdown, left=_LEFT)))
    return 0


def _row(session: SessionSums) -> list[str]:
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
