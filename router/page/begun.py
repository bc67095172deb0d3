"""Requests under way, as the live feed shows them."""

import time
from collections.abc import Callable

from router.contract.exchange import Exchange
from router.contract.facts import AttemptOpened, Decided, PassedOn
from router.contract.request import JsonObject


def has_begun(exchange: Exchange) -> bool:
    """Whether its target is known, so that it can be shown."""
    return target_of(exchange) is not None or exchange.last(Decided) is not None or exchange.last(PassedOn) is not None


def show_begun(exchange: Exchange, clock: Callable[[], float]) -> JsonObject:
    """On the monotonic `clock`."""
    decided, opened, passed = exchange.last(Decided), exchange.last(AttemptOpened), exchange.last(PassedOn)
    turn = decided.decision.turn if decided is not None else None
    tier = opened.target.tier if opened is not None else decided.decision.tier if decided is not None else None
    because = decided.decision.because if decided is not None else passed.because if passed is not None else None
    return {
        "id": exchange.id,
        "at": time.time() - (clock() - exchange.began),
        "caller": exchange.caller.name,
        "session": turn.session if turn is not None else None,
        "turn_kind": str(turn.kind) if turn is not None else None,
        "client": turn.client if turn is not None else None,
        "tier": str(tier) if tier is not None else None,
        "target": target_of(exchange),
        "because": because,
        "job": exchange.arrival.job,
    }


def target_of(exchange: Exchange) -> str | None:
    """The target being called, or about to be."""
    if (opened := exchange.last(AttemptOpened)) is not None:
        return opened.target.name
    decided = exchange.last(Decided)
    return decided.decision.targets[0] if decided is not None and decided.decision.targets else None
