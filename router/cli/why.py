"""`tandem why`."""

import argparse

from router.cli import Ended
from router.cli.common import add_config_argument, print_json
from router.cli.past.cost import write_cost
from router.cli.past.explanation import print_explanation
from router.cli.past.looking import find_ledger, find_recorded_turn
from router.contract.past import RecordedTurn
from router.contract.request import JsonObject
from router.contract.words import Outcome
from router.settle.kept import explain_row

EXAMPLES = ("why", "why req_01J9 --json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_argument(parser)
    parser.add_argument(
        "request", nargs="?", metavar="REQUEST", help="a request's id (default: the last turn that a person typed)"
    )
    parser.add_argument("--json", action="store_true", help="print the decision as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the whole explanation of a turn from the ledger."""
    turn = find_recorded_turn(find_ledger(arguments), arguments.request)
    decision = explain_row(turn.row)
    if decision is None:
        raise Ended(1, f"the decision of {turn.id} cannot be read")
    if arguments.json:
        print_json(decision)
        return 0
    try:
        print_explanation(_as_served(decision, turn))
        print("\n".join(write_cost(decision)))
    except KeyError as error:
        problem = f"has no {error}: it was written by another version"
        raise Ended(1, f"the decision of {turn.id} {problem}\n  hint: --json prints it unchanged") from error
    except (TypeError, ValueError, AttributeError, ArithmeticError):
        problem = "cannot be read: it was edited or damaged"
        raise Ended(1, f"the decision of {turn.id} {problem}\n  hint: --json prints it unchanged") from None
    print(f"request     {turn.id}, {_say_end(decision, turn)}")
    return 0


def _as_served(decision: JsonObject, turn: RecordedTurn) -> JsonObject:
    """The decision with the tier that served and the whole reason: a turn may have spilled over to the other one."""
    if decision.get("outcome") != Outcome.SERVED or turn.tier is None:
        return decision
    return {**decision, "tier": str(turn.tier), "because": turn.because or decision["because"]}


def _say_end(decision: JsonObject, turn: RecordedTurn) -> str:
    """Who served it, or how it ended if nobody did."""
    outcome = str(decision.get("outcome") or Outcome.SERVED)
    if outcome == Outcome.SERVED and turn.target is not None:
        return f"served by {turn.target}"
    ended = outcome.lower().replace("_", " ")
    where = f" at {turn.target}" if turn.target is not None else ""
    is_begun = outcome not in (Outcome.FAILED, Outcome.REFUSED) and turn.target is not None
    return f"{ended}{where}" if is_begun else f"{ended}{where}: no target served it"
