"""`tandem why`."""

import argparse

from router.cli.common import add_config_argument, print_json, say
from router.cli.past.cost import write_cost
from router.cli.past.explanation import print_explanation
from router.cli.past.looking import find_ledger, find_recorded_turn
from router.settle.kept import explain_row

EXAMPLES = (
    "why",
    "why req_01J9 --json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_config_argument(parser)
    parser.add_argument(
        "request", nargs="?", metavar="REQUEST", help="a request's id (default: the last turn that a person typed)"
    )
    parser.add_argument("--json", action="store_true", help="print the decision as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the whole explanation of a turn out of the ledger."""
    turn = find_recorded_turn(find_ledger(arguments), arguments.request)
    decision = explain_row(turn.row)
    if decision is None:
        say(f"the decision of {turn.id} cannot be read")
        return 1
    if arguments.json:
        print_json(decision)
        return 0
    try:
        print_explanation(decision)
        print("\n".join(write_cost(decision)))
    except KeyError as error:
        say(f"the decision of {turn.id} has no {error}: it was written by another version\n  hint: --json prints it unchanged")
        return 1
    except (TypeError, ValueError, AttributeError, ArithmeticError):
        say(f"the decision of {turn.id} cannot be read: somebody changed it\n  hint: --json prints it unchanged")
        return 1
    print(f"request     {turn.id}, served by {turn.target or 'no target'}")
    return 0
