"""What would be decided with another prompt length."""

from math import inf

from msgspec.structs import replace

from router.contract.errors import TandemError
from router.contract.request import RequestView
from router.contract.signals import Signals, TokenCount
from router.decide.choose import choose
from router.decide.opinions import Rules, collect

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
