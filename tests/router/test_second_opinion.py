"""When somebody is asked, how often, and what becomes of the answer."""

import asyncio

import pytest
from msgspec.structs import replace

from router.contract.opinions import Lean
from router.contract.target import Quota
from router.contract.words import Tier
from router.decide.choose import decide
from router.decide.opinions import Rules
from router.limits.queues import Queues
from router.second_opinion import Adviser, read_answer
from tests.tools.exchanges import ECONOMICS, make_decided, make_exchange, make_snapshot
from tests.tools.scripted import HandClock, answers, hangs, reach
from tests.tools.upstream import CHAT_ANSWER
from tests.tools.values import ask, make_signals, make_target, stand
from tests.tools.waiting import later, until


class Reading:
    name = "reading"

    def __init__(self, log_odds: float) -> None:
        self.log_odds = log_odds

    def judge(self, request, signals):
        return (Lean(self.log_odds, "a reading", names_turn=True),)


def say(text: str):
    message = {"role": "assistant", "content": text}
    return answers({**CHAT_ANSWER, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


def rules_of(log_odds: float) -> Rules:
    return Rules((Reading(log_odds),), replace(ECONOMICS, base_rate=0.26), True, "")


def decided_on(text="have a look at the page", log_odds=-0.3, statuses=(), messages=1):
    view, signals = ask(text), make_signals(*statuses, text=text)
    decision = decide(rules_of(log_odds), view, signals)
    return make_decided(view, decision, make_snapshot(messages=messages))


class Asking:
    """An adviser with its target and its clock."""

    def __init__(self, *scripts, log_odds=-0.3, quota=None) -> None:
        self.reachable, self.clock = reach(make_target(quota=quota), *scripts), HandClock(1_000.0)
        self.queues = Queues()
        self.adviser = Adviser(self.reachable, rules_of(log_odds), 0.4, self.clock)

    async def consult(self, decided=None):
        return await self.adviser.consult(make_exchange(began=self.clock()), decided or decided_on(), self.queues)

    @property
    def asked(self) -> int:
        return len(self.reachable.adapter.opened)


async def test_a_turn_in_doubt_is_decided_with_the_answer():
    asking, before = Asking(say("LONG")), decided_on()

    after = await asking.consult(before)

    assert (before.decision.tier, after.decision.tier) == (Tier.FAST, Tier.DEEP)
    assert after.decision.score > before.decision.score
    opinion = after.decision.second_opinion
    assert (opinion.target, opinion.answer) == ("spark", "long")
    assert opinion.value_usd > opinion.cost_usd > 0
    assert after.asked_at == 1_000.0


async def test_a_turn_without_doubt_is_left_as_it_is():
    asking, clear = Asking(say("LONG")), decided_on(log_odds=-5.0)

    assert await asking.consult(clear) is clear
    assert asking.asked == 0


@pytest.mark.parametrize(("text", "answer"), [("hm", "odd"), ("", "odd")])
async def test_an_odd_answer_changes_nothing_but_what_is_told(text, answer):
    before = decided_on()

    after = await Asking(say(text)).consult(before)

    assert after.decision.second_opinion.answer == answer
    assert replace(after.decision, second_opinion=None) == before.decision


async def test_one_turn_is_asked_about_once_and_another_anew():
    asking = Asking(say("LONG"))

    first, again = await asking.consult(), await asking.consult()
    await asking.consult(decided_on("have a look at the other page"))
    await asking.consult(decided_on(messages=3))

    assert asking.asked == 3
    assert again.decision.tier is first.decision.tier is Tier.DEEP
    assert (again.decision.second_opinion.answer, again.decision.second_opinion.asked_ms) == ("long", None)
    assert again.asked_at is None


async def test_who_comes_while_the_same_turn_is_asked_about_does_not_wait():
    asking = Asking(hangs)
    first = later(asking.consult())
    await until(lambda: asking.asked)

    second = await asking.consult()
    await first

    assert (second.decision.second_opinion.answer, asking.asked) == ("not asked", 1)


async def test_who_left_while_it_was_asked_about_and_comes_again_may_ask():
    asking = Asking(hangs, say("LONG"))
    first = later(asking.consult())
    await until(lambda: asking.asked)
    first.cancel()
    await asyncio.wait([first])

    again = await asking.consult()

    assert (again.decision.second_opinion.answer, asking.asked) == ("long", 2)


async def test_the_memory_of_turns_is_bounded():
    asking = Asking(say("quick"))

    for number in range(520):
        await asking.consult(decided_on(f"have a look at page {number}"))

    assert len(asking.adviser._answers) == 512


async def test_three_useless_answers_are_followed_by_ten_minutes_without_questions():
    asking = Asking(say("hm"), say("hm"), say("hm"), say("hm"), say("quick"))

    async def next_turn():
        return (await asking.consult(decided_on(f"have a look at page {asking.clock()}"))).decision.second_opinion

    for _ in range(3):
        asking.clock.now += 1
        await next_turn()
    asking.clock.now += 1
    resting = await next_turn()

    assert (resting.answer, resting.because, asking.asked) == ("not asked", "the last 3 questions got no usable answer", 3)
    asking.clock.now += 600
    assert (await next_turn()).answer == "odd"
    asking.clock.now += 1
    assert (await next_turn()).answer == "not asked"  # one more useless answer is enough
    asking.clock.now += 600
    assert (await next_turn()).answer == "quick"
    asking.clock.now += 1
    assert (await next_turn()).answer == "quick"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (replace(stand(make_target()), closed_seconds=3.0), "spark has no room now"),
        (stand(make_target(), 0.5), "spark has no room now"),
    ],
)
async def test_a_target_that_is_closed_or_has_a_queue_is_not_asked(status, reason):
    asking = Asking(say("LONG"))
    decided = decided_on(statuses=(stand(make_target("other")), stand(make_target("sage", Tier.DEEP)), status))

    after = await asking.consult(decided)

    assert (after.decision.second_opinion.answer, after.decision.second_opinion.because) == ("not asked", reason)
    assert asking.asked == 0


async def test_what_would_cost_more_than_it_saves_is_not_asked():
    asking = Asking(say("LONG"))
    dear = make_target(typical=make_target().typical._replace(ttft_seconds=0.39))
    nearly = stand(make_target("other")), stand(make_target("sage", Tier.DEEP)), stand(dear)
    worths = [decided_on(log_odds=-step / 400, statuses=nearly) for step in range(400)]

    opinions = [asking.adviser.consider(decided).decision.second_opinion for decided in worths]
    reasons = {opinion.because for opinion in opinions if opinion.value_usd}

    assert reasons == {"", "it would cost more than it saves"}
    for opinion in opinions:
        assert (opinion.answer == "would ask") is (opinion.value_usd > opinion.cost_usd)


async def test_to_consider_is_to_ask_nobody():
    asking = Asking(say("LONG"))

    considered = asking.adviser.consider(decided_on()).decision

    assert (considered.second_opinion.answer, considered.tier, asking.asked) == ("would ask", Tier.FAST, 0)


def test_an_answer_is_read_by_its_first_word_and_nothing_else_is_guessed(subtests):
    for text, answer in [
        ("LONG", "long"),
        ("quick", "quick"),
        ("**LONG**", "long"),
        (" Quick.\n", "quick"),
        ('"LONG"', "long"),
        ("LONG: several files", "long"),
        ("QUICK or LONG", None),
        ("It won't take long", None),
        ("not long", None),
        ("longer", None),
        ("", None),
        ("?!", None),
        ("长", None),
    ]:
        with subtests.test(text=text, answer=answer):
            assert read_answer(text) == answer


async def test_a_question_counts_against_its_targets_quota_and_does_not_wait_for_it():
    asking = Asking(say("LONG"), say("LONG"), quota=Quota(requests_per_minute=1))

    first = await asking.consult()
    second = await asking.consult(decided_on("have a look at the other page"))

    assert asking.asked == 1
    assert first.decision.second_opinion.answer == "long"
    opinion = second.decision.second_opinion
    assert (opinion.answer, opinion.because) == ("not asked", "spark has no room now")
    target = asking.reachable.target
    used = asking.queues.picture({"spark": target}, asking.clock())["spark"]
    assert (used["requests_per_minute"], used["in_flight"]["used"]) == ({"used": 1, "limit": 1}, 0)
