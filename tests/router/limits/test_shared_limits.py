"""The rates of callers that several routers share."""

import pytest

from router.contract.caller import LOCAL
from router.contract.errors import RateLimited, StoreUnavailable
from router.contract.facts import AttemptOpened
from router.contract.rights import Rights
from router.limits.shared_limits import SharedRates
from tests.tools.allowances import Pool
from tests.tools.exchanges import make_decided, make_decision, make_exchange
from tests.tools.scripted import HandClock
from tests.tools.values import make_target, make_view

FIVE = Rights(requests_per_minute=5)


async def send(rates, rights=FIVE):
    """One request, counted as a router that shares limits counts it."""
    exchange = make_exchange()
    decided = make_decided(make_view({"messages": [{"role": "user", "content": "hi"}]}), make_decision(prompt_tokens=10))
    await rates.reach(exchange, decided, rights)
    with rates.hold(exchange, decided, rights):
        exchange.note(AttemptOpened(0.0, make_target(), "", ()))


async def test_as_many_are_served_as_all_routers_together_allow_and_then_one_is_told_when_to_come_again():
    pool, clock = Pool(5), HandClock()
    one, other = SharedRates(pool, clock), SharedRates(Pool(0), clock)
    for _ in range(5):
        await send(one)

    with pytest.raises(RateLimited, match="quota of 5 requests a minute"):
        await send(one)
    with pytest.raises(RateLimited, match="quota of 5 requests a minute"):
        await send(other)
    assert pool.left == 0


async def test_a_caller_who_has_no_limit_asks_nobody():
    pool = Pool(5)

    await send(SharedRates(pool, HandClock()), Rights())

    assert pool.asked == []


async def test_while_nobody_can_be_asked_and_the_own_part_is_used_up_it_is_the_store_that_is_away_and_not_the_caller_that_is_over():
    pool = Pool(600)
    rates = SharedRates(pool, HandClock())
    await send(rates)
    pool.is_blind = True
    own = pool.parts["caller", LOCAL.name, "requests_per_minute"].allowed
    for _ in range(own - 1):
        await send(rates)

    with pytest.raises(StoreUnavailable, match="the store that the routers share cannot be used") as refused:
        await send(rates)
    assert refused.value.retry_after_seconds == 2.0
    rates.turn_away({LOCAL.name: FIVE}, LOCAL)  # its request is read, and then it is told why


async def test_a_minute_that_is_used_up_is_refused_before_a_request_is_read():
    pool = Pool(1)
    rates = SharedRates(pool, HandClock())
    await send(rates)

    with pytest.raises(RateLimited):
        rates.turn_away({LOCAL.name: FIVE}, LOCAL)
