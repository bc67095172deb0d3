"""Calls gathered into turns."""

import pytest
from msgspec.structs import replace

from router.contract.words import Outcome, Tier, TurnKind
from router.past.rows import Call
from router.past.turns import Begun, Turn, Turns, read_turns
from tests.tools.kept import LINE, make_call

ENDED = replace(
    LINE,
    at=100.0,
    duration_ms=2_000.0,
    ttft_ms=300.0,
    input_tokens=1_000,
    output_tokens=50,
    cost_usd=0.01,
    caller="",
    session="s",
)


def begun(name: str, kind: TurnKind = TurnKind.ASK, tier: Tier = Tier.FAST, **more) -> Begun:
    values = {"at": 100.0, "because": "looks like a quick edit: rename", "session": "s", "client": "codex", **more}
    return Begun(name, kind=kind, tier=tier, **values)


def ended(name: str, **more):
    return replace(ENDED, id=name, **more)


@pytest.fixture
def turns() -> Turns:
    return Turns()


@pytest.fixture
def turn(turns) -> Turn:
    """A turn of the session, begun with the call "1"."""
    return turns.begin(begun("1"))


def test_a_turn_and_its_tool_calls_are_one_line(turns, turn):
    turns.end(ended("1"))

    again = turns.begin(begun("2", TurnKind.TOOL_LOOP, because="1 tool call into a turn on fast"))
    turns.end(ended("2"))

    assert again is turn
    assert (turn.calls, turn.seconds, turn.input_tokens, turn.output_tokens, turn.cost_usd) == (2, 4.0, 2_000, 100, 0.02)
    assert (turn.first_seconds, turn.why, turn.number) == (0.3, "quick edit: rename", 1)


def test_the_next_ask_is_the_next_turn_and_closes_the_one_before(turns):
    first = turns.begin(begun("1"))
    turns.end(ended("1"))
    second = turns.begin(begun("2", TurnKind.FOLLOW_UP))

    assert (first.number, second.number) == (1, 2)
    assert first.is_closed
    assert not second.is_closed


def test_a_session_that_began_before_the_router_is_counted_by_its_history(turns):
    assert turns.begin(begun("1", number=7)).number == 7
    assert turns.begin(begun("2", number=3)).number == 8  # a compaction has shortened the history


def test_two_sessions_keep_their_lines(turns):
    one, other = turns.begin(begun("1")), turns.begin(begun("2", session="t"))

    assert turns.begin(begun("3", TurnKind.TOOL_LOOP)) is one
    assert turns.begin(begun("4", TurnKind.TOOL_LOOP, session="t")) is other


def test_a_turn_that_is_moved_up_says_at_which_call_and_why(turns, turn):
    turns.begin(begun("2", TurnKind.TOOL_LOOP, Tier.DEEP, because="in this turn 2 test runs failed"))
    turns.begin(begun("3", TurnKind.TOOL_LOOP, Tier.DEEP, because="this turn was moved up to deep and stays there"))

    assert (turn.tier, turn.has_moved_up, turn.calls) == (Tier.DEEP, True, 3)
    assert turn.why == "moved up at call 2: in this turn 2 test runs failed"


def test_words_that_tell_the_move_are_not_told_twice(turns, turn):
    turns.begin(
        begun("2", TurnKind.TOOL_LOOP, Tier.DEEP, because="moved up after 12 tool calls: 6 edits, more than the ask promised")
    )

    assert turn.why == "moved up after 12 tool calls: 6 edits, more than the ask promised"


def test_a_spill_is_no_move_up(turns, turn):
    turns.end(ended("1", tier=Tier.DEEP, attempts=2, because="spark failed (503); looks like a quick edit"))

    assert (turn.tier, turn.has_moved_up) == (Tier.DEEP, False)
    assert turn.why == "spark failed (503); looks like a quick edit"


def test_an_ask_that_nobody_served_and_is_sent_again_is_the_same_turn(turns, turn):
    turns.end(ended("1", outcome=Outcome.FAILED, status=503, error="upstream_timeout", output_tokens=None, cost_usd=None))
    assert turn.has_failed
    assert turn.trouble == "failed: upstream_timeout"

    assert turns.begin(begun("2")) is turn
    turns.end(ended("2"))
    assert (turn.has_failed, turn.trouble, turn.calls, turn.cost_usd, turn.lacks_cost) == (False, "", 2, 0.01, False)


def test_so_is_one_whose_target_used_tokens_for_nothing_and_its_cost_is_in_the_turn(turns, turn):
    turns.end(ended("1", outcome=Outcome.FAILED, status=504, error="upstream_timeout", output_tokens=0, cost_usd=0.5))

    assert turns.begin(begun("2")) is turn
    turns.end(ended("2"))
    assert (turn.calls, turn.cost_usd, turn.lacks_cost) == (2, 0.51, False)


def test_an_ask_after_an_answer_that_broke_off_is_another_turn(turns, turn):
    turns.end(ended("1", outcome=Outcome.FAILED, status=200, error="upstream_refused"))

    assert turns.begin(begun("2")) is not turn


@pytest.mark.parametrize("kind", [TurnKind.SIDE, TurnKind.COMPACTION, TurnKind.PREWARM])
def test_what_a_client_asks_for_by_itself_is_a_line_without_a_number(turns, turn, kind):
    side = turns.begin(begun("2", kind))

    assert side.number is None
    assert side.is_closed
    assert turns.begin(begun("3", TurnKind.TOOL_LOOP)) is turn


def test_a_subagent_is_one_line_whatever_it_calls(turns):
    first = turns.begin(begun("1", TurnKind.SUBAGENT, session="agent"))

    assert turns.begin(begun("2", TurnKind.SUBAGENT, session="agent")) is first
    assert first.number is None


def test_a_refusal_names_the_model():
    turn = Turns().end(ended("9", tier=None, outcome=Outcome.REFUSED, status=404, error="model_not_found", model="gpt-9"))

    assert (turn.status, turn.trouble) == (404, 'model "gpt-9" is not in models:')


def test_a_refusal_says_what_its_caller_was_told_or_else_the_code():
    refused = ended("9", tier=None, outcome=Outcome.REFUSED, status=400, error="unknown_override")

    assert Turns().end(refused, "x-tandem-tier: unknown tier").trouble == "x-tandem-tier: unknown tier"
    assert Turns().end(refused).trouble == "unknown override"


@pytest.mark.parametrize(
    ("outcome", "words"), [(Outcome.ABANDONED, "interrupted"), (Outcome.CUT_SHORT, "cut short: upstream_cut")]
)
def test_an_answer_that_broke_off_says_so(turns, turn, outcome, words):
    turns.end(ended("1", outcome=outcome, error="upstream_cut" if ":" in words else None))

    assert turn.trouble == words
    assert not turn.has_failed


def test_a_count_of_tokens_is_no_line():
    assert Turns().end(ended("1", tier=None, outcome=Outcome.SERVED)) is None


def test_the_cost_is_marked_where_some_call_has_none(turns, turn):
    turns.end(ended("1"))
    turns.begin(begun("2", TurnKind.TOOL_LOOP))
    turns.end(ended("2", cost_usd=None))

    assert (turn.cost_usd, turn.lacks_cost) == (0.01, True)


def test_it_is_marked_too_where_a_failed_call_used_tokens_that_have_no_price(turns, turn):
    turns.end(ended("1", outcome=Outcome.FAILED, status=502, error="upstream_malformed", output_tokens=0, cost_usd=None))

    assert turn.lacks_cost


def test_it_is_not_where_nothing_was_used(turns, turn):
    turns.end(ended("1", outcome=Outcome.ABANDONED, output_tokens=None, cost_usd=None))

    assert not turn.lacks_cost


def test_rows_of_the_ledger_give_the_same_line():
    live, past = Turns(), Turns()
    shown = live.begin(begun("1"))
    live.end(ended("1", because="looks like a quick edit: rename"))

    told = past.replay(Call(ended("1", because="looks like a quick edit: rename")))
    told.ended.clear()

    assert told == shown


def test_a_session_that_was_silent_for_long_is_let_go(turns):
    old = turns.begin(begun("1"))
    turns.end(ended("1"))
    running = turns.begin(begun("2", session="t"))

    turns.forget_before(1_000.0)

    assert old.is_closed
    assert turns.begin(begun("3", TurnKind.TOOL_LOOP, session="t")) is running
    assert turns.begin(begun("4", TurnKind.TOOL_LOOP)) is not old


def test_a_call_that_is_recorded_after_the_next_has_begun_takes_no_tier_back(turns):
    turns.begin(begun("1"))
    turns.begin(begun("2", TurnKind.TOOL_LOOP, Tier.DEEP, because="2 test runs failed"))
    turns.end(ended("1", tier=Tier.FAST))
    turn = turns.begin(begun("3", TurnKind.TOOL_LOOP, Tier.DEEP, because="stays there"))

    assert (turn.tier, turn.has_moved_up, turn.why) == (Tier.DEEP, True, "moved up at call 2: 2 test runs failed")


LOOP = TurnKind.TOOL_LOOP


def told(*calls: Call) -> list[list[str]]:
    return [[call.line.id for call in turn.ended] for turn in read_turns(calls)]


def test_tool_calls_of_a_ledger_belong_to_the_turn_of_their_callers_session():
    rows = [make_call("1"), make_call("2", caller="bob"), make_call("3", session="t"), make_call("1b", LOOP)]

    assert told(*rows, make_call("4", TurnKind.FOLLOW_UP), make_call("2b", LOOP, caller="bob")) == [
        ["1", "1b"],
        ["2", "2b"],
        ["3"],
        ["4"],
    ]


@pytest.mark.parametrize(
    "odd",
    [
        make_call("9", LOOP, session="another"),
        make_call("9", session=None),
        make_call("9", TurnKind.SIDE),
        make_call("9", TurnKind.SUBAGENT),
        make_call("9", outcome=Outcome.FAILED),
        make_call("9", outcome=Outcome.REFUSED),
        make_call("9", LOOP)._replace(kept=None),
    ],
    ids=["no ask", "no session", "a client's own", "a subagent", "failed", "refused", "unreadable"],
)
def test_what_is_no_work_on_a_persons_turn_is_in_no_turn(odd):
    assert told(make_call("1"), odd, make_call("2", LOOP)) == [["1", "2"]]


def test_a_row_that_cannot_be_read_begins_no_turn_and_its_calls_belong_to_no_other():
    unreadable = make_call("2")._replace(kept=None)

    assert told(make_call("1"), unreadable, make_call("2b", LOOP), make_call("3")) == [["1"], ["3"]]


def test_only_calls_that_are_wanted_stay_in_their_turn_and_all_are_counted():
    calls = [make_call("1"), make_call("2", LOOP, outcome=Outcome.ABANDONED), make_call("3", LOOP, "deep", output_tokens=None)]

    (turn,) = read_turns(calls, keeps=lambda _: False)

    assert [call.line.id for call in turn.ended] == ["1"]
    assert (turn.calls, turn.is_left, turn.was_moved_up, turn.lacks_output) == (3, True, True, True)


@pytest.mark.parametrize(
    ("ask", "later", "is_moved"),
    [
        ({}, {"tier": "deep"}, True),
        ({}, {"tier": "deep", "decided_by": "override"}, False),
        ({}, {"tier": "deep", "decided": "fast"}, False),
        ({"tier": "fast", "decided": "deep"}, {"tier": "deep"}, False),
    ],
    ids=["by the router", "by the person", "only spilled", "decided for deep"],
)
def test_a_turn_was_moved_up_where_the_router_decided_so(ask, later, is_moved):
    (turn,) = read_turns([make_call("1", **ask), make_call("2", LOOP, **later)])

    assert turn.was_moved_up is is_moved
