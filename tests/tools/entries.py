"""Entries of a ledger, as if requests had been served."""

import time

from router.contract.entry import Attempt
from router.contract.exchange import Arrival, Deadline, Exchange
from router.contract.facts import AttemptEnded, AttemptOpened, Decided, Ending, Read, Settled
from router.contract.usage import Usage
from router.contract.words import Operation, Outcome
from router.house import House
from router.settle.entry import write_entry
from tests.tools.exchanges import Told


def keep_entry(
    house: House,
    decided: Decided,
    *,
    outcome: Outcome,
    tier: str | None = None,
    keeps_text: bool = False,
    output_tokens: int | None = None,
) -> None:
    """Record that one of the simulated targets served a request: the decision's own, or that of another tier.

    Its answer had so many tokens; None for an answer that nobody counted.
    """
    view, decision = decided.view, decided.decision
    target = house.plan.targets[f"simulated-{tier or decision.tier}"]
    arrival = Arrival(view.id, view.dialect, Operation.CREATE, view.headers, view.raw, view.caller)
    exchange = Exchange(arrival, 0.0, Deadline(600.0), Told())
    usage = Usage(100, output_tokens) if output_tokens is not None else None
    for fact in (
        Read(view),
        decided,
        AttemptOpened(0.1, target, "", ()),
        AttemptEnded(0.2, target, Attempt(target.name, 200, None, 0.1), None, usage, None),
    ):
        exchange.note(fact)
    settled = Settled(0.2, Ending(outcome, 200), b"" if keeps_text else None)
    house.state.entries.append(write_entry(exchange, settled, time.time()))
