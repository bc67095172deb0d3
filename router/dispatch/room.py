"""Before a call to a target that is known to serve few calls at once: who gives way, and who had better go elsewhere."""

import asyncio
import math
from collections.abc import Callable

from router.contract.decision import Decision
from router.contract.errors import TiersBusy
from router.contract.exchange import saying_why
from router.contract.request import RequestView
from router.contract.target import Target
from router.contract.words import Operation, TurnKind
from router.dialects.table import SPECS
from router.dispatch.context import DispatchContext
from router.dispatch.live.statistics import LiveStatistics
from router.dispatch.queues.queue import SIDE_WAIT_SECONDS


def is_side_request(decision: Decision, view: RequestView) -> bool:
    """Whether a client sends a request in addition to the person's turn. Completions as one types belong to no turn."""
    is_conversation = view.operation is Operation.CREATE and SPECS[view.dialect].is_conversation
    return is_conversation and decision.turn.kind is TurnKind.SIDE


async def find_room(
    context: DispatchContext,
    view: RequestView,
    target: Target,
    live: LiveStatistics,
    worth_waiting: Callable[[Decision], float],
) -> None:
    """Let a session's turn go first into the last slot, and raise `TiersBusy` where another target is sooner done.

    The decision has weighed that already, but requests that are decided in one moment do not know of each other.
    """
    decision, exchange, clock = context.decision, context.exchange, context.clock
    if target.in_flight is None and is_side_request(decision, view) and live.has_last_slot(target, clock()):
        if context.first_call_at is None:
            context.first_call_at = clock()  # what follows is a wait, and not our own time
        with saying_why(exchange):
            await asyncio.sleep(min(SIDE_WAIT_SECONDS, exchange.deadline.left(clock())))
    wait = live.wait_for_slot(target, clock())
    if wait > worth_waiting(decision):
        raise TiersBusy(f"{target.name} would keep you waiting {math.ceil(wait)} s", retry_after_seconds=wait)
