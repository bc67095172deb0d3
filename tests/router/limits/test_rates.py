"""What a caller may use in a minute, and at once."""

import contextlib

import pytest

from router.contract.caller import LOCAL, Caller
from router.contract.entry import Attempt
from router.contract.errors import RateLimited
from router.contract.facts import AttemptEnded, AttemptOpened
from router.contract.rights import USUAL, Rights
from router.contract.usage import Usage
from router.contract.words import Operation
from router.limits.rates import CallerRates
from tests.tools.exchanges import make_decided, make_decision, make_exchange
from tests.tools.scripted import HandClock
from tests.tools.values import make_target, make_view

SPARK = make_target()


class Bench:
    """Rates with a clock that a test moves, and requests of one caller."""

    def __init__(self, **limits) -> None:
        self.clock, self.rights = HandClock(), Rights(**limits)
        self.rates = CallerRates(self.clock)

    @contextlib.contextmanager
    def request(self, tokens: int = 100, usage: Usage | None = None, *, is_called: bool = True, operation=Operation.CREATE):
        exchange = make_exchange(operation=operation)
        view = make_view({"messages": [{"role": "user", "content": "hello"}]}, operation=operation)
        decided = make_decided(view, make_decision(prompt_tokens=tokens))
        with self.rates.hold(exchange, decided, self.rights):
            if is_called:
                exchange.note(AttemptOpened(self.clock(), SPARK, "", ()))
            yield
            if is_called:
                row = Attempt("spark", 200, None, 0.1, usage)
                exchange.note(AttemptEnded(self.clock(), SPARK, row, None, usage, None))

    def send(self, *given, **more) -> None:
        with self.request(*given, **more):
            pass

    @property
    def shown(self):
        return {name: limit["used"] for name, limit in self.rates.show(LOCAL, self.rights).items()}


def test_over_its_requests_a_caller_is_told_when_the_oldest_is_a_minute_old():
    bench = Bench(requests_per_minute=2)
    bench.send()
    bench.clock.now += 10
    bench.send()
    bench.clock.now += 5

    with pytest.raises(RateLimited, match="quota of 2 requests a minute. Try again in 45 s") as refused:
        bench.send()

    assert refused.value.retry_after_seconds == 45
    bench.clock.now += 45
    bench.send()
    with pytest.raises(RateLimited, match="in 10 s"):
        bench.send()


def test_a_refused_request_is_not_counted():
    bench = Bench(requests_per_minute=1)
    bench.send()
    bench.clock.now += 59
    for _ in range(5):
        with pytest.raises(RateLimited):
            bench.send()
    bench.clock.now += 1

    bench.send()


def test_an_answer_that_was_longer_than_expected_is_paid_for_by_the_next_request():
    bench = Bench(tokens_per_minute=1_000)
    bench.send(100, Usage(100, 5_000))

    with pytest.raises(RateLimited, match="quota of 1,000 tokens a minute. Try again in 60 s"):
        bench.send(1)


def test_a_request_that_no_minute_could_hold_is_served_in_an_empty_one():
    bench = Bench(tokens_per_minute=1_000)

    bench.send(50_000, Usage(50_000, 10))

    with pytest.raises(RateLimited):
        bench.send(1)


def test_an_attempt_that_nobody_bills_takes_no_tokens_and_is_a_request_all_the_same():
    bench = Bench(requests_per_minute=9, tokens_per_minute=1_000)

    bench.send(300, None)

    assert bench.shown == {"requests_per_minute": 1, "tokens_per_minute": 0}


def test_the_tokens_of_every_attempt_count():
    bench = Bench(tokens_per_minute=1_000)
    exchange = make_exchange()
    with bench.rates.hold(exchange, make_decided(decision=make_decision(prompt_tokens=100)), bench.rights):
        for usage in (Usage(100, 30), None, Usage(100, 20)):
            exchange.note(AttemptOpened(bench.clock(), SPARK, "", ()))
            exchange.note(AttemptEnded(bench.clock(), SPARK, Attempt("spark", 200, None, 0.1, usage), None, usage, None))

    assert bench.shown == {"tokens_per_minute": 250}


def test_a_request_for_which_no_target_was_called_is_not_counted():
    bench = Bench(requests_per_minute=9, tokens_per_minute=1_000)

    for _ in range(100):
        bench.send(is_called=False)

    assert bench.shown == {"requests_per_minute": 0, "tokens_per_minute": 0}


def test_counting_tokens_and_a_request_that_is_passed_on_are_requests_without_tokens():
    bench = Bench(requests_per_minute=9, tokens_per_minute=1_000)

    with bench.request(300, operation=Operation.COUNT_TOKENS):
        assert bench.shown == {"requests_per_minute": 1, "tokens_per_minute": 0}
        with bench.rates.hold(make_exchange(), None, bench.rights):
            assert bench.shown == {"requests_per_minute": 2, "tokens_per_minute": 0}


def test_requests_at_once_are_limited_and_a_place_is_free_when_one_ends():
    bench = Bench(in_flight=2)

    with bench.request(), bench.request(), pytest.raises(RateLimited, match="quota of 2 at once"):
        bench.send()

    for _ in range(50):
        bench.send()
    assert bench.shown == {"in_flight": 0}


def test_a_request_that_fails_gives_its_place_back():
    bench = Bench(in_flight=1)

    with pytest.raises(ValueError, match="broken"), bench.request():
        raise ValueError("broken")

    bench.send()


def test_meters_outlive_the_rights_and_count_by_the_newest():
    bench = Bench(requests_per_minute=1)
    bench.send()

    bench.rights = Rights(requests_per_minute=3)
    bench.send()
    bench.send()
    with pytest.raises(RateLimited, match="quota of 3 requests"):
        bench.send()

    bench.rights = USUAL
    bench.send()


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"requests_per_minute": 1, "in_flight": 9}, "quota of 1 request a minute"),
        ({"tokens_per_minute": 300}, "quota of 300 tokens a minute"),
    ],
)
def test_a_caller_that_has_used_up_its_minute_is_turned_away_by_the_newest_rights(limits, words):
    bench = Bench(**limits)
    bench.rates.turn_away({LOCAL.name: bench.rights}, LOCAL)
    bench.send(100, Usage(200, 100))
    bench.clock.now += 20

    with pytest.raises(RateLimited, match=f"{words}. Try again in 40 s"):
        bench.rates.turn_away({LOCAL.name: bench.rights}, LOCAL)

    bench.rates.turn_away({LOCAL.name: Rights(requests_per_minute=2, tokens_per_minute=301)}, LOCAL)
    bench.rates.turn_away({LOCAL.name: Rights(in_flight=1)}, LOCAL)
    bench.rates.turn_away({}, LOCAL)
    bench.rates.turn_away({LOCAL.name: bench.rights}, Caller("another"))


def test_requests_at_once_turn_nobody_away_by_the_head():
    bench = Bench(in_flight=1, requests_per_minute=9)

    with bench.request():
        bench.rates.turn_away({LOCAL.name: bench.rights}, LOCAL)
        with pytest.raises(RateLimited):
            bench.send()


def test_that_a_caller_reached_a_limit_is_logged_once_a_minute_with_its_name(monkeypatch):
    told = []
    monkeypatch.setattr("router.telemetry.events.caller_limited", lambda **what: told.append(what))
    bench = Bench(requests_per_minute=1)
    bench.send()

    for _ in range(30):  # within a minute and a half
        with contextlib.suppress(RateLimited):
            bench.send()
        bench.clock.now += 3

    first, second = told
    assert first == {"caller": LOCAL.name, "limit": "quota of 1 request a minute", "seconds": 60.0}
    assert second["seconds"] == 57.0


def test_callers_do_not_share_a_meter():
    bench = Bench(requests_per_minute=1)
    bench.send()

    assert bench.rates.show(Caller("another"), bench.rights)["requests_per_minute"] == {"used": 0, "limit": 1, "left": 1}
    assert bench.rates.show(LOCAL, bench.rights)["requests_per_minute"] == {"used": 1, "limit": 1, "left": 0}
    assert bench.rates.show(LOCAL, USUAL) == {}


def test_the_meters_of_callers_that_are_gone_are_forgotten():
    bench = Bench(requests_per_minute=5)
    decided = make_decided()
    for number in range(2_000):
        bench.clock.now += 1
        exchange = make_exchange()
        exchange.caller = Caller(f"caller-{number}")
        with bench.rates.hold(exchange, decided, bench.rights):
            exchange.note(AttemptOpened(bench.clock(), SPARK, "", ()))

    assert len(bench.rates) <= 256
