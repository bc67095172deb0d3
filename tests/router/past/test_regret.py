"""The regret meter: which turns count for which figure, and which do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.decision import Projection
from router.contract.target import Price, PriceStep
from router.contract.words import Outcome, Tier
from router.decide.against import TierSums, all_deep, as_it_was
from router.decide.yardstick import Assumptions
from router.past.cases import RegretSign
from router.past.regret import Regret, Sure, cold_tokens, find_signs
from router.past.turns import Call, Turn

FAST, DEEP = Tier.FAST, Tier.DEEP
PRICE = Price(input=10.0, output=50.0, cached_input=1.0, steps=(PriceStep(above_tokens=50_000, input=20.0, output=75.0),))


def expect(seconds: float, usd: float = 0.01, *, has_price: bool = True) -> Projection:
    return Projection("x", 0.0, seconds, 0.0, usd, 0.0, has_price)


def call(name: str, tier: Tier = FAST, seconds: float = 2.0, **more) -> Call:
    return Call(name, tier, seconds, **{"decided": tier, "usd": 0.01, **more})


def turn(name: str, tier: Tier = FAST, seconds: float = 2.0, *, later: tuple[Call, ...] = (), of_call=None, **more) -> Turn:
    known = {"session": "s", "fast": expect(2.0), "deep": expect(20.0, 0.05), **more}
    return Turn([call(name, tier, seconds, **(of_call or {})), *later], **known)


def rows_of(name: str, *turns: Turn) -> tuple[str, ...]:
    return Regret.of(turns).figures[name].rows


def signs_of(*turns: Turn) -> dict[str, RegretSign]:
    return {turn.id: sign for turn, sign in find_signs(turns)}


ASKED_FOR_DEEP = turn("up", DEEP, of_call={"is_asked_for": True}, is_weighed=False)


def test_nothing_at_all_is_no_regret():
    regret = Regret.of([])

    assert {figure.value for figure in regret.figures.values()} == {0}
    assert {figure.count for figure in regret.figures.values()} == {0}


@pytest.mark.parametrize(
    ("wrong", "after", "sign"),
    [
        (turn("1", should_be=DEEP), [], RegretSign.MARKED),
        (turn("1", later=(call("1b", DEEP),)), [], RegretSign.MOVED_UP),
        (turn("1"), [ASKED_FOR_DEEP], RegretSign.ASKED_FOR_DEEP),
        (turn("1"), [turn("2", DEEP), ASKED_FOR_DEEP], RegretSign.ASKED_FOR_DEEP),
        (turn("1", later=(call("1b", DEEP, is_asked_for=True),)), [], RegretSign.ASKED_FOR_DEEP),
        (turn("1"), [turn("2", DEEP, says_wrong=True)], RegretSign.ASKED_AGAIN),
        (turn("1", words="fix the parser"), [turn("2", DEEP, words="it is still wrong")], RegretSign.ASKED_AGAIN),
    ],
)
def test_every_sign_makes_a_turn_on_fast_a_lost_one_and_not_a_saved_one(wrong, after, sign):
    assert signs_of(wrong, *after) == {"1": sign}
    assert rows_of("lost_seconds", wrong, *after) == ("1",)
    assert rows_of("saved_seconds", wrong, *after) == ()


@pytest.mark.parametrize(
    "turns",
    [
        [turn("1"), turn("2")],
        [turn("1"), turn("2", says_wrong=False, words="thanks")],
        [turn("1", should_be=FAST), turn("2", says_wrong=True)],
        [turn("1"), turn("2", DEEP), turn("3", DEEP), ASKED_FOR_DEEP],
        [turn("1", of_call={"is_asked_for": True}), ASKED_FOR_DEEP],
        [turn("1"), turn("2", DEEP, says_wrong=True, session="another")],
        [turn("1"), turn("2", DEEP, says_wrong=True, caller="another")],
        [turn("1", later=(call("1b", DEEP, decided=FAST),))],
        [turn("1", of_call={"decided": DEEP}, later=(call("1b", DEEP),))],
    ],
    ids=[
        "nothing said",
        "content",
        "marked as right",
        "asked for deep three turns later",
        "the person chooses every tier",
        "another session",
        "another caller",
        "a failing target's work went to deep",
        "only its ask spilled to fast",
    ],
)
def test_without_a_sign_a_turn_on_fast_is_a_saved_one(turns):
    assert "1" not in signs_of(*turns)
    assert "1" in rows_of("saved_seconds", *turns)


def test_a_turn_that_shows_every_sign_is_lost_once_with_the_time_of_fast_alone():
    worst = turn("1", seconds=1.5, should_be=DEEP, later=(call("1b", FAST, 0.25), call("1c", DEEP, 60.0)))
    after = turn("2", DEEP, of_call={"is_asked_for": True}, says_wrong=True)

    lost = Regret.of([worst, after]).figures["lost_seconds"]

    assert (lost.value, lost.count, lost.sure) == (1.75, 1, Sure.MEASURED)


def test_what_was_lost_is_only_estimated_where_a_sign_leaves_room_for_doubt():
    asked_again = [turn("1"), turn("2", says_wrong=True, should_be=DEEP)]

    assert Regret.of(asked_again).figures["lost_seconds"].sure is Sure.ESTIMATED
    assert Regret.of(asked_again[1:]).figures["lost_seconds"].sure is Sure.MEASURED


SHORT = {"of_call": {"output_tokens": 300}}


def test_a_short_turn_that_went_well_on_deep_was_needless():
    needless = Regret.of([turn("1", DEEP, 20.0, **SHORT)]).figures["deep_needlessly_seconds"]

    assert (needless.value, needless.rows, needless.sure) == (18.0, ("1",), Sure.GUESSED)


@pytest.mark.parametrize(
    "turns",
    [
        [turn("1", FAST)],
        [turn("1", DEEP, of_call={"output_tokens": 2_001})],
        [turn("1", DEEP, later=tuple(call(str(number), DEEP) for number in range(4)))],
        [turn("1", DEEP, later=(call("1b", DEEP, has_trouble=True),))],
        [turn("1", DEEP, of_call={"outcome": Outcome.ABANDONED})],
        [turn("1", DEEP, of_call={"outcome": Outcome.CUT_SHORT})],
        [turn("1", DEEP, is_weighed=False)],
        [turn("1", DEEP, fast=None)],
        [turn("1", DEEP, should_be=DEEP)],
        [turn("1", DEEP, words="fix the parser"), turn("2", FAST, words="it is still wrong")],
    ],
    ids=["fast", "long", "many calls", "trouble", "left", "cut", "asked for", "no fast", "marked", "asked again"],
)
def test_a_turn_that_fast_might_not_have_done_was_not_needless(turns):
    assert rows_of("deep_needlessly_seconds", *turns) == ()


def test_a_long_turn_that_was_marked_for_fast_was_needless():
    assert rows_of("deep_needlessly_seconds", turn("1", DEEP, of_call={"output_tokens": 9_000}, should_be=FAST)) == ("1",)


def test_money_of_turns_without_a_price_is_left_out_and_not_taken_for_nothing():
    free, priced = turn("1", of_call={"usd": None}), turn("2")
    unpriced = turn("3", deep=expect(20.0, has_price=False))

    figures = Regret.of([free, priced, unpriced]).figures

    assert (figures["saved_usd"].value, figures["saved_usd"].rows) == (0.04, ("2",))
    assert figures["saved_seconds"].count == 3


def test_a_hop_to_a_target_without_a_price_is_left_out():
    turns = [turn("1", of_call={"input_tokens": 1_000}), turn("2", DEEP, of_call={"input_tokens": 1_000, "target": "oracle"})]

    assert Regret.of(turns).figures["hops_usd"].count == 0
    assert Regret.of(turns, lambda name: PRICE).figures["hops_usd"].value == pytest.approx(0.009)


def test_a_hop_with_a_long_prompt_costs_what_the_price_of_long_prompts_is():
    turns = [turn("1", of_call={"input_tokens": 100_000}), turn("2", DEEP, of_call={"input_tokens": 100_000})]

    assert Regret.of(turns, lambda name: PRICE).figures["hops_usd"].value == pytest.approx(0.1 * (20 - 2))


@pytest.mark.parametrize(
    ("before", "after", "tokens"),
    [
        (call("1", input_tokens=1_000, output_tokens=50), call("2", DEEP, input_tokens=5_000), 1_050),
        (call("1", input_tokens=9_000), call("2", DEEP, input_tokens=5_000), 5_000),
        (call("1", input_tokens=1_000), call("2", DEEP, input_tokens=5_000, cached_tokens=400), 600),
        (call("1", input_tokens=1_000), call("2", DEEP, input_tokens=5_000, cached_tokens=4_000), 0),
        (call("1", input_tokens=1_000, at=0.0), call("2", DEEP, input_tokens=5_000, at=302.0), 1_000),
        (call("1", input_tokens=1_000, at=0.0), call("2", DEEP, input_tokens=5_000, at=302.1), 0),
    ],
    ids=["what is new is read anyway", "a shorter prompt", "partly warm", "still warm", "just in time", "forgotten anyway"],
)
def test_a_hop_reads_again_what_would_have_been_cached(before, after, tokens):
    assert cold_tokens(before, after, minutes=5.0) == tokens


def test_tokens_of_interrupted_answers_are_an_estimate_of_what_came_too_late():
    left = {"outcome": Outcome.INTERRUPTED, "output_tokens": 70}

    both = Regret.of([turn("1", of_call=left), turn("2", of_call=left), turn("3")]).figures["after_interrupt_tokens"]

    assert (both.value, both.count, both.sure) == (140, 2, Sure.ESTIMATED)


def test_a_figure_names_at_most_fifty_requests_and_counts_them_all():
    saved = Regret.of([turn(str(number), seconds=float(number)) for number in range(1, 61)]).figures["saved_seconds"]

    assert (len(saved.rows), saved.count, saved.rows[:2]) == (50, 60, ("60", "59"))


seconds = some.floats(0.1, 500.0)


@given(some.lists(some.tuples(some.sampled_from(Tier), seconds, seconds, seconds), min_size=1, max_size=8))
def test_what_is_saved_is_what_the_screen_says_against_all_on_deep(history):
    sums = {tier: TierSums() for tier in Tier}
    turns = []
    for number, (tier, took, fast, deep) in enumerate(history):
        turns.append(turn(str(number), tier, took, fast=expect(fast), deep=expect(deep), session=str(number)))
        sums[tier].measure(took, 0.01)
        sums[tier].begin(expect(fast), expect(deep), 0.0, has_cost=True)

    saved = Regret.of(turns).figures

    deep, was = all_deep(sums), as_it_was(sums, Assumptions())
    assert saved["saved_seconds"].value == pytest.approx(deep.seconds - was.seconds, abs=0.001)
    assert saved["saved_usd"].value == pytest.approx(deep.usd - was.usd, abs=1e-7)
