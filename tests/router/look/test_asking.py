"""Which deep target is asked, and what may be spent on it."""

import asyncio

import pytest
from msgspec.structs import replace

from router.contract.errors import UpstreamUnreachable
from router.contract.facts import QuestionEnded
from router.contract.opinions import Opinions, RuleOut
from router.contract.spending import as_units
from router.contract.target import Quota
from router.contract.words import Tier, Vendor
from router.limits.callers import NO_LIMITS
from router.limits.queues import Queues
from router.look.asking import TOKENS_OUT, Asker
from router.look.looks import Looks
from tests.tools.exchanges import make_decided, make_decision, make_exchange
from tests.tools.scripted import HandClock, answers, fails, hangs, reach, streams
from tests.tools.upstream import CHAT_ANSWER
from tests.tools.values import PRICE, ask, make_signals, make_target, stand
from tests.tools.waiting import later, until

FINE = answers(
    {
        **CHAT_ANSWER,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": '{"fine": true}'}, "finish_reason": "stop"}],
    }
)
NOON = 1_800_014_400.0


def deep(name="sage", **more):
    return make_target(name, Tier.DEEP, **{"price": PRICE, **more})


def decided_with(*statuses, ruled_out=(), headers=None):
    signals = make_signals(stand(make_target()), *statuses)
    decision = make_decision(signals=signals, opinions=Opinions(ruled_out=tuple(ruled_out)), weighing=None)
    return make_decided(ask("make it two", headers=headers), decision)


class Asking:
    def __init__(self, target, *scripts, daily_usd=2.0, looks=None) -> None:
        self.target, self.clock, self.queues = target, HandClock(1_000.0), Queues(lambda: self.clock())
        self.reachable, self.looks = reach(target, *(scripts or (FINE,))), looks or Looks(now=HandClock(NOON))
        self.asker = Asker({target.name: self.reachable}, NO_LIMITS, self.looks, daily_usd, self.clock)
        self.exchange = make_exchange(began=self.clock())

    async def ask(self, words="Is it fine?", within=5.0, headers=None):
        decided = decided_with(stand(self.target), headers=headers)
        return await self.asker.ask(self.exchange, decided, self.target, words, within, self.queues)

    @property
    def asked(self):
        return self.reachable.adapter.opened


async def test_the_question_has_no_tools_and_500_tokens_for_its_answer():
    asking = Asking(deep())

    answered = await asking.ask()

    assert (answered.end.target, answered.end.end, answered.text) == ("sage", "", '{"fine": true}')
    (body,) = asking.reachable.adapter.bodies
    assert body["max_tokens"] == TOKENS_OUT == 500
    assert "tools" not in body
    assert body["messages"] == [{"role": "user", "content": "Is it fine?"}]


async def test_its_cost_is_noted_once_as_a_fact_of_the_request():
    asking = Asking(deep())

    answered = await asking.ask()

    (noted,) = [fact for fact in asking.exchange.journal if isinstance(fact, QuestionEnded)]
    assert answered.end.cost_usd == noted.attempt.cost_usd > 0
    assert noted.attempt.is_question


@pytest.mark.parametrize(
    ("script", "end"),
    [
        (fails(UpstreamUnreachable("sage", "connection refused")), "failed"),
        (answers({"error": {}}, status=429), "failed"),
        (answers(b"{"), "failed"),
    ],
)
async def test_a_target_that_fails_is_not_asked_again(script, end):
    asking = Asking(deep(), script)

    assert (await asking.ask()).end.end == end
    assert len(asking.asked) == 1


async def test_an_answer_of_2_mb_is_cut_off_and_dropped():
    pieces = [b'{"choices": [{"message": {"content": "', *[b"x" * 65_536] * 32, b'"}}]}']

    answered = await Asking(deep(), streams(*pieces)).ask()

    assert (answered.end.end, answered.text) == ("failed", "")


async def test_a_late_answer_counts_as_what_was_held_for_it():
    asking = Asking(deep(), hangs, daily_usd=0.01)

    assert (await asking.ask(within=0.01)).end.end == "late"

    assert asking.reachable.adapter.calls[0].is_cancelled
    budget = await asking.looks.hold(1, as_units(0.01))
    assert budget.spent > as_units(500 * PRICE.output / 1e6)


async def test_nobody_is_asked_beyond_the_money_of_a_day():
    asking = Asking(deep(), daily_usd=0.001)

    assert (await asking.ask("word " * 9_000)).end.end == "over budget"
    assert asking.asked == []


async def test_what_was_held_is_given_back_when_it_is_known_what_it_came_to():
    asking = Asking(deep(), daily_usd=0.005)

    for _ in range(20):
        assert (await asking.ask()).end.end == ""


async def test_a_target_without_a_price_is_asked_and_not_counted():
    asking = Asking(deep(price=None), daily_usd=0.0001)

    answered = await asking.ask("word " * 9_000)

    assert (answered.end.end, answered.end.cost_usd) == ("", None)


async def test_a_quota_without_room_is_not_waited_for():
    asking = Asking(deep(quota=Quota(in_flight=1)), hangs)
    first = later(asking.ask(within=0.05))
    await until(lambda: asking.asked)

    second = await asking.ask()
    await first

    assert (second.end.end, len(asking.asked)) == ("refused", 1)


async def test_a_caller_who_leaves_closes_the_call():
    asking = Asking(deep(), hangs)
    first = later(asking.ask())
    await until(lambda: asking.asked)

    first.cancel()
    await asyncio.wait([first])

    assert asking.reachable.adapter.calls[0].is_cancelled


async def test_a_target_that_takes_callers_keys_gets_the_callers_own():
    asking = Asking(deep(takes_callers_key=True, accepts_keys_of=frozenset({Vendor.OPENAI})))
    key = "sk-proj-of-the-caller"

    await asking.ask(headers={"authorization": f"Bearer {key}"})

    assert dict(asking.asked[0].view.headers) == {"x-tandem-upstream-key": key}


def choose(*statuses, **more):
    decided = decided_with(*statuses, **more)
    reachable = {status.target.name: reach(status.target) for status in statuses}
    return Asker(reachable, NO_LIMITS, Looks(), 2.0, HandClock()).choose(decided, 20.0)


def test_the_cheapest_deep_target_looks():
    dear, cheap = stand(deep("dear", price=PRICE.times(10))), stand(deep("cheap"))

    assert choose(dear, cheap).target.name == "cheap"


@pytest.mark.parametrize(
    "status",
    [
        stand(deep(is_plan=True)),
        replace(stand(deep()), closed_seconds=5.0),
        stand(deep(), 30.0),
        stand(deep(takes_callers_key=True)),
        stand(make_target("other-fast")),
    ],
)
def test_a_target_that_may_not_or_cannot_look_now_is_left_out(status):
    assert choose(status) is None


def test_a_target_that_a_policy_rules_out_does_not_look_but_one_whose_window_is_too_small_does():
    private = RuleOut("sage", "its work must not go there", lasting=True)
    small = RuleOut("sage", "too long", lasting=True, tokens=(500_000, 200_000))

    assert choose(stand(deep()), ruled_out=[("own", private)]) is None
    assert choose(stand(deep()), ruled_out=[("window", small)]).target.name == "sage"
    assert choose(stand(deep()), ruled_out=[("budget", private)]).target.name == "sage"
