"""The regret meter: which turns count for which figure, and which do not."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.caller import Caller
from router.contract.decision import Projection
from router.contract.past import RecentCalls
from router.contract.target import Price, PriceStep
from router.contract.words import SAID_WRONG, Outcome, Tier, TurnKind
from router.decide.yardstick import Assumptions
from router.past.regret import MAX_ROWS, Regret, RegretSign, Sure, cold_tokens, find_signs, look_back
from router.past.rows import Call, Said
from router.past.sums import TierSums, all_deep, as_it_was
from router.past.turns import read_turns
from router.stores.sqlite.marks import mark_misjudged
from router.stores.sqlite.past import SqliteEntryReader
from tests.tools.kept import make_call, make_entry
from tests.tools.ledgers import write_ledger

FAST, DEEP, LOOP = Tier.FAST, Tier.DEEP, TurnKind.TOOL_LOOP
PRICE = Price(input=10.0, output=50.0, cached_input=1.0, steps=(PriceStep(above_tokens=50_000, input=20.0, output=75.0),))
ASKED_FOR = {"decided_by": "override"}
SAYS_WRONG = {"leans": (("learned", Said(SAID_WRONG, 1.0)),)}
FAILING = {"leans": (("trajectory", Said("calls failed", 1.0)),)}
Calls = tuple[Call, ...]


def expect(seconds: float, usd: float = 0.01, *, has_price: bool = True) -> Projection:
    return Projection("x", 0.0, seconds, 0.0, usd, 0.0, has_price)


def call(name: str, tier: Tier = FAST, seconds: float = 2.0, kind: TurnKind = LOOP, **more) -> Call:
    tokens = dict.fromkeys(("input_tokens", "cached_tokens", "output_tokens"), 0)
    return make_call(name, kind, tier, **{"at": 0.0, "duration_ms": seconds * 1000, **tokens, **more})


def turn(name: str, tier: Tier = FAST, seconds: float = 2.0, *, later: Calls = (), **more) -> Calls:
    known = {"fast": expect(2.0), "deep": expect(20.0, 0.05), **more}
    return (call(name, tier, seconds, TurnKind.ASK, **known), *later)


def regret_of(*turns: Calls, price_of=lambda _: None) -> Regret:
    return Regret.of(read_turns(one for calls in turns for one in calls), price_of)


def rows_of(name: str, *turns: Calls) -> tuple[str, ...]:
    return regret_of(*turns).figures[name].rows


def signs_of(*turns: Calls) -> dict[str, RegretSign]:
    return {turn.ask.line.id: sign for turn, sign in find_signs(read_turns(one for calls in turns for one in calls))}


ASKED_FOR_DEEP = turn("up", DEEP, **ASKED_FOR)


def test_nothing_at_all_is_no_regret():
    regret = regret_of()

    assert {figure.value for figure in regret.figures.values()} == {0}
    assert {figure.count for figure in regret.figures.values()} == {0}


@pytest.mark.parametrize(
    ("wrong", "after", "sign"),
    [
        (turn("1", should_be=DEEP), [], RegretSign.MARKED),
        (turn("1", later=(call("1b", DEEP),)), [], RegretSign.MOVED_UP),
        (turn("1"), [ASKED_FOR_DEEP], RegretSign.ASKED_FOR_DEEP),
        (turn("1"), [turn("2", DEEP), ASKED_FOR_DEEP], RegretSign.ASKED_FOR_DEEP),
        (turn("1", later=(call("1b", DEEP, **ASKED_FOR),)), [], RegretSign.ASKED_FOR_DEEP),
        (turn("1"), [turn("2", DEEP, **SAYS_WRONG)], RegretSign.ASKED_AGAIN),
        (turn("1", person_text="fix the parser"), [turn("2", DEEP, person_text="it is still wrong")], RegretSign.ASKED_AGAIN),
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
        [turn("1"), turn("2", person_text="thanks")],
        [turn("1", should_be=FAST), turn("2", **SAYS_WRONG)],
        [turn("1"), turn("2", DEEP), turn("3", DEEP), ASKED_FOR_DEEP],
        [turn("1", **ASKED_FOR), ASKED_FOR_DEEP],
        [turn("1"), turn("2", DEEP, **SAYS_WRONG, session="another")],
        [turn("1"), turn("2", DEEP, **SAYS_WRONG, caller="another")],
        [turn("1", later=(call("1b", DEEP, decided=FAST),))],
        [turn("1", decided=DEEP, later=(call("1b", DEEP),))],
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
    after = turn("2", DEEP, **ASKED_FOR, **SAYS_WRONG)

    lost = regret_of(worst, after).figures["lost_seconds"]

    assert (lost.value, lost.count, lost.sure) == (1.75, 1, Sure.MEASURED)


def test_what_was_lost_is_only_estimated_where_a_sign_leaves_room_for_doubt():
    asked_again = [turn("1"), turn("2", **SAYS_WRONG, should_be=DEEP)]

    assert regret_of(*asked_again).figures["lost_seconds"].sure is Sure.ESTIMATED
    assert regret_of(*asked_again[1:]).figures["lost_seconds"].sure is Sure.MEASURED


SHORT = {"output_tokens": 300}


def test_a_short_turn_that_went_well_on_deep_was_needless():
    needless = regret_of(turn("1", DEEP, 20.0, **SHORT)).figures["deep_needlessly_seconds"]

    assert (needless.value, needless.rows, needless.sure) == (18.0, ("1",), Sure.GUESSED)


@pytest.mark.parametrize(
    "turns",
    [
        [turn("1", FAST)],
        [turn("1", DEEP, output_tokens=2_001)],
        [turn("1", DEEP, later=tuple(call(str(number), DEEP) for number in range(4)))],
        [turn("1", DEEP, later=(call("1b", DEEP, **FAILING),))],
        [turn("1", DEEP, outcome=Outcome.ABANDONED)],
        [turn("1", DEEP, outcome=Outcome.CUT_SHORT)],
        [turn("1", DEEP, decided_by="rule_out")],
        [turn("1", DEEP, fast=None)],
        [turn("1", DEEP, should_be=DEEP)],
        [turn("1", DEEP, person_text="fix the parser"), turn("2", FAST, person_text="it is still wrong")],
    ],
    ids=["fast", "long", "many calls", "trouble", "left", "cut", "asked for", "no fast", "marked", "asked again"],
)
def test_a_turn_that_fast_might_not_have_done_was_not_needless(turns):
    assert rows_of("deep_needlessly_seconds", *turns) == ()


def test_a_long_turn_that_was_marked_for_fast_was_needless():
    assert rows_of("deep_needlessly_seconds", turn("1", DEEP, output_tokens=9_000, should_be=FAST)) == ("1",)


def test_money_of_turns_without_a_price_is_left_out_and_not_taken_for_nothing():
    free, priced = turn("1", cost_usd=None), turn("2")
    unpriced = turn("3", deep=expect(20.0, has_price=False))

    figures = regret_of(free, priced, unpriced).figures

    assert (figures["saved_usd"].value, figures["saved_usd"].rows) == (0.04, ("2",))
    assert figures["saved_seconds"].count == 3


def test_a_hop_to_a_target_without_a_price_is_left_out():
    turns = [turn("1", input_tokens=1_000), turn("2", DEEP, input_tokens=1_000, target="oracle")]

    assert regret_of(*turns).figures["hops_usd"].count == 0
    assert regret_of(*turns, price_of=lambda name: PRICE).figures["hops_usd"].value == pytest.approx(0.009)


def test_a_hop_with_a_long_prompt_costs_what_the_price_of_long_prompts_is():
    turns = [turn("1", input_tokens=100_000), turn("2", DEEP, input_tokens=100_000)]

    assert regret_of(*turns, price_of=lambda name: PRICE).figures["hops_usd"].value == pytest.approx(0.1 * (20 - 2))


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
    assert cold_tokens(before.line, after.line, minutes=5.0) == tokens


def test_tokens_of_interrupted_answers_are_an_estimate_of_what_came_too_late():
    left = {"outcome": Outcome.INTERRUPTED, "output_tokens": 70}

    both = regret_of(turn("1", **left), turn("2", **left), turn("3")).figures["after_interrupt_tokens"]

    assert (both.value, both.count, both.sure) == (140, 2, Sure.ESTIMATED)


def test_a_figure_names_at_most_fifty_requests_and_counts_them_all():
    saved = regret_of(*(turn(str(number), seconds=float(number)) for number in range(1, 61))).figures["saved_seconds"]

    assert (len(saved.rows), saved.count, saved.rows[:2]) == (50, 60, ("60", "59"))


seconds = some.floats(0.1, 500.0)


@given(some.lists(some.tuples(some.sampled_from(Tier), seconds, seconds, seconds), min_size=1, max_size=8))
def test_what_is_saved_is_what_the_screen_says_against_all_on_deep(history):
    sums = {tier: TierSums() for tier in Tier}
    turns = []
    for number, (tier, took, fast, deep) in enumerate(history):
        turns.append(turn(str(number), tier, took, fast=expect(fast), deep=expect(deep), session=str(number)))
        ask = turns[-1][0]
        sums[tier].measure(ask.line)
        sums[tier].begin(ask.line, ask.kept)

    saved = regret_of(*turns).figures

    deep, was = all_deep(sums), as_it_was(sums, Assumptions())
    assert saved["saved_seconds"].value == pytest.approx(deep.seconds - was.seconds, abs=0.001)
    assert saved["saved_usd"].value == pytest.approx(deep.usd - was.usd, abs=1e-7)


BEGAN = time.time() - 3_600.0
PRICES = {
    "spark": Price(input=1.0, output=5.0, cached_input=0.1),
    "oracle": Price(input=10.0, output=50.0, cached_input=1.0, cache_write=12.5, cache_minutes=5.0),
}


def keep(tier: str, fast=(2.0, 0.01), deep=(20.0, 0.05), *, decided_by="estimate", leans=()) -> str:
    """A decision for a tier, with what it expected of both: seconds and USD, whatever the score."""
    sides = {
        name: [name, 0.0, seconds, 0.0, usd, 0.0, True, [1.0, 1.0]] for name, (seconds, usd) in (("fast", fast), ("deep", deep))
    }
    said = [[policy, {"log_odds": 1.0, "because": because}] for policy, because in leans]
    return json.dumps({"v": 3, "tier": tier, "decided_by": decided_by, "leans": said, **sides})


def row(name: str, tier: str, after: float, seconds: float, usd: float, tokens: tuple[int, int, int], **more):
    """A call of the session that the first letter of its name stands for; tokens in, of them cached, and out."""
    went_in, cached, out = tokens
    return make_entry(
        name,
        session=name[0],
        at=BEGAN + after,
        tier=tier,
        target="spark" if tier == Tier.FAST else "oracle",
        duration_ms=seconds * 1000,
        cost_usd=usd,
        input_tokens=went_in,
        cached_tokens=cached,
        output_tokens=out,
        **{"decision": keep(tier), **more},
    )


WRONG = (("learned", SAID_WRONG),)
HISTORY = (
    # a: right on fast; wrong on fast, as the next words say; then a long turn on deep, which reads 10,500 tokens again.
    row("a1", "fast", 0, 2.0, 0.004, (9_000, 8_000, 400)),
    row("a2", "fast", 10, 3.5, 0.006, (10_000, 9_000, 500)),
    row("a3", "deep", 20, 30.0, 0.4, (12_000, 0, 5_000), decision=keep("deep", leans=WRONG)),
    # b: moved up by the router, asked again and marked: one turn, of which fast had two calls. Then a short turn on deep.
    row("b1", "fast", 0, 1.0, 0.001, (3_000, 0, 80)),
    row("b2", "fast", 2, 1.25, 0.002, (4_000, 3_000, 100), turn_kind=LOOP),
    row(
        "b3",
        "deep",
        4,
        8.0,
        0.09,
        (6_000, 1_000, 900),
        decision=keep("deep", leans=(("trajectory", "calls failed"),)),
        turn_kind=LOOP,
    ),
    row("b4", "deep", 20, 12.0, 0.02, (7_000, 6_900, 150), decision=keep("deep", leans=WRONG)),
    # c: the person asks for deep after two turns on fast, and after a pause in which every cache is cold. Then back to fast.
    row("c1", "fast", 0, 0.75, 0.001, (1_000, 0, 50)),
    row("c2", "fast", 5, 0.5, 0.001, (1_100, 1_000, 50)),
    row("c3", "deep", 600, 40.0, 0.3, (20_000, 0, 300), decision=keep("deep", decided_by="override")),
    row("c4", "fast", 645, 4.0, 0.007, (20_500, 2_000, 100), decision=keep("fast", (3.0, 0.01), (25.0, 0.05))),
    # d: two answers that were broken off, the first of which nobody counted.
    row(
        *("d1", "fast", 0, 1.5, 0.002, (1_000, 0, 120)),
        decision=keep("fast", (1.0, 0.01), (16.0, 0.08)),
        outcome=Outcome.ABANDONED,
        tokens_estimated=True,
    ),
    row("d2", "deep", 5, 9.0, 0.05, (900, 0, 80), outcome=Outcome.INTERRUPTED),
)


@pytest.fixture
def ledger(tmp_path):
    path = write_ledger(tmp_path / "test.db", *HISTORY)
    reader = SqliteEntryReader(path)
    mark_misjudged(path, reader.find_turn("b1"), Tier.DEEP)
    return reader


def test_a_known_history_has_the_regret_that_was_worked_out_by_hand(ledger):
    found = look_back(ledger, PRICES.get, 0.0)

    assert (found.is_complete, found.regret.turns) == (True, 11)
    figures = {name: (figure.value, figure.count, figure.sure, figure.rows) for name, figure in found.regret.figures.items()}
    assert figures == {
        # 2.0 + 4.0 + 1.5 s on fast, where (20 + 25 + 16) / (2 + 3 + 1) times as long was expected of deep
        "saved_seconds": (68.75, 3, "estimated", ("c4", "a1", "d1")),
        # a2; both fast calls of b1; c1 and c2
        "lost_seconds": (7.0, 4, "estimated", ("a2", "b1", "c1", "c2")),
        # b4 took 12 s where fast was expected to take a tenth
        "deep_needlessly_seconds": (10.8, 1, "guessed", ("b4",)),
        # 0.013 USD, where (0.05 + 0.05 + 0.08) / 0.03 times as much was expected of deep
        "saved_usd": (0.065, 3, "estimated", ("c4", "a1", "d1")),
        "lost_usd": (0.011, 4, "estimated", ("a2", "b1", "c1", "c2")),
        # 10,500 and 3,100 and 900 tokens at 12.5 - 1 USD a million, 18,300 at 1 - 0.1, and none after the pause
        "hops_usd": (0.18322, 5, "estimated", ("a3", "b3", "c4", "d2", "c3")),
        "after_interrupt_tokens": (200, 2, "estimated", ("d1", "d2")),
    }
    assert found.regret.seconds == {"saved": 68.75, "lost": 7.0, "deep_needlessly": 10.8}


def test_every_figure_says_how_it_is_computed_in_one_sentence(ledger):
    shown = look_back(ledger, PRICES.get, 0.0).as_json()

    assert set(shown) == {"since", "from", "complete", "turns", "figures"}
    for figure in shown["figures"].values():
        assert set(figure) == {"value", "unit", "sure", "how", "rows", "count"}
        assert figure["how"].endswith(".")
        assert ". " not in figure["how"]
    assert json.loads(json.dumps(shown)) == shown


def test_a_caller_is_shown_its_own_turns_alone(tmp_path):
    mine, other = (row(name, "fast", 0, 2.0, 0.004, (9, 0, 4), caller=Caller(name)) for name in ("ann", "bob"))
    reader = SqliteEntryReader(write_ledger(tmp_path / "test.db", mine, other))

    assert look_back(reader, PRICES.get, 0.0, "ann").regret.figures["saved_seconds"].rows == ("ann",)
    assert look_back(reader, PRICES.get, 0.0).regret.turns == 2


def test_what_is_too_old_to_be_looked_at_is_said_to_be_left_out():
    class Bounded:
        def read_recent_calls(self, read, since, rows, caller):
            assert (since, rows, caller) == (100.0, MAX_ROWS, None)
            return RecentCalls([], 250.0, is_complete=False)

    shown = look_back(Bounded(), PRICES.get, 100.0).as_json()

    assert (shown["since"], shown["from"], shown["complete"], shown["turns"]) == (100.0, 250.0, False, 0)
