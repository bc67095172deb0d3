"""What would be decided with another prompt length, or with free quotas."""

from math import inf

from msgspec.structs import replace

from router.contract.errors import TandemError
from router.contract.facts import Decided
from router.contract.request import RequestView
from router.contract.signals import Signals, TokenCount
from router.decide.choose import choose
from router.decide.estimate import worth_waiting
from router.decide.opinions import OBJECTIONS, Rules, collect, with_lean

_COUNT_SECONDS = 0.02
"""Recounting a grown conversation takes 1 to 10 ms. A first count of 500 KB takes 50 to 100: it serves the next request."""


def worth_of_a_count(rules: Rules, request: RequestView, signals: Signals, *, is_awaited: bool = True) -> float:
    """Seconds to wait for an exact count: 0 if both ends of the estimate's band decide alike. No limit without a caller.

    Policies read the count, so they judge both ends. If one would be refused, wait: an estimate never refuses a request.
    """
    ends = [replace(signals, prompt=TokenCount(end, end, end)) for end in (signals.prompt.low, signals.prompt.high)]
    try:
        low, high = (choose(rules, request, end, collect(rules, request, end), says_way_back=False) for end in ends)
    except TandemError:
        return inf
    if low.tier is high.tier and low.targets[:1] == high.targets[:1]:
        return 0.0
    return _COUNT_SECONDS if is_awaited else inf


def foresee(rules: Rules, decided: Decided, may_wait: bool = True) -> Decided:
    """Add what dispatch needs to queue requests, where any may have to wait."""
    if not may_wait:
        return decided
    worth = worth_waiting(decided.decision)
    return replace(decided, worth_waiting_seconds=worth, missed=_find_missed(rules, decided))


def _find_missed(rules: Rules, decided: Decided) -> str:
    """The target that would be chosen with free quotas. Policies read waits, so they judge again."""
    signals, chosen = decided.decision.signals, decided.decision.targets[0]
    limited = {name: status for name, status in signals.statuses.items() if status.target.quota is not None}
    full = {name for name, status in limited.items() if name != chosen and (status.wait_seconds or status.closed_seconds)}
    if not full:
        return ""
    opened = {name: replace(status, wait_seconds=0.0, closed_seconds=0.0) for name, status in limited.items()}
    signals = replace(signals, statuses={**signals.statuses, **opened})
    opinions = collect(rules, decided.view, signals)
    for policy, lean in decided.opinions.leans:
        if policy == OBJECTIONS:
            opinions = with_lean(opinions, policy, lean)
    try:
        target = choose(rules, decided.view, signals, opinions).targets[0]
    except TandemError:
        return ""
    return target if target in full else ""
