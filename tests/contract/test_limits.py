"""What every limit does, of a router that is alone and of routers that share it, whatever their store does with its answers."""

import asyncio

import pytest

from router.contract.caller import LOCAL, SessionKey
from router.contract.errors import BudgetSpent, RateLimited, StoreUnavailable, TandemError, TiersBusy
from router.contract.facts import AttemptOpened
from router.contract.rights import Rights
from router.contract.shared import OnStoreOutage
from router.contract.target import Price, Quota
from router.limits.budgets import Budgets, Terms
from router.limits.queue import TargetQueue
from router.limits.rates import CallerRates
from router.limits.whole import ALONE
from tests.router.limits.spending import decided_for, ended
from tests.tools.allowances import Pool
from tests.tools.scripted import HandClock
from tests.tools.values import make_target
from tests.tools.waiting import at_once, some_turns, until

SPARK = make_target(price=Price(input=1.0, output=0.0))
DIME = decided_for(SPARK, prompt_tokens=100_000, max_tokens=10_000)
OPENED = AttemptOpened(0.0, SPARK, "", ())
POOLS = {
    "memory": {},
    "late": {"late_seconds": 0.02},
    "out of order": {"reverses": True},
    "twice": {"wakes_twice": True},
    "late, out of order and twice": {"late_seconds": 0.01, "reverses": True, "wakes_twice": True},
}


class Rate:
    """Five requests a minute, of enough tokens."""

    refusal = RateLimited

    def __init__(self, allowance) -> None:
        self._rates = CallerRates(HandClock(), allowance)

    async def hold(self):
        return await self._rates.hold("ada", Rights(requests_per_minute=5, tokens_per_minute=1_000_000, in_flight=5), DIME)


class Money:
    """A budget for five requests, each of which costs a dime."""

    refusal = BudgetSpent

    rights = Rights(daily_usd=0.5, monthly_usd=0.5)

    def __init__(self, allowance) -> None:
        self._budgets = Budgets(None, lambda: 1_800_000_000.0, allowance)
        self._budgets.follow(Terms({"ada": self.rights}))

    async def hold(self):
        return await self._budgets.hold("ada", self.rights, DIME, SPARK)


class TargetQuota:
    """Five calls at once. A queue waits as long as its caller wants to: here, until the store has answered."""

    refusal = TiersBusy

    def __init__(self, allowance) -> None:
        self._queue = TargetQueue(
            "spark", Quota(requests_per_minute=5, in_flight=5), asyncio.get_running_loop().time, allowance
        )

    async def hold(self):
        waiter = self._queue.hold(SessionKey(LOCAL, "s"), 0)
        if waiter.permit is not None:
            return waiter.permit
        await asyncio.wait((waiter.let_in,), timeout=0.3)
        if waiter.permit is not None:
            return waiter.permit
        expected = self._queue.look(waiter, asyncio.get_running_loop().time())
        self._queue.leave(waiter)
        raise TiersBusy(expected.because, retry_after_seconds=expected.seconds)


KINDS = [Rate, Money, TargetQuota]


@pytest.fixture(params=["alone", *POOLS, pytest.param("valkey", marks=pytest.mark.stores)])
async def join(request):
    """Makes the allowance of one more router that shares the limits; a router alone has none to share with."""
    if request.param == "valkey":
        pytest.importorskip("hiredis")
        from router.stores.valkey.allowance import ValkeyAllowance
        from router.stores.valkey.link import Link

        server, links = request.getfixturevalue("valkey"), []
        terms = server.terms()
        server.send("HSET", f"{terms.prefix}:a:#routers", "#epoch", "1", "#told", "1")

        async def connect():
            links.append(link := Link(terms))
            allowance = ValkeyAllowance(link, OnStoreOutage.SHARE, f"router-{len(links)}", lambda: f"ledger-{len(links)}")
            await link.open()
            allowance.begin()
            await until(lambda: not allowance.is_blind)
            return allowance

        yield connect
        for link in links:
            await link.close()
        return
    pool = Pool(**POOLS[request.param]) if request.param in POOLS else None

    async def take_part():
        return ALONE if pool is None else pool

    yield take_part


@pytest.mark.parametrize("kind", KINDS)
async def test_as_much_is_held_as_the_limit_says_and_then_a_refusal_says_why_and_when(join, kind):
    limit = kind(await join())

    held = [await limit.hold() for _ in range(5)]

    with pytest.raises(kind.refusal) as refused:
        await limit.hold()
    assert len(refused.value.message) > 10
    assert refused.value.retry_after_seconds > 0
    assert all(reservation.is_open for reservation in held)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_released_is_free_again_once(join, kind):
    limit = kind(await join())
    held = [await limit.hold() for _ in range(5)]

    for _ in range(2):
        held[0].release(0.0)
        held[0].settle([OPENED, ended(SPARK, 0.1)], 0.0)
    await limit.hold()

    with pytest.raises(kind.refusal):
        await limit.hold()


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_settled_is_used_and_counts_once(join, kind):
    limit = kind(await join())
    for _ in range(5):
        reservation = await limit.hold()
        for _ in range(2):
            reservation.settle([OPENED, ended(SPARK, 0.1)], 0.0)

    with pytest.raises(kind.refusal):
        await limit.hold()


@pytest.mark.parametrize("kind", KINDS)
async def test_all_that_share_a_limit_have_it_once_together(join, kind):
    allowances = [await join(), await join()]
    limits = [kind(each) for each in allowances] if allowances[0] is not ALONE else [kind(ALONE)]

    async def take(limit) -> int:
        """As much as there is. Another router may give some back, so that it is asked for more than once."""
        taken = 0
        for _ in range(8):
            try:
                await limit.hold()
                taken += 1
            except TandemError:
                await some_turns()
        return taken

    taken = await asyncio.gather(*map(take, limits))

    assert 0 < sum(taken) <= 5


@pytest.mark.parametrize("kind", [Rate, Money])
def test_a_router_alone_waits_for_nobody(kind):
    """No task is switched, whether there is room or not."""
    limit = kind(ALONE)
    for _ in range(5):
        at_once(limit.hold())

    with pytest.raises(kind.refusal):
        at_once(limit.hold())


@pytest.mark.parametrize("kind", [Rate, Money])
async def test_while_the_store_does_not_answer_the_own_part_is_used_and_then_nobody_knows(kind):
    pool = Pool()
    limit = kind(pool)
    first, *_ = [await limit.hold() for _ in range(2)]
    pool.is_blind = True

    async def use_up() -> None:
        for _ in range(3):
            await limit.hold()

    with pytest.raises(StoreUnavailable, match="is not known: the store that the routers share cannot be used") as refused:
        await use_up()

    assert refused.value.retry_after_seconds == 2.0
    first.release(0.0)
    await limit.hold()
