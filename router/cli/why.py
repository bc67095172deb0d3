"""`tandem why`."""

import argparse
import time

import msgspec

from router.cli import Ended
from router.cli.common import print_json
from router.cli.figures import UNKNOWN, count, duration, money
from router.cli.past.explanation import LATELY_SECONDS, print_explanation
from router.cli.past.looking import add_past_arguments, open_past
from router.cli.past.sources import PastTurn
from router.contract.entry import PLAN, Attempt
from router.contract.request import Json, JsonObject
from router.contract.words import Outcome

EXAMPLES = ("why", "why req_01J9 --json", "why --url https://tandem.example:4000 --key-env TANDEM_KEY")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_past_arguments(parser)
    parser.add_argument("request", nargs="?", metavar="REQUEST", help="a request's id (default: the last turn)")
    parser.add_argument("--json", action="store_true", help="print JSON: the decision")


def run(arguments: argparse.Namespace) -> int:
    past = open_past(arguments)
    turn = past.find_turn(arguments.request)
    decision = turn.decision
    if decision is None:
        raise Ended(1, f"the decision of {turn.id} cannot be read")
    if arguments.json:
        print_json(decision)
        return 0
    redone = past.read_redone(time.time() - LATELY_SECONDS) if decision.get("redo") else None
    try:
        print_explanation(_as_served(decision, turn), redone)
        print("\n".join(write_cost(decision)))
    except KeyError as error:
        problem = f"has no {error}: it was written by another version"
        raise Ended(1, f"the decision of {turn.id} {problem}\n  hint: --json prints it unchanged") from error
    except (TypeError, ValueError, AttributeError, ArithmeticError):
        problem = "cannot be read: it was edited or damaged"
        raise Ended(1, f"the decision of {turn.id} {problem}\n  hint: --json prints it unchanged") from None
    print(f"request     {turn.id}, {_say_end(decision, turn)}")
    return 0


def _as_served(decision: JsonObject, turn: PastTurn) -> JsonObject:
    """The decision with the tier that served, since a turn may spill over, and the whole reason."""
    if decision.get("outcome") != Outcome.SERVED or turn.tier is None:
        return decision
    return {**decision, "tier": str(turn.tier), "because": turn.because or decision["because"]}


def _say_end(decision: JsonObject, turn: PastTurn) -> str:
    """The target that served it, or how it ended."""
    outcome = str(decision.get("outcome") or Outcome.SERVED)
    if outcome == Outcome.SERVED and turn.target is not None:
        return f"served by {turn.target}"
    ended = outcome.lower().replace("_", " ")
    where = f" at {turn.target}" if turn.target is not None else ""
    is_begun = outcome not in (Outcome.FAILED, Outcome.REFUSED) and turn.target is not None
    return f"{ended}{where}" if is_begun else f"{ended}{where}: no target served it"


def write_cost(decision: JsonObject) -> list[str]:
    """The amount paid, by attempt if there were several or the only one failed."""
    attempts, cost = _read_attempts(decision.get("attempts")), decision.get("cost_usd")
    paid = money(cost) if isinstance(cost, (int, float)) else _say_unknown(attempts)
    lines = [f"cost        {paid}{_say_plan(attempts)}"]
    if len(attempts) > 1 or any(attempt.error for attempt in attempts):
        lines.append("attempts")
        lines += [f"  {attempt.target}: {', '.join(_attempt_parts(attempt))}" for attempt in attempts]
    return lines


def _read_attempts(attempts: Json) -> list[Attempt]:
    """Attempts from any version; empty if Tandem did not write them."""
    try:
        return msgspec.convert(attempts, list[Attempt])
    except msgspec.ValidationError:
        return []


def _say_plan(attempts: list[Attempt]) -> str:
    """What a plan paid for, and its value at list price."""
    own = [attempt for attempt in attempts if attempt.billing == PLAN]
    listed = sum(attempt.list_usd or 0.0 for attempt in own)
    worth = f", worth {money(listed)} at list price" if listed else ""
    return f"; your plan pays for {', '.join(dict.fromkeys(attempt.target for attempt in own))}{worth}" if own else ""


def _say_unknown(attempts: list[Attempt]) -> str:
    """Why the sum is unknown, and its known part."""
    unpriced = sorted({attempt.target for attempt in attempts if attempt.cost_usd is None and attempt.usage is not None})
    if not unpriced:
        return "unknown"
    known = sum(attempt.cost_usd or 0.0 for attempt in attempts)
    return f"{f'at least {money(known)}' if known else 'unknown'}: no price is configured for {', '.join(unpriced)}"


def _attempt_parts(attempt: Attempt) -> list[str]:
    parts = [attempt.error or "served"]
    if attempt.is_question:
        asked = "look" if attempt.is_look else "question"
        parts[0] = f"{asked}, {attempt.error}" if attempt.error else asked
    if attempt.status is not None and attempt.error is not None:
        parts[0] += f" ({attempt.status})"
    parts.append(duration(attempt.seconds))
    if (usage := attempt.usage) is not None:
        estimated = ", estimated" if usage.is_estimated else ""
        parts.append(f"{count(usage.input_tokens)} tokens in, {count(usage.output_tokens)} out{estimated}")
    cost = money(attempt.cost_usd)
    return parts if cost == UNKNOWN else [*parts, cost]
