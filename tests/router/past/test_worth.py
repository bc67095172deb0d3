"""What Tandem was worth: which calls and turns count for which figure, and in which words."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.decision import Projection
from router.contract.past import SpentCall
from router.contract.words import Outcome, Tier, TurnKind
from router.past.worth import MAX_SESSIONS, Account, Redone, Turn, Worth

FAST, DEEP, LOOP = Tier.FAST, Tier.DEEP, TurnKind.TOOL_LOOP
ASKED_FOR = {"decided_by": "override"}
ASKS_AGAIN = {"asked_again": True}


def expect(seconds: float, usd: float = 0.01, *, has_price: bool = True) -> Projection:
    return Projection("x", 0.0, seconds, 0.0, usd, 0.0, has_price)


EXPECTED = {"fast": expect(2.0, 0.01), "deep": expect(20.0, 0.05)}


def keep(tier: Tier, **kept) -> str:
    return msgspec.json.encode({"v": 3, "tier": tier, "decided_by": "estimate", **EXPECTED, **kept}).decode()


def call(name: str, tier: Tier | None = FAST, seconds: float = 2.0, *, decided: Tier | None = None, **more) -> SpentCall:
    kept = {key: more.pop(key) for key in ("decided_by", "asked_again", "fast", "deep", "person_text") if key in more}
    own = {"caller": "ann", "session": "s", "kind": LOOP, "outcome": Outcome.SERVED, "cost_usd": 0.01, "is_unpriced": 0}
    made = {**own, "tier": tier, "duration_ms": seconds * 1000, "id": name, "decision": keep(decided or tier or FAST, **kept)}
    return SpentCall(**{**made, **more})


def turn(name: str, tier: Tier | None = FAST, seconds: float = 2.0, *, later: tuple[SpentCall, ...] = (), **more):
    return (call(name, tier, seconds, **{"kind": TurnKind.ASK, **more}), *later)


def worth_of(*turns: tuple[SpentCall, ...], marks: dict[str, Tier] | None = None) -> tuple[Worth, dict[str, Redone]]:
    worth, ended = Worth(), list[Turn]()
    account = Account(marks or {}, ended.append)
    for one in (one for calls in turns for one in calls):
        account.add(one)
    account.close()
    for one in ended:
        one.add_to(worth)
    return worth, {one.ask.id: one.sign for one in ended if one.sign is not None}


ASKED_FOR_DEEP = turn("up", DEEP, **ASKED_FOR)


def test_nothing_at_all_is_nothing():
    worth, _ = worth_of()

    assert (worth, worth.sentence(), worth.summary()) == (Worth(), "no turns", "no turns")


def test_what_fast_did_is_scaled_to_deep_by_what_was_expected_of_both():
    worth, _ = worth_of(turn("1", seconds=3.0, cost_usd=0.002, later=(call("1b", seconds=1.0, cost_usd=0.004),)))

    assert (worth.seconds, worth.usd) == (4.0, 0.006)
    assert worth.as_json()["all_deep"] == {"seconds": 40.0, "usd": 0.03}
    assert worth.as_json()["saved"] == {"seconds": 36.0, "usd": 0.024}


def test_what_deep_did_counts_as_it_was_and_so_does_a_call_without_an_expectation():
    lacking = {"fast": None, "deep": None}

    worth, _ = worth_of(turn("1", DEEP, 30.0), turn("2", seconds=4.0, **lacking))

    assert (worth.seconds, worth.saved_seconds, worth.saved_usd, worth.compared) == (34.0, 0.0, 0.0, 0)
    assert worth.sentence() == "no estimate of all on deep"
    assert worth_of(turn("1", DEEP))[0].sentence() == "the same as all on deep"


def test_the_expectation_is_that_of_the_score():
    fast, deep = Projection("x", 0.0, 1.0, 2.0, 0.0, 0.02, True), Projection("x", 0.0, 10.0, 20.0, 0.0, 0.2, True)

    worth, _ = worth_of(turn("1", seconds=4.0, cost_usd=0.02, score=0.5, fast=fast, deep=deep))

    assert worth.as_json()["all_deep"] == {"seconds": 40.0, "usd": 0.2}


def test_a_model_that_costs_nothing_is_scaled_by_its_time():
    worth, _ = worth_of(turn("1", seconds=1.0, cost_usd=0.0, fast=expect(2.0, 0.0), deep=expect(20.0, 0.05)))

    assert worth.saved_usd == pytest.approx(0.025)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_an_expectation_that_no_clock_gives_is_none(seconds):
    worth, _ = worth_of(turn("1", fast=expect(seconds) if math.isfinite(seconds) else None))

    assert (worth.compared, worth.saved_seconds) == (0, 0.0)


@pytest.mark.parametrize(
    ("wrong", "after", "sign"),
    [
        (turn("1", later=(call("1b", DEEP),)), [], Redone.MOVED_UP),
        (turn("1"), [ASKED_FOR_DEEP], Redone.ASKED_FOR_DEEP),
        (turn("1", later=(call("1b", DEEP, **ASKED_FOR),)), [], Redone.ASKED_FOR_DEEP),
        (turn("1"), [turn("2", DEEP, **ASKS_AGAIN)], Redone.ASKED_AGAIN),
    ],
)
def test_a_turn_that_was_redone_saved_nothing_and_cost_what_fast_did(wrong, after, sign):
    worth, signs = worth_of(wrong, *after)

    assert (signs, worth.redone) == ({"1": sign}, {sign: 1})
    assert (worth.redone_seconds, worth.redone_usd) == (2.0, 0.01)
    assert (worth.saved_seconds, worth.saved_usd) == (-2.0, -0.01)


def test_a_marked_turn_was_redone_and_a_mark_for_fast_overrules_every_sign():
    calls = (turn("1", later=(call("1b", DEEP),)), turn("2", DEEP, **ASKS_AGAIN))

    assert worth_of(turn("1"), marks={"1": DEEP})[1] == {"1": Redone.MARKED}
    assert worth_of(*calls, marks={"1": FAST})[1] == {}
    assert worth_of(turn("1", DEEP), marks={"1": DEEP})[1] == {}, "deep had served it"


@pytest.mark.parametrize(
    "turns",
    [
        [turn("1"), turn("2")],
        [turn("1"), turn("2", person_text="thanks")],
        [turn("1"), turn("2", DEEP), ASKED_FOR_DEEP],
        [turn("1", **ASKED_FOR), ASKED_FOR_DEEP],
        [turn("1"), turn("2", DEEP, **ASKS_AGAIN, session="another")],
        [turn("1"), turn("2", DEEP, **ASKS_AGAIN, caller="bob")],
        [turn("1", later=(call("1b", DEEP, decided=FAST),))],
        [turn("1", decided=DEEP, later=(call("1b", DEEP),))],
        [turn("1", decision="{"), ASKED_FOR_DEEP],
    ],
    ids=[
        "nothing said",
        "content",
        "asked for deep two turns later",
        "the person chooses every tier",
        "another session",
        "another caller",
        "a failing target's work went to deep",
        "only its ask spilled to fast",
        "another program wrote it",
    ],
)
def test_without_a_sign_a_turn_was_not_redone(turns):
    assert "1" not in worth_of(*turns)[1]


def test_a_turn_that_shows_every_sign_is_redone_once_with_the_time_of_fast_alone():
    worst = turn("1", seconds=1.5, later=(call("1b", FAST, 0.25), call("1c", DEEP, 60.0), call("1d", FAST, 0.25)))

    worth, signs = worth_of(worst, turn("2", DEEP, **ASKED_FOR, **ASKS_AGAIN), marks={"1": DEEP})

    assert (signs, worth.redone_turns, worth.redone_seconds, worth.saved_seconds) == ({"1": Redone.MARKED}, 1, 2.0, -2.0)


def test_a_refusal_is_left_out_and_counted_and_blanks_nothing():
    refused = turn("2", None, 0.5, outcome=Outcome.REFUSED, cost_usd=None)
    refused_later = turn("3", FAST, 0.5, outcome=Outcome.REFUSED, cost_usd=None)

    worth, _ = worth_of(turn("1"), refused, refused_later)
    alone, _ = worth_of(turn("1"))

    assert worth.refused == 2
    assert {**worth.as_json(), "left_out": {"unpriced": 0, "refused": 0}} == alone.as_json()
    assert worth.summary().endswith("; 2 refused")


def test_a_call_of_unknown_cost_counts_in_time_and_on_neither_side_of_the_money():
    unpriced = turn("2", cost_usd=None, is_unpriced=1)

    worth, _ = worth_of(turn("1"), unpriced)

    assert (worth.seconds, worth.saved_seconds) == (4.0, 36.0)
    assert (worth.usd, worth.saved_usd, worth.unpriced) == (0.01, pytest.approx(0.04), 1)
    assert worth.sentence() == "$0.040 and about 36 s less than all on deep; the cost of 1 call is unknown"
    assert worth_of(unpriced)[0].as_json()["saved"] == {"seconds": 18.0, "usd": None}
    assert worth_of(unpriced)[0].sentence() == "about 18 s less than all on deep; the cost of 1 call is unknown"


def test_without_deeps_price_the_money_counts_as_it_was_and_the_time_does_not():
    worth, _ = worth_of(turn("1", deep=expect(20.0, has_price=False)))

    assert (worth.saved_usd, worth.saved_seconds) == (0.0, 18.0)


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.SUPERSEDED])
def test_what_nobody_served_took_its_time_and_saved_none(outcome):
    worth, _ = worth_of(turn("1", outcome=outcome))

    assert (worth.turns, worth.calls, worth.seconds, worth.saved_seconds) == (0, 1, 2.0, 0.0)
    assert worth.failed == (outcome is Outcome.FAILED)


@pytest.mark.parametrize("kind", [TurnKind.SIDE, TurnKind.SUBAGENT, TurnKind.COMPACTION, None])
def test_a_call_that_no_person_typed_is_compared_by_its_own_decision(kind):
    worth, _ = worth_of(turn("1", kind=kind))

    assert (worth.turns, worth.calls, worth.saved_seconds) == (0, 1, 18.0)


def test_a_call_whose_turn_is_not_known_counts_as_it_was():
    worth, _ = worth_of((call("1b", decision=None),))

    assert (worth.turns, worth.calls, worth.seconds, worth.saved_seconds) == (0, 1, 2.0, 0.0)


@pytest.mark.parametrize(
    ("saved", "words"),
    [
        ((720.0, 2.1), "$2.10 and about 12 min less than all on deep"),
        ((-120.0, -0.1), "$0.10 and about 2 min more than all on deep"),
        ((-120.0, 2.1), "$2.10 less and about 2 min more than all on deep"),
        ((120.0, -2.1), "$2.10 more and about 2 min less than all on deep"),
        ((0.9, 2_100.0), "$2,100.00 less than all on deep"),
        ((7_500.0, 0.0004), "about 2 h 5 min less than all on deep"),
        ((0.0, 0.0), "the same as all on deep"),
    ],
)
def test_more_and_less_are_said_in_the_same_words(saved, words):
    worth = Worth(turns=1, calls=1, priced=1, saved_seconds=saved[0], known_saved_usd=saved[1])

    assert worth.sentence() == words


def test_the_last_line_says_what_was_spent_and_saved_and_redone():
    worth = Worth(
        turns=37, fast_turns=14, calls=90, priced=90, seconds=600.0, usd=1.0, saved_seconds=720.0, known_saved_usd=2.1
    )
    worth.redone, worth.redone_seconds, worth.failed = {Redone.MARKED: 1, Redone.MOVED_UP: 2}, 240.0, 2

    assert worth.summary() == (
        "37 turns, 14 fast, 23 deep, $1.00; $2.10 and about 12 min less than all on deep; 3 turns were redone (4 min); 2 failed"
    )


seconds = some.floats(0.1, 500.0)
turns_of_anybody = some.lists(
    some.tuples(
        some.sampled_from([*Tier, None]), some.sampled_from(Outcome), seconds, some.sampled_from("ab"), some.booleans()
    ),
    max_size=12,
)


@given(turns_of_anybody)
def test_spent_and_saved_make_all_on_deep_and_groups_add_up_to_the_total(history):
    calls = [
        turn(str(number), tier, took, outcome=outcome, caller=caller, **(ASKS_AGAIN if wrong else {}))
        for number, (tier, outcome, took, caller, wrong) in enumerate(history)
    ]

    total, _ = worth_of(*calls)
    parts = [worth_of(*(one for one in calls if one[0].caller == caller))[0] for caller in "ab"]

    for name in ("turns", "calls", "seconds", "usd", "saved_seconds", "redone_seconds", "redone_turns", "refused", "failed"):
        assert getattr(total, name) == pytest.approx(sum(getattr(part, name) for part in parts), abs=1e-6)
    shown = total.as_json()
    assert shown["all_deep"]["seconds"] == pytest.approx(shown["spent"]["seconds"] + shown["saved"]["seconds"], abs=0.002)


def test_only_so_many_sessions_are_remembered_and_none_is_lost():
    sessions = MAX_SESSIONS + 5

    worth, _ = worth_of(*(turn(str(number), session=f"s{number}") for number in range(sessions)))

    assert (worth.turns, worth.saved_seconds) == (sessions, pytest.approx(18.0 * sessions))
