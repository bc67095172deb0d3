"""The limits of callers, asked before a target is called."""

from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from router.callers.guard import GuardedDispatcher
from router.contract.caller import Caller
from router.contract.errors import BudgetSpent, RateLimited, UpstreamCut
from router.contract.rights import Rights
from router.contract.words import Outcome
from router.dispatch.live.statistics import LiveStatistics
from router.limits.limit import CallerLimit
from tests.tools.exchanges import RecordingSink, make_decided, make_exchange
from tests.tools.scripted import HandClock, answers, fails, reach
from tests.tools.values import ask, make_target


class Counting(CallerLimit):
    """Counts what is held, and refuses where a test says so."""

    def __init__(self, refusal=None, told=()):
        self.refusal, self.told, self.held, self.most = refusal, told, 0, 0

    @contextmanager
    def hold(self, exchange, decided, rights):
        if self.refusal is not None:
            raise self.refusal
        self.held += 1
        self.most = max(self.most, self.held)
        try:
            yield self.told
        finally:
            self.held -= 1


def send(spark, *limits, caller="ada", sink=None):
    guarded = GuardedDispatcher(
        {"spark": spark}, max_response_bytes=1 << 20, clock=HandClock(), rights={"ada": Rights(in_flight=1)}, limits=limits
    )
    decided = make_decided(replace(ask(), caller=Caller(caller)))
    return guarded.send(make_exchange(), decided, sink or RecordingSink(), LiveStatistics())


async def test_every_limit_is_held_while_a_target_is_called_and_then_given_back():
    one, other, sink = Counting(), Counting(told=(("x-tandem-budget", "0.82"),)), RecordingSink()

    ending = await send(reach(make_target()), one, other, sink=sink)

    assert ending.outcome is Outcome.SERVED
    assert (one.most, one.held, other.most, other.held) == (1, 0, 1, 0)
    assert ("x-tandem-budget", "0.82") in sink.headers


async def test_where_a_limit_refuses_nobody_is_called_and_the_others_are_given_back():
    spark, first = reach(make_target(), fails(AssertionError("called"))), Counting()

    with pytest.raises(RateLimited):
        await send(spark, first, Counting(RateLimited("too many")))

    assert (first.most, first.held) == (1, 0)


async def test_a_caller_without_limits_is_not_counted():
    limit = Counting()

    await send(reach(make_target()), limit, caller="bob")

    assert limit.most == 0


class OfAttempts(Counting):
    """Allows no further attempt."""

    def allow_another(self, exchange, target):
        raise BudgetSpent(f"nothing is left for {target.name}")


async def test_a_limit_of_attempts_is_asked_before_each_further_one():
    limit, spark = OfAttempts(), reach(make_target(), fails(UpstreamCut("spark", "cut")), answers())

    with pytest.raises(BudgetSpent, match="nothing is left for spark"):
        await send(spark, limit)

    assert len(spark.adapter.opened) == 1
    assert limit.held == 0


class Asked(CallerLimit):
    """A limit that writes down what is asked of it, and in which order."""

    def __init__(self) -> None:
        self.said: list[str] = []

    async def reach(self, exchange, decided, rights):
        self.said.append("reach")

    async def reach_another(self, exchange, target):
        self.said.append(f"reach another at {target.name}")

    def allow_another(self, exchange, target):
        self.said.append(f"allow another at {target.name}")

    @contextmanager
    def hold(self, exchange, decided, rights):
        self.said.append("hold")
        yield (("x-tandem-budget", "0.82"),)
        self.said.append("give back")


async def test_what_a_request_or_a_further_attempt_takes_is_asked_for_before_it_is_taken():
    limit, sink = Asked(), RecordingSink()

    await send(reach(make_target(), fails(UpstreamCut("spark", "cut")), answers()), limit, sink=sink)

    assert limit.said == ["reach", "hold", "reach another at spark", "allow another at spark", "give back"]
    assert ("x-tandem-budget", "0.82") in sink.headers
