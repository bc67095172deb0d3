"""Which turns are finished, and how they are printed."""

import io
import time

import pytest
from msgspec.structs import replace

from router.cli.turn_lines import FinishedTurns, TurnLines
from router.contract.facts import Recorded
from router.contract.words import Tier, TurnKind
from router.past.rows import Call
from router.past.turns import Begun, Turn
from tests.tools.exchanges import make_decided, make_exchange
from tests.tools.kept import LINE, make_entry
from tests.tools.sessions import Clock

LOOP = TurnKind.TOOL_LOOP


def begun(name: str, kind: TurnKind = TurnKind.ASK) -> Begun:
    return Begun(name, time.time(), kind, Tier.FAST, "looks like a quick edit", "local", "s", "codex")


def ended(name: str, kind: TurnKind = TurnKind.ASK) -> Call:
    return Call(replace(LINE, id=name, at=time.time(), caller="local", session="s", turn_kind=kind, tier=Tier.FAST))


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def turns(clock) -> FinishedTurns:
    return FinishedTurns(clock)


def test_a_turn_is_finished_ten_seconds_after_its_last_call_and_while_none_runs(turns, clock):
    turns.begin(begun("1"))
    turns.end(ended("1"))
    clock.now += 9
    turns.begin(begun("2", LOOP))
    clock.now += 60
    assert turns.take() == []

    turns.end(ended("2", LOOP))
    clock.now += 9
    assert turns.take() == []
    clock.now += 1

    assert [turn.calls for turn in turns.take()] == [2]
    assert turns.take() == []


def test_the_next_turn_of_a_session_finishes_the_one_before(turns):
    turns.end(ended("1"))
    turns.end(ended("2"))

    assert [turn.ask.line.id for turn in turns.take()] == ["1"]
    assert [turn.ask.line.id for turn in turns.take(is_last=True)] == ["2"]


def test_a_turn_that_goes_on_after_its_line_has_another_one(turns, clock):
    turns.end(ended("1"))
    clock.now += 10
    assert [turn.calls for turn in turns.take()] == [1]

    turns.end(ended("2", LOOP))
    clock.now += 10

    assert [turn.calls for turn in turns.take()] == [2]


def test_a_call_whose_end_was_missed_holds_up_no_line(turns, clock):
    turns.begin(begun("1"))
    turns.stop_all_but(())
    clock.now += 10

    assert len(turns.take()) == 1


@pytest.mark.parametrize(("fields", "finished"), [({}, 1), ({"tools": [{"type": "function"}]}, 0)])
def test_where_a_client_offers_no_tools_its_answer_finishes_the_turn(turns, fields, finished):
    exchange, decided = make_exchange(turns), make_decided()
    exchange.note(replace(decided, view=replace(decided.view, body={**decided.view.body, **fields})))
    exchange.note(Recorded(make_entry()))

    assert len(turns.take()) == finished


def test_titles_are_printed_once_and_again_where_a_second_caller_adds_a_column():
    stream = io.StringIO()
    lines = TurnLines(stream)

    lines.write([Turn(0.0, caller="ada"), Turn(0.0, caller="ada"), Turn(0.0, caller="bob")])

    first, _, _, second, _ = stream.getvalue().splitlines()
    assert first.split()[:2] == ["time", "client"]
    assert second.split()[:3] == ["time", "caller", "client"]
