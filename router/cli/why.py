"""`tandem why`."""

import argparse

import orjson

from router.cli.common import add_config_argument, find_recorded_turn, load_or_report, say
from router.cli.explanation import write_explanation
from router.settle.kept import explain_row


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_config_argument(parser)
    parser.add_argument(
        "request", nargs="?", metavar="REQUEST", help="a request's id (default: the last turn that a person typed)"
    )
    parser.add_argument("--json", action="store_true", help="print the decision as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the whole explanation of a turn out of the ledger."""
    loaded = load_or_report(arguments.config)
    if loaded is None:
        return 2
    turn = find_recorded_turn(loaded, arguments.request)
    if turn is None:
        return 1
    decision = explain_row(turn.row)
    if decision is None:
        say(f"the decision of {turn.id} cannot be read")
        return 1
    if arguments.json:
        print(orjson.dumps(decision, option=orjson.OPT_INDENT_2).decode())
        return 0
    try:
        print(write_explanation(decision))
    except KeyError as error:
        say(f"the decision of {turn.id} has no {error}: it was written by another version\n  hint: --json prints it unchanged")
        return 1
    print(f"request     {turn.id}, served by {turn.target or 'no target'}")
    return 0
