"""What a caller may use in a minute, and at once."""

import contextlib

import pytest

from router.contract.caller import LOCAL, Caller
from router.contract.entry import Attempt
from router.contract.errors import RateLimited
from router.contract.facts import AttemptEnded, AttemptOpened
from router.contract.rights import Rights
from router.contract.usage import Usage
from router.contract.words import Operation
from router.limits.rates import CallerRates
from tests.tools.allowances import Pool
from tests.tools.exchanges import make_decided, make_decision
from tests.tools.scripted import HandClock
from tests.tools.values import make_target, make_view

SPARK = make_target()


class Bench:
    """Rates with a clock that a test moves, and requests of one caller."""

    def __init__(self, **limits) -> None:
        self.clock, self.rights = HandClock(), Rights(**limits)
        self.rates = CallerRates(self.clock)

    @contextlib.asynccontextmanager
    async def request(
        self, tokens: int = 100, usage: Usage | None = None, *, is_called: bool = True, operation=Operation.CREATE
    ):
        view = make_view({"messages": [{"role": "user", "content": "hello"}]}, operation=operation)
        counted = await self.rates.hold(LOCAL.name, self.rights, make_decided(view, make_decision(prompt_tokens=tokens)))
        facts = [AttemptOpened(self.clock(), SPARK, "", ())] if is_called else []
        try:
            yield
            if is_called:
                facts.append(ended(usage))
        finally:
            if counted is not None:
                counted.settle(facts, self.clock())

    async def send(self, *given, **more) -> None:
        async with self.request(*given, **more):
            pass

    def check(self, rights=None, caller=LOCAL) -> None:
        self.rates.check(caller.name, self.rights if rights is None else rights)

    @property
    def shown(self):
        return {name: limit["used"] for name, limit in self.rates.show(LOCAL, self.rights).items()}


def ended(usage):
    return AttemptEnded(0.0, SPARK, Attempt("spark", 200, None, 0.1, usage), None, usage, None)


async def test_over_its_requests_a_caller_is_told_when_the_oldest_is_a_minute_old():
    bench = Bench(requests_per_minute=2)
    await bench.send()
    bench.clock.now += 10
    await bench.send()
    bench.clock.now += 5

    with pytest.raises(RateLimited, match="quota of 2 requests a minute. Try again in 45 s") as refused:
        await bench.send()

    assert refused.value.retry_after_seconds == 45
    bench.clock.now += 45
    await bench.send()
    with pytest.raises(RateLimited, match="in 10 s"):
        await bench.send()


async def test_a_caller_is_told_what_it_has_left_with_the_request_and_when_all_of_it_is_back():
    bench = Bench(requests_per_minute=2, tokens_per_minute=10_000, in_flight=1)
    await bench.send(tokens=100, usage=Usage(100, 50))
    bench.clock.now += 10
    counted = await bench.rates.hold(LOCAL.name, bench.rights, None)

    told = counted.left
    counted.settle([], bench.clock())

    assert told == (("requests", 2, 0, 60.0), ("tokens", 10_000, 9_850, 50.0))
    assert (await bench.rates.hold("other", Rights(in_flight=1), None)).left == ()


async def test_a_refusal_tells_what_is_left():
    bench = Bench(requests_per_minute=1)
    await bench.send()
    bench.clock.now += 5

    with pytest.raises(RateLimited) as refused:
        await bench.send()
    with pytest.raises(RateLimited) as refused_early:
        bench.check()

    assert refused.value.left == refused_early.value.left == (("requests", 1, 0, 55.0),)


async def test_a_refused_request_is_not_counted():
    bench = Bench(requests_per_minute=1)
    await bench.send()
    bench.clock.now += 59
    for _ in range(5):
        with pytest.raises(RateLimited):
            await bench.send()
    bench.clock.now += 1

    await bench.send()


async def test_an_answer_that_was_longer_than_expected_is_paid_for_by_the_next_request():
    bench = Bench(tokens_per_minute=1_000)
    await bench.send(100, Usage(100, 5_000))

    with pytest.raises(RateLimited, match="quota of 1,000 tokens a minute. Try again in 60 s"):
        await bench.send(1)


async def test_a_request_that_no_minute_could_hold_is_served_in_an_empty_one():
    bench = Bench(tokens_per_minute=1_000)

    await bench.send(50_000, Usage(50_000, 10))

    with pytest.raises(RateLimited):
        await bench.send(1)


async def test_an_attempt_that_nobody_bills_takes_no_tokens_and_is_a_request_all_the_same():
    bench = Bench(requests_per_minute=9, tokens_per_minute=1_000)

    await bench.send(300, None)

    assert bench.shown == {"requests_per_minute": 1, "tokens_per_minute": 0}


async def test_the_tokens_of_every_attempt_count():
    bench = Bench(tokens_per_minute=1_000)
    counted = await bench.rates.hold(LOCAL.name, bench.rights, make_decided(decision=make_decision(prompt_tokens=100)))

    opened = AttemptOpened(bench.clock(), SPARK, "", ())
    counted.settle([fact for usage in (Usage(100, 30), None, Usage(100, 20)) for fact in (opened, ended(usage))], 1.0)

    assert bench.shown == {"tokens_per_minute": 250}


async def test_a_request_for_which_no_target_was_called_is_not_counted():
    bench = Bench(requests_per_minute=9, tokens_per_minute=1_000)

    for _ in range(100):
        await bench.send(is_called=False)

    assert bench.shown == {"requests_per_minute": 0, "tokens_per_minute": 0}


async def test_counting_tokens_and_a_request_that_is_passed_on_are_requests_without_tokens():
    bench = Bench(requests_per_minute=9, tokens_per_minute=1_000)

    async with bench.request(300, operation=Operation.COUNT_TOKENS):
        assert bench.shown == {"requests_per_minute": 1, "tokens_per_minute": 0}
        await bench.rates.hold(LOCAL.name, bench.rights, None)
        assert bench.shown == {"requests_per_minute": 2, "tokens_per_minute": 0}


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"requests_per_minute": 1, "in_flight": 9}, "quota of 1 request a minute"),
        ({"tokens_per_minute": 300}, "quota of 300 tokens a minute"),
    ],
)
async def test_a_caller_that_has_used_up_its_minute_is_turned_away_by_the_newest_rights(limits, words):
    bench = Bench(**limits)
    bench.check()
    await bench.send(100, Usage(200, 100))
    bench.clock.now += 20

    with pytest.raises(RateLimited, match=f"{words}. Try again in 40 s"):
        bench.check()

    bench.check(Rights(requests_per_minute=2, tokens_per_minute=301))
    bench.check(Rights(in_flight=1))
    bench.check(Rights())
    bench.check(caller=Caller("another"))


async def test_requests_at_once_turn_nobody_away_by_the_head():
    bench = Bench(in_flight=1, requests_per_minute=9)

    async with bench.request():
        bench.check()
        with pytest.raises(RateLimited):
            await bench.send()


async def test_that_a_caller_reached_a_limit_is_logged_once_a_minute_with_its_name(monkeypatch):
    told = []
    monkeypatch.setattr("router.telemetry.events.caller_limited", lambda **what: told.append(what))
    bench = Bench(requests_per_minute=1)
    await bench.send()

    for _ in range(30):  # within a minute and a half
        with contextlib.suppress(RateLimited):
            await bench.send()
        bench.clock.now += 3

    first, second = told
    assert first == {"caller": LOCAL.name, "limit": "quota of 1 request a minute", "seconds": 60.0}
    assert second["seconds"] == 57.0


async def test_callers_do_not_share_a_meter():
    bench = Bench(requests_per_minute=1)
    await bench.send()

    assert bench.rates.show(Caller("another"), bench.rights)["requests_per_minute"] == {"used": 0, "limit": 1, "left": 1}
    assert bench.rates.show(LOCAL, bench.rights)["requests_per_minute"] == {"used": 1, "limit": 1, "left": 0}
    assert bench.rates.show(LOCAL, Rights()) == {}


async def test_the_meters_of_callers_that_are_gone_are_forgotten():
    bench = Bench(requests_per_minute=5)
    for number in range(2_000):
        bench.clock.now += 1
        counted = await bench.rates.hold(f"caller-{number}", bench.rights, make_decided())
        counted.settle([AttemptOpened(bench.clock(), SPARK, "", ())], bench.clock())

    assert len(bench.rates) <= 256


async def test_a_caller_whose_routers_lost_their_store_is_refused_once_its_request_was_read_and_not_before():
    pool = Pool(1)
    rates = CallerRates(HandClock(), pool)
    await rates.hold("ada", Rights(requests_per_minute=5), None)

    with pytest.raises(RateLimited):
        rates.check("ada", Rights(requests_per_minute=5))
    pool.is_blind = True
    rates.check("ada", Rights(requests_per_minute=5))
    assert await rates.hold("bob", Rights(), None) is None
    assert set(pool.parts) == {("caller", "ada", "requests_per_minute")}


async def test_callers_that_come_and_go_do_not_free_the_slot_of_one_that_is_served():
    bench = Bench(in_flight=1)

    async with bench.request():
        bench.clock.now += 61
        for number in range(300):
            await bench.rates.hold(f"caller_{number}", bench.rights, None)
        with pytest.raises(RateLimited):
            await bench.send()
