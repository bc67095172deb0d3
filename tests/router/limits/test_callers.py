"""What the dispatcher asks before every attempt."""

import pytest

from router.contract.caller import LOCAL, Caller
from router.contract.errors import BudgetSpent, NotPermitted, RateLimited, Unauthorized, UpstreamCut
from router.contract.rights import EVERYTHING, Rights
from router.contract.target import Price
from router.contract.words import Outcome, PassedRoute, Tier
from router.dispatch.live.statistics import LiveStatistics
from router.limits.budgets import Budgets, Terms
from router.limits.callers import NO_LIMITS, CallerLimits, check_rights
from router.limits.rates import CallerRates
from tests.tools.exchanges import RecordingSink, make_decided, make_decision, make_exchange
from tests.tools.scripted import HandClock, dispatcher_of, fails, reach
from tests.tools.values import ask, make_signals, make_target, stand

PRICE = Price(input=1.0, output=10.0)
SPARK, SAGE = make_target(price=PRICE), make_target("sage", Tier.DEEP, price=PRICE)
FAST_ONLY = Rights(tiers=frozenset({Tier.FAST}))
EMBEDDINGS = PassedRoute.EMBEDDINGS
KEPT = [PassedRoute.FILES, PassedRoute.BATCHES, PassedRoute.VECTOR_STORES, PassedRoute.FINE_TUNING, PassedRoute.UPLOADS]


@pytest.mark.parametrize("rights", [Rights(), EVERYTHING, FAST_ONLY, Rights(requests_per_minute=1)])
def test_a_route_that_is_passed_on_is_for_keys_of_its_targets_tier(rights):
    check_rights(rights, SPARK, EMBEDDINGS)


def test_a_route_that_is_passed_on_is_not_for_keys_of_another_tier():
    with pytest.raises(NotPermitted, match=r"embeddings goes to a deep target here, and this key is for fast only .tiers."):
        check_rights(FAST_ONLY, SAGE, EMBEDDINGS)


@pytest.mark.parametrize("budget", ["daily_usd", "monthly_usd"])
def test_a_key_with_a_budget_may_not_since_the_cost_is_not_known(budget):
    with pytest.raises(NotPermitted, match=f"costs is not known, and this key has a budget .{budget}."):
        check_rights(Rights(**{budget: 5.0}), SPARK, EMBEDDINGS)


@pytest.mark.parametrize("route", KEPT)
def test_what_a_provider_keeps_for_all_callers_of_a_target_is_for_admins(route):
    with pytest.raises(NotPermitted, match=f"{route} shows what every caller keeps at spark, so .* the right admin"):
        check_rights(Rights(), SPARK, route)

    check_rights(EVERYTHING, SPARK, route)
    check_rights(Rights(), make_target(takes_callers_key=True), route)


class Desk:
    """A dispatcher whose caller has these rights."""

    def __init__(self, rights, spent=0):
        self.rights, self.clock, self.sink = rights, HandClock(), RecordingSink()
        budgets = Budgets(lambda span: {LOCAL.name: spent}, lambda: 1_000_000.0)
        budgets.follow(Terms({LOCAL.name: rights}))
        self.limits = CallerLimits({LOCAL.name: rights}, CallerRates(self.clock), budgets)

    async def send(self, *reached, spill=(), live=None, **body):
        reached = {each.target.name: each for each in reached}
        dispatcher = dispatcher_of(*reached.values(), clock=self.clock, limits=self.limits)
        names = [name for name in reached if name not in spill]
        signals = make_signals(*(stand(each.target) for each in reached.values()), tokens=100_000)
        decision = make_decision(targets=tuple(names), spill=tuple(spill), signals=signals, prompt_tokens=100_000)
        decided = make_decided(ask(**(body or {"max_tokens": 10_000})), decision)
        return await dispatcher.send(make_exchange(), decided, self.sink, live or LiveStatistics())

    @property
    def used(self):
        return {name: limit["used"] for name, limit in self.limits.rates.show(LOCAL, self.rights).items()}


async def test_every_limit_is_held_while_a_target_is_called_and_then_settled():
    desk = Desk(Rights(requests_per_minute=5, in_flight=1, daily_usd=10.0), spent=850_000_000)

    ending = await desk.send(reach(SPARK))

    assert ending.outcome is Outcome.SERVED
    assert ("x-tandem-budget", "0.85; left_usd=1.5000; period=day") in desk.sink.headers
    assert desk.used == {"requests_per_minute": 1, "in_flight": 0}
    assert desk.limits.budgets.picture(LOCAL.name)["day"]["held_usd"] == 0


async def test_where_a_limit_refuses_nobody_is_called_the_other_tier_neither_and_nothing_stays_held():
    desk, spark, sage = Desk(Rights(requests_per_minute=5, daily_usd=0.01)), reach(SPARK), reach(SAGE)

    with pytest.raises(BudgetSpent):
        await desk.send(spark, sage, spill=("sage",))

    assert (spark.adapter.opened, sage.adapter.opened) == ([], [])
    assert desk.used == {"requests_per_minute": 0}


async def test_a_further_attempt_is_asked_for_and_not_made_without_room():
    dear = make_target("sage", Tier.DEEP, price=Price(input=1.0, output=1_000.0))
    desk, sage, cut = Desk(Rights(daily_usd=0.25)), reach(dear), reach(SPARK, fails(UpstreamCut("spark", "cut")))

    with pytest.raises(BudgetSpent, match="sage is not tried: this request needs"):
        await desk.send(cut, sage, spill=("sage",))

    assert (len(cut.adapter.opened), sage.adapter.opened) == (1, [])


async def test_a_cap_fits_in_the_window_that_the_target_named():
    live, spark = LiveStatistics(), reach(SPARK)
    live.of(SPARK).window.tell(101_000, 0.0)
    live.windows = {"spark": 101_000}

    await Desk(Rights(daily_usd=50.0)).send(spark, live=live, temperature=1)

    assert spark.adapter.bodies[0]["max_tokens"] == 1_000


async def test_a_key_for_one_tier_is_not_sent_to_the_other_by_whatever_decision():
    sage = reach(SAGE)

    with pytest.raises(NotPermitted, match="this request would go to a deep target here, and this key is for fast only"):
        await Desk(FAST_ONLY).send(reach(SPARK, fails(UpstreamCut("spark", "cut"))), sage, spill=("sage",))

    assert sage.adapter.opened == []


def test_a_caller_without_limits_is_not_asked_about():
    limits = CallerLimits({"ada": Rights(in_flight=1), "bob": Rights()}, CallerRates(), Budgets())
    exchange = make_exchange()
    exchange.caller = Caller("bob")

    assert limits.open(exchange, make_decided()) is None
    assert limits.is_on
    assert not limits.has_rates
    assert not NO_LIMITS.is_on
    assert not CallerLimits({"bob": Rights()}, CallerRates(), Budgets()).is_on


async def test_a_caller_that_is_not_in_the_key_file_reaches_no_target():
    desk, spark = Desk(Rights(requests_per_minute=1)), reach(SPARK)
    desk.limits = CallerLimits({"bob": Rights(requests_per_minute=1)}, CallerRates(), Budgets())

    with pytest.raises(Unauthorized):
        await desk.send(spark)

    assert spark.adapter.opened == []
    with pytest.raises(Unauthorized):
        await desk.limits.open_passed(make_exchange(), PassedRoute.FILES).admit(SPARK)


async def test_a_route_that_is_passed_on_is_a_request():
    limits = CallerLimits({LOCAL.name: Rights(requests_per_minute=1)}, CallerRates(), Budgets())
    (first, second) = (limits.open_passed(make_exchange(), EMBEDDINGS) for _ in range(2))
    await first.admit(SPARK)

    with pytest.raises(RateLimited):
        await second.admit(SPARK)

    first.settle()
    await second.admit(SPARK)  # nobody was called for the first
