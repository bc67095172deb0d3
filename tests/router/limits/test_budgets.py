"""What callers may spend."""

import random
from datetime import UTC, datetime
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from router.contract.caller import Caller
from router.contract.entry import Attempt
from router.contract.errors import BudgetHeld, BudgetSpent, Unavailable, UpstreamRefused
from router.contract.facts import AttemptEnded
from router.contract.rights import Rights
from router.contract.spending import UNITS_PER_USD, Period, as_units
from router.contract.stores import StoreUnusable
from router.contract.target import Price, PriceStep
from router.contract.words import Operation, Tier
from router.dialects.cap import Cap
from router.limits.budgets import Terms
from tests.router.limits.spending import ADA, Crowd, Wish, decided_for, ended, exchange_of, hold, make_budgets, open_for, opened
from tests.tools.allowances import Pool
from tests.tools.scripted import HandClock
from tests.tools.values import make_target
from tests.tools.waiting import at_once

NOON, DAY = datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp(), 86_400.0
SPARK = make_target(price=Price(input=1.0, output=10.0))
SAGE = make_target("sage", Tier.DEEP, price=Price(input=5.0, output=50.0))
ONE = Rights(daily_usd=1.0)
DIME = {"prompt_tokens": 0, "max_tokens": 10_000}
"""A request to spark that may cost 0.10 USD."""
REST = "by what is left of your budget"


def spent(budgets, caller: str = "ada", period: str = "day") -> tuple[float, float]:
    picture = budgets.picture(caller)[period]
    return picture["spent_usd"], picture["held_usd"]


async def spend(budgets, cost: float | None, rights: Rights = ONE, *, target=SPARK, **size):
    """One request that came to this."""
    exchange = exchange_of()
    async with hold(budgets, exchange, decided_for(target, **(size or DIME)), rights) as headers:
        exchange.note(opened(target))
        exchange.note(ended(target, cost))
    return dict(headers)


async def test_the_most_that_a_request_may_cost_is_held_until_it_is_over():
    budgets, exchange = make_budgets(ONE), exchange_of()

    async with hold(budgets, exchange, decided_for(SPARK, **DIME), ONE):
        assert spent(budgets) == (0.0, 0.1)
        exchange.note(ended(SPARK, 0.03))

    assert spent(budgets) == (0.03, 0.0)


async def test_an_attempt_without_an_end_counts_as_the_most_that_it_could_cost():
    budgets, exchange = make_budgets(ONE), exchange_of()

    async with hold(budgets, exchange, decided_for(SPARK, **DIME), ONE):
        exchange.note(opened(SPARK))

    assert spent(budgets) == (0.1, 0.0)


async def test_a_request_under_way_is_held_in_a_budget_that_is_set_meanwhile():
    budgets, exchange = make_budgets(ONE), exchange_of()

    async with hold(budgets, exchange, decided_for(SPARK, **DIME), ONE):
        budgets.follow(Terms({"ada": Rights(daily_usd=1.0, monthly_usd=5.0)}))
        assert spent(budgets, period="month") == (0.0, 0.1)
        exchange.note(ended(SPARK, 0.03))

    assert spent(budgets, period="month") == (0.03, 0.0)


async def test_a_question_is_paid_already_and_not_held_for_a_further_attempt():
    budgets, exchange = make_budgets(ONE), exchange_of()
    exchange.note(ended(SPARK, 0.05))
    holding = open_for(budgets, exchange, decided_for(SPARK, **DIME), ONE)
    await holding.admit(SPARK)
    exchange.note(ended(SPARK, 0.02, error="upstream_cut"))

    await holding.admit(SPARK)

    assert spent(budgets) == (0.0, 0.12)


async def test_what_is_held_is_for_the_target_that_is_tried_and_a_further_one_has_its_own_cap():
    budgets, exchange = make_budgets(ONE), exchange_of()
    holding = open_for(budgets, exchange, decided_for(SPARK, spill=(SAGE,), **DIME), ONE)

    await holding.admit(SPARK)
    first = spent(budgets)[1], holding.cap
    exchange.note(opened(SPARK))
    exchange.note(ended(SPARK, 0.04, error="upstream_cut"))
    await holding.admit(SAGE)
    second = spent(budgets)[1], holding.cap
    exchange.note(opened(SAGE))
    exchange.note(ended(SAGE, 0.3))
    holding.settle()

    assert first == (0.1, Cap(10_000))
    assert second == (pytest.approx(0.04 + 0.48), Cap(9_599, REST))  # half of the 0.96 USD that are left
    assert spent(budgets) == (0.34, 0.0)


async def test_what_a_cheaper_attempt_does_not_need_is_free_again():
    budgets, exchange = make_budgets(ONE), exchange_of()
    holding = open_for(budgets, exchange, decided_for(SAGE, spill=(SPARK,), **DIME), ONE)

    await holding.admit(SAGE)
    exchange.note(ended(SAGE, 0.0, error="upstream_refused"))
    await holding.admit(SPARK)

    assert spent(budgets) == (0.0, 0.1)


async def test_a_spill_that_the_rest_does_not_cover_does_not_happen_and_says_so():
    budgets, exchange = make_budgets(Rights(daily_usd=0.02)), exchange_of()
    holding = open_for(budgets, exchange, decided_for(SPARK, spill=(SAGE,), **DIME), Rights(daily_usd=0.02))
    await holding.admit(SPARK)
    exchange.note(ended(SPARK, 0.01, error="upstream_cut"))

    with pytest.raises(BudgetSpent, match="^sage is not tried: this request needs 0.023 USD for its prompt and a short answer"):
        await holding.admit(SAGE)

    holding.settle()
    assert spent(budgets) == (0.01, 0.0)


async def test_one_of_many_gets_half_of_what_is_left_and_the_rest_is_capped_or_refused():
    budgets, rights = make_budgets(Rights(daily_usd=0.5)), Rights(daily_usd=0.5)
    caps, refused = [], []

    for _ in range(50):
        holding = open_for(budgets, exchange_of(), decided_for(SPARK, prompt_tokens=0), rights)
        try:
            await holding.admit(SPARK)
            caps.append(holding.cap.tokens)
        except BudgetSpent as refusal:
            refused.append(refusal.retry_after_seconds)

    assert caps[:3] == pytest.approx([25_000, 12_500, 6_250], abs=2)
    assert min(caps) >= 256
    assert caps == sorted(caps, reverse=True)
    assert refused == [5.0] * (50 - len(caps))
    assert spent(budgets)[1] <= 0.5


async def test_a_large_limit_is_served_by_a_small_budget_and_capped():
    budgets, rights = make_budgets(Rights(daily_usd=0.5)), Rights(daily_usd=0.5)
    holding = open_for(budgets, exchange_of(), decided_for(SAGE, prompt_tokens=1_000, max_tokens=32_000), rights)

    await holding.admit(SAGE)

    assert holding.cap == Cap(5_999, "by what is left of your budget")


async def test_a_request_without_a_limit_gets_one_that_says_why():
    budgets, rights = make_budgets(Rights(daily_usd=50.0)), Rights(daily_usd=50.0)
    holding = open_for(budgets, exchange_of(), decided_for(SPARK, prompt_tokens=0), rights)

    await holding.admit(SPARK)

    assert holding.cap == Cap(32_000, "since your key has a budget and the request no limit")


async def test_what_others_hold_cannot_be_spent_and_is_free_again_when_they_end():
    rights = Rights(daily_usd=0.2)
    budgets, decided = make_budgets(rights), decided_for(SPARK, prompt_tokens=0, max_tokens=250)
    long = decided_for(SPARK, prompt_tokens=197_400, max_tokens=250)
    first, second = exchange_of("req_1"), exchange_of("req_2")

    async with hold(budgets, first, long, rights):
        with pytest.raises(BudgetHeld, match="other requests hold 0.20 USD until they end") as caught:
            await open_for(budgets, second, decided, rights).admit(SPARK)
        first.note(ended(SPARK, 0.02))

    assert caught.value.retry_after_seconds == 5.0
    async with hold(budgets, second, decided, rights):
        assert spent(budgets) == (0.02, 0.0025)


@pytest.mark.parametrize(("stream", "cost"), [(False, 0.1), (True, 0.001)])
@pytest.mark.parametrize("error", ["abandoned", "upstream_timeout"])
async def test_an_answer_in_one_piece_that_is_not_awaited_costs_what_was_held_for_it(stream, cost, error):
    budgets, exchange = make_budgets(ONE), exchange_of()
    decided = decided_for(SPARK, **DIME)
    decided = replace(decided, view=replace(decided.view, is_streaming=stream))

    async with hold(budgets, exchange, decided, ONE):
        exchange.note(opened(SPARK))
        exchange.note(ended(SPARK, 0.001, error=error, is_estimated=True))

    assert spent(budgets) == (cost, 0.0)


async def test_a_spent_budget_is_refused_until_it_is_full_again(listen):
    clock = HandClock(NOON)
    budgets, read = make_budgets(ONE, now=clock), listen()
    for _ in range(19):
        await spend(budgets, 0.05)

    for _ in range(2):
        with pytest.raises(BudgetSpent) as caught:
            await spend(budgets, 0.05, prompt_tokens=97_440)

    needed = "this request needs 0.10 USD for its prompt and a short answer."
    assert caught.value.message == (
        f"0.05 USD of your daily budget of 1.00 USD is left, and {needed} It resets at 2026-11-17 00:00 UTC"
    )
    assert caught.value.retry_after_seconds == 12 * 3_600
    assert [(event["event"], event["spent_usd"]) for event in read()] == [("budget.near", 0.8), ("budget.spent", 0.95)]
    clock.now += 12 * 3_600
    await spend(budgets, 0.05)
    assert spent(budgets) == (0.05, 0.0)


async def test_of_two_budgets_that_are_spent_the_later_reset_is_told_in_the_zone_of_the_budgets():
    both = Rights(daily_usd=0.1, monthly_usd=0.1)
    budgets = make_budgets(both, now=lambda: NOON, zone=ZoneInfo("Asia/Tokyo"))
    await spend(budgets, 0.09, both)

    with pytest.raises(BudgetSpent, match="monthly budget of 0.10 USD is left.* at 2026-12-01 00:00 JST"):
        await spend(budgets, 0.09, both, prompt_tokens=20_000)


async def test_a_request_that_no_day_could_pay_is_told_so_and_no_time_to_come_again():
    with pytest.raises(BudgetSpent, match="more than your whole daily budget of 0.05 USD: shorten the prompt") as caught:
        await spend(make_budgets(Rights(daily_usd=0.05)), 0.01, Rights(daily_usd=0.05), prompt_tokens=50_000)

    assert caught.value.retry_after_seconds is None


async def test_every_answer_tells_what_is_left_of_the_day_or_the_month_of_which_more_is_spent():
    both = Rights(daily_usd=1.0, monthly_usd=4.0)
    budgets = make_budgets(both, read=lambda span: {"ada": as_units(2.2) if span.ends - span.begins > 2 * DAY else 0})

    told = [(await spend(budgets, 0.2, both))["x-tandem-budget"] for _ in range(4)]

    assert told == [
        "0.55; left_usd=1.8000; period=month",
        "0.60; left_usd=1.6000; period=month",
        "0.65; left_usd=1.4000; period=month",
        "0.70; left_usd=1.2000; period=month",
    ]


async def test_a_share_is_never_rounded_up_to_the_whole():
    rights = Rights(daily_usd=1.2)
    budgets = make_budgets(rights, read=lambda span: {"ada": as_units(1.0999)}, warn_at=0.8)

    assert await spend(budgets, 0.0, rights) == {"x-tandem-budget": "0.91; left_usd=0.1001; period=day"}


async def test_what_the_ledger_has_counts_again_after_a_restart_and_nobody_is_warned_twice(listen):
    read = listen()
    asked = []

    def ledger(span) -> dict[str, int]:
        asked.append(span)
        return {"ada": as_units(0.85)}

    budgets = make_budgets(ONE, read=ledger, now=lambda: NOON)

    assert spent(budgets) == (0.85, 0.0)
    days = [datetime(2026, *day, tzinfo=UTC).timestamp() for day in ((11, 16), (11, 17), (11, 1), (12, 1))]
    assert asked == [tuple(days[:2]), tuple(days[2:])]
    assert await spend(budgets, 0.01) == {"x-tandem-budget": "0.85; left_usd=0.1500; period=day"}
    assert read() == []


async def test_a_caller_who_gets_a_budget_by_a_reload_has_spent_what_the_ledger_says():
    ledger = {"ada": as_units(0.1), "bob": as_units(0.7)}
    budgets = make_budgets(ONE, read=lambda span: ledger)

    budgets.follow(Terms({"ada": ONE, "bob": ONE}))

    assert spent(budgets, "bob") == (0.7, 0.0)


async def test_who_loses_a_budget_and_gets_another_has_spent_what_the_ledger_says_meanwhile():
    ledger = {"ada": 0}
    budgets = make_budgets(ONE, read=lambda span: ledger)
    await spend(budgets, 0.05)

    budgets.follow(Terms({"ada": Rights()}))
    ledger["ada"] = as_units(0.6)
    budgets.follow(Terms({"ada": ONE}))

    assert spent(budgets) == (0.6, 0.0)


async def test_a_reload_forgets_nothing_that_is_not_written_yet_or_is_held():
    budgets, exchange = make_budgets(ONE, read=lambda span: {"ada": as_units(0.02)}), exchange_of()
    await spend(budgets, 0.05)

    async with hold(budgets, exchange, decided_for(SPARK, **DIME), ONE):
        budgets.follow(Terms({"ada": Rights(daily_usd=2.0)}))
        budgets.recall(budgets.read_spending())
        assert spent(budgets) == (0.07, 0.1)
        exchange.note(ended(SPARK, 0.1))

    assert spent(budgets) == (0.17, 0.0)


async def test_a_request_of_a_plan_in_which_its_caller_had_a_budget_is_served_after_a_reload_without():
    budgets = make_budgets(ONE)
    budgets.follow(Terms({}))

    await spend(budgets, 0.05)

    assert budgets.picture("ada") == {}


async def test_requests_of_the_plan_before_cannot_spend_a_budget_twice_when_a_reload_takes_it_away():
    own = Rights(daily_usd=0.15)
    budgets, exchange = make_budgets(own, read=lambda span: {}), exchange_of()

    async with hold(budgets, exchange, decided_for(SPARK, **DIME), own):
        budgets.follow(Terms({}))
        budgets.follow(Terms({}))
        with pytest.raises(BudgetHeld):
            async with hold(budgets, exchange_of(), decided_for(SPARK, prompt_tokens=80_000, max_tokens=10_000), own):
                pass
        exchange.note(ended(SPARK, 0.1))


async def test_what_is_not_written_yet_counts_for_requests_of_the_plan_before():
    own = Rights(daily_usd=0.15)
    budgets = make_budgets(own, read=lambda span: {})
    await spend(budgets, 0.1, own)

    budgets.follow(Terms({}))

    with pytest.raises(BudgetSpent):
        await spend(budgets, 0.0, own, prompt_tokens=80_000, max_tokens=10_000)


async def test_a_ledger_that_cannot_be_read_is_no_empty_ledger():
    def read(span) -> dict[str, int]:
        if is_broken:
            raise StoreUnusable("x.db: not a usable ledger")
        return {}

    is_broken = False
    budgets = make_budgets(ONE, read=read)
    is_broken = True
    budgets.follow(Terms({"bob": ONE}))

    with pytest.raises(Unavailable, match="the ledger cannot be read"):
        budgets.picture("bob")


async def test_a_caller_without_a_budget_is_not_counted():
    budgets = make_budgets(Rights(in_flight=1))

    assert await spend(budgets, 0.05, Rights(in_flight=1)) == {}
    assert budgets.picture("ada") == {}


async def test_the_picture_says_what_is_left_and_when_it_is_full_again():
    budgets = make_budgets(ONE, read=lambda span: {"ada": as_units(0.25)}, now=lambda: NOON)

    assert budgets.picture("ada") == {
        "day": {
            "limit_usd": 1.0,
            "spent_usd": 0.25,
            "held_usd": 0.0,
            "left_usd": 0.75,
            "resets_at": "2026-11-17T00:00:00+00:00",
        }
    }
    assert budgets.picture("bob") == {}


async def cap_of(budgets, caller: str, rights: Rights, **body) -> int:
    holding = open_for(budgets, exchange_of(caller=Caller(caller)), decided_for(SPARK, prompt_tokens=0, **body), rights)
    await holding.admit(SPARK)
    holding.settle()
    return holding.cap.tokens


async def test_what_is_expected_is_learned_from_whole_answers_alone():
    rights = Rights(daily_usd=0.1)
    budgets = make_budgets(rights)
    assert await cap_of(budgets, "ada", rights) == pytest.approx(6_000, abs=1)

    for error in (None, "abandoned"):
        for _ in range(200):
            exchange = exchange_of()
            async with hold(budgets, exchange, decided_for(SPARK, **DIME), rights):
                exchange.note(ended(SPARK, 0.0, output_tokens=2_500 if error is None else 9, error=error))

    assert await cap_of(budgets, "ada", rights) == pytest.approx(7_500, abs=1)


async def test_short_answers_never_lower_what_is_held_below_the_cap():
    rights = Rights(daily_usd=1.0)
    budgets = make_budgets(rights)
    for _ in range(60):
        exchange = exchange_of()
        async with hold(budgets, exchange, decided_for(SPARK, prompt_tokens=0, max_tokens=1), rights):
            exchange.note(ended(SPARK, 0.0, output_tokens=1))

    async with hold(budgets, exchange_of(), decided_for(SPARK, prompt_tokens=0), rights):
        assert spent(budgets)[1] == pytest.approx(0.32)


async def test_the_answers_of_one_caller_teach_nothing_about_anothers():
    rights = Rights(daily_usd=1.0)
    budgets = make_budgets(rights)
    budgets.follow(Terms({"ada": rights, "bob": rights}))
    for _ in range(12):
        exchange = exchange_of()
        async with hold(budgets, exchange, decided_for(SPARK, **DIME), rights):
            exchange.note(ended(SPARK, 0.0, output_tokens=150_000))

    assert await cap_of(budgets, "ada", rights) == 99_999
    assert await cap_of(budgets, "bob", rights) == 32_000


async def test_a_target_that_refuses_the_cap_gets_the_one_that_it_names_next_time():
    rights = Rights(daily_usd=50.0)
    budgets, exchange = make_budgets(rights), exchange_of()
    words = b'{"error": {"message": "max_tokens is too large: 32000. This model supports at most 16384 completion tokens"}}'
    async with hold(budgets, exchange, decided_for(SPARK, prompt_tokens=0), rights):
        error = UpstreamRefused("spark", 400, words, "application/json")
        exchange.note(AttemptEnded(1.0, SPARK, Attempt("spark", 400, error.code, 1.0, None, 0.0), error, None, None))

    assert await cap_of(budgets, "ada", rights) == 16_384
    assert await cap_of(budgets, "ada", rights, max_tokens=20_000) == 20_000


async def test_the_length_of_several_answers_is_that_of_each():
    rights = Rights(daily_usd=0.01)
    budgets = make_budgets(rights)
    for _ in range(99):
        exchange = exchange_of()
        async with hold(budgets, exchange, decided_for(SPARK, prompt_tokens=0, n=8, max_tokens=99), rights):
            exchange.note(ended(SPARK, 0.0, output_tokens=8 * 200))

    assert await cap_of(budgets, "ada", rights) == pytest.approx(600, abs=2)


PRICES = {
    "mostly output": SimpleNamespace(first=Price(0.1, 20.0), second=Price(0.1, 25.0), prompt=2_000, output=4_000),
    "mostly input, written to a cache": SimpleNamespace(
        first=Price(5.0, 25.0, 0.5, 6.25), second=Price(5.0, 25.0, 0.5, 6.25), prompt=16_000, output=800
    ),
    "steps for long prompts": SimpleNamespace(
        first=Price(0.2, 1.0, steps=(PriceStep(200_000, 0.4, 1.5),)), second=Price(0.3, 2.0), prompt=230_000, output=2_000
    ),
}


def wish(chance: random.Random, kind: SimpleNamespace, *, has_limit: bool) -> Wish:
    """A request of about a dime, whose caller allows itself up to half as much again as it will get."""
    output = int(kind.output * chance.uniform(0.7, 1.3))
    limit = int(output * chance.uniform(1.0, 1.5)) if has_limit else None
    prompt = int(kind.prompt * chance.uniform(0.9, 1.1))
    return Wish(prompt, output, limit, fails_first=chance.random() < 0.1, is_left=chance.random() < 0.1)


async def learn_lengths(budgets, targets, tokens: int) -> None:
    """Thirty free answers of this length from each target."""
    decided = decided_for(targets[0], prompt_tokens=0, max_tokens=16)
    for target in targets * 30:
        exchange = exchange_of()
        async with hold(budgets, exchange, decided, ONE):
            exchange.note(ended(target, 0.0, output_tokens=tokens))


@pytest.mark.parametrize("kind", PRICES.values(), ids=PRICES)
@pytest.mark.parametrize(("has_limit", "seeds"), [(True, 60), (False, 50)], ids=["with max_tokens", "without"])
def test_fifty_at_once_spend_most_of_a_dollar_and_never_more(kind, has_limit, seeds):
    least, most = UNITS_PER_USD, 0
    for seed in range(seeds):
        chance = random.Random(seed)
        budgets = make_budgets(ONE)
        targets = (
            make_target(price=kind.first, window_tokens=10**6),
            make_target("sage", price=kind.second, window_tokens=10**6),
        )
        crowd = Crowd(budgets, ONE, targets, chance)
        if not has_limit:
            at_once(learn_lengths(budgets, targets, kind.output))

        at_once(crowd.serve([wish(chance, kind, has_limit=has_limit) for _ in range(50)]))

        assert budgets.picture(ADA.name)["day"]["held_usd"] == 0
        assert as_units(spent(budgets)[0]) == crowd.spent, f"seed {seed}"
        assert crowd.refused
        least, most = min(least, crowd.spent), max(most, crowd.spent)

    assert most <= UNITS_PER_USD
    assert least >= 0.9 * UNITS_PER_USD


def standing(budgets, decided, caller: str = "ada"):
    return budgets.standing(replace(decided.view, caller=Caller(caller)), decided.decision.signals)


async def test_a_caller_stands_where_the_day_or_the_month_is_nearer_to_its_end():
    both = Rights(daily_usd=1.0, monthly_usd=2.0)
    budgets = make_budgets(both, read=lambda span: {"ada": as_units(1.9) if span.ends - span.begins > 2 * DAY else 0})

    assert standing(budgets, decided_for(SPARK, **DIME)) == (0.95, Period.MONTH, frozenset())
    assert standing(budgets, decided_for(SPARK, **DIME), "bob") is None


async def test_a_target_is_not_covered_where_its_usual_answer_costs_more_than_is_left_and_not_held():
    budgets, decided = make_budgets(ONE), decided_for(SPARK, spill=(SAGE,), prompt_tokens=0, max_tokens=30_000)
    assert standing(budgets, decided) == (0.0, Period.DAY, frozenset())

    await spend(budgets, 0.89)
    assert standing(budgets, decided).uncovered == frozenset()
    async with hold(budgets, exchange_of(), decided_for(SPARK, **DIME), ONE):
        assert standing(budgets, decided).uncovered == {"sage"}
    await spend(budgets, 0.02)

    assert standing(budgets, decided).uncovered == {"sage"}


async def test_counting_tokens_does_not_steer():
    decided = decided_for(SPARK, **DIME)

    assert make_budgets(ONE).standing(replace(decided.view, operation=Operation.COUNT_TOKENS), decided.decision.signals) is None


async def test_the_used_part_is_that_of_the_day_or_the_month_where_it_is_more():
    rights = Rights(daily_usd=1.0, monthly_usd=10.0)
    budgets = make_budgets(rights, read=lambda span: {"ada": as_units(0.25)}, now=lambda: NOON)

    assert budgets.used_part("ada") == 0.25


LONG = {"prompt_tokens": 97_440, "max_tokens": 256}
"""A request to spark that costs a dime by its prompt."""


async def refuse(budgets, rights: Rights = ONE) -> None:
    with pytest.raises(BudgetSpent):
        await open_for(budgets, exchange_of(), decided_for(SPARK, **LONG), rights).admit(SPARK)


async def test_a_budget_is_near_from_warn_at_on_and_no_longer_the_next_day():
    clock = HandClock(NOON)
    budgets = make_budgets(ONE, now=clock)
    await spend(budgets, 0.79)
    before = budgets.find_troubles()
    clock.now = NOON + 60.0
    await spend(budgets, 0.04)

    (notice,) = budgets.find_troubles()

    assert before == []
    assert (notice.kind, notice.subject, notice.since) == ("budget_near", "ada", NOON + 60.0)
    assert notice.text == "ada: 83% of the daily budget of 1.00 USD is spent"
    clock.now = NOON + DAY
    assert budgets.find_troubles() == []


async def test_a_budget_that_was_too_small_for_a_request_says_what_is_left_until_another_is_served():
    clock = HandClock(NOON)
    budgets = make_budgets(ONE, now=clock)
    await spend(budgets, 0.70)
    clock.now = NOON + 60.0

    with pytest.raises(BudgetSpent):
        await spend(budgets, 0.05, prompt_tokens=400_000)

    (notice,) = budgets.find_troubles()
    assert (notice.kind, notice.since) == ("budget_near", NOON + 60.0)
    left = "ada: 0.30 USD of the daily budget of 1.00 USD is left, too little for the last request"
    assert notice.text == f"{left}; it resets at 2026-11-17 00:00 UTC"
    assert notice.hint == "tandem keys set ada --daily-usd AMOUNT"
    await spend(budgets, 0.01)
    assert budgets.find_troubles() == []


async def test_a_budget_of_which_nothing_is_left_is_used_up_and_a_refusal_says_no_more(listen):
    budgets = make_budgets(ONE, now=HandClock(NOON))
    await spend(budgets, 1.0)

    with pytest.raises(BudgetSpent) as caught:
        await spend(budgets, 0.01)

    assert caught.value.message == "your daily budget of 1.00 USD is used up. It resets at 2026-11-17 00:00 UTC"
    (notice,) = budgets.find_troubles()
    assert (notice.kind, notice.text) == (
        "budget_spent",
        "ada: the daily budget of 1.00 USD is used up until 2026-11-17 00:00 UTC",
    )


async def test_a_budget_of_which_nothing_is_left_is_spent_without_a_refusal():
    budgets = make_budgets(ONE, now=HandClock(NOON))
    await spend(budgets, 1.0)

    assert [notice.kind for notice in budgets.find_troubles()] == ["budget_spent"]


async def test_a_higher_budget_ends_the_trouble():
    budgets = make_budgets(ONE, now=HandClock(NOON))
    await spend(budgets, 0.95)
    await refuse(budgets)

    budgets.follow(Terms({"ada": Rights(daily_usd=5.0)}))

    assert budgets.find_troubles() == []


async def test_of_two_budgets_that_are_spent_the_monthly_is_shown():
    both = Rights(daily_usd=1.0, monthly_usd=1.0)
    budgets = make_budgets(both, now=HandClock(NOON))
    await spend(budgets, 1.0, both)

    (notice,) = budgets.find_troubles()

    assert "monthly budget" in notice.text
    assert "2026-12-01" in notice.text


async def test_what_was_nearly_spent_before_a_restart_still_is():
    budgets = make_budgets(ONE, now=HandClock(NOON), read=lambda span: {"ada": as_units(0.9)})

    assert [notice.text for notice in budgets.find_troubles()] == ["ada: 90% of the daily budget of 1.00 USD is spent"]


async def test_no_file_is_read():
    reads: list[float] = []

    def read(span):
        reads.append(span)
        return {}

    budgets = make_budgets(ONE, read=read, now=HandClock(NOON))
    reads.clear()
    budgets.find_troubles()

    assert reads == []


class Rows:
    """What a ledger adds up: rows with a moment and a cost."""

    def __init__(self, *rows: tuple[float, float]) -> None:
        self.rows = list(rows)

    def __call__(self, span):
        return {"ada": sum(as_units(cost) for at, cost in self.rows if span.begins <= at < span.ends)}


async def test_a_clock_that_was_ahead_for_one_request_changes_no_budget_of_today():
    rows, clock = Rows((NOON - 60, 0.3)), HandClock(NOON)
    budgets = make_budgets(ONE, read=rows, now=clock)
    await spend(budgets, 0.05)

    clock.now = NOON + 40 * DAY
    await spend(budgets, 0.9)
    rows.rows.append((clock.now, 0.9))
    clock.now = NOON + 1

    assert spent(budgets) == (0.35, 0.0)
    await spend(budgets, 0.05)
    budgets.recall(budgets.read_spending())
    assert spent(budgets) == (0.4, 0.0)


async def test_a_router_that_started_with_its_clock_ahead_reads_the_ledger_again_when_it_is_right():
    rows, clock = Rows((NOON - 60, 0.99), (NOON + 40 * DAY, 0.2)), HandClock(NOON + 40 * DAY)
    budgets = make_budgets(ONE, read=rows, now=clock)
    assert spent(budgets) == (0.2, 0.0)

    clock.now = NOON

    assert spent(budgets) == (0.99, 0.0)
    assert budgets.picture("ada")["day"]["resets_at"] == "2026-11-17T00:00:00+00:00"
    await refuse(budgets)
    clock.now = NOON + DAY
    assert spent(budgets) == (0.0, 0.0)


async def test_a_clock_that_is_set_back_over_midnight_and_comes_there_again_forgets_nothing():
    clock = HandClock(midnight := NOON + DAY / 2)
    budgets = make_budgets(ONE, now=clock)
    await spend(budgets, 0.05)

    clock.now = midnight - 3_600
    assert spent(budgets) == (0.0, 0.0)
    await spend(budgets, 0.02)
    clock.now = midnight + 1

    assert spent(budgets) == (0.05, 0.0)


async def test_a_notice_of_a_budget_waits_for_the_ledger_where_the_clock_was_ahead():
    clock = HandClock(NOON + 40 * DAY)
    budgets = make_budgets(ONE, now=clock, read=Rows((NOON, 0.9)))
    clock.now = NOON

    assert budgets.find_troubles() == []
    budgets.recall(budgets.read_spending())
    assert [notice.text for notice in budgets.find_troubles()] == ["ada: 90% of the daily budget of 1.00 USD is spent"]


def part_of(pool):
    (part,) = pool.parts.values()
    return part


async def test_of_a_budget_that_routers_share_what_a_request_may_cost_is_set_aside_and_what_it_cost_is_told():
    pool = Pool()
    budgets = make_budgets(ONE, allowance=pool)

    await spend(budgets, 0.03)

    assert part_of(pool).spent == as_units(0.03)
    assert part_of(pool).allowed == as_units(0.07)


async def test_what_the_ledger_says_is_told_to_all_routers_before_anybody_asks_for_that_budget_here():
    pool, unspent = Pool(), Pool()

    make_budgets(ONE, allowance=pool, read=lambda span: {"ada": 77})
    make_budgets(ONE, allowance=unspent)

    assert part_of(pool).recalled == 77
    assert not unspent.parts


async def test_what_other_routers_hold_is_named_where_it_is_why_there_is_no_room():
    pool = Pool(0)
    budgets = make_budgets(ONE, allowance=pool)
    await refuse(budgets)
    part_of(pool).held_elsewhere = UNITS_PER_USD

    with pytest.raises(BudgetHeld, match=r"other requests hold 1.00 USD until they end"):
        await open_for(budgets, exchange_of(), decided_for(SPARK, **DIME), ONE).admit(SPARK)


async def test_a_further_attempt_is_asked_for_of_the_store():
    pool, exchange = Pool(), exchange_of()
    holding = open_for(make_budgets(ONE, allowance=pool), exchange, decided_for(SPARK, **DIME), ONE)
    await holding.admit(SPARK)
    exchange.note(ended(SPARK, 0.05))
    left = part_of(pool).left

    await holding.admit(SPARK)

    assert left - part_of(pool).left == pytest.approx(as_units(0.05), abs=1)


async def test_a_ledger_that_is_behind_gives_nothing_back():
    budgets = make_budgets(ONE)
    await spend(budgets, 0.95)

    budgets.recall(budgets.read_spending())

    await refuse(budgets)


async def test_what_this_router_had_of_a_day_that_is_over_is_given_back():
    pool, clock = Pool(), HandClock(NOON)
    budgets = make_budgets(ONE, allowance=pool, now=clock)
    await spend(budgets, 0.03)
    clock.now += DAY

    await spend(budgets, 0.03)

    assert [part.is_closed for part in pool.parts.values()] == [True, False]
