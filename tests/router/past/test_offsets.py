"""A caller's own line: how far their turns move it, and that nobody else's do."""

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from router.contract.economics import Economics
from router.past.offsets import learn_offsets
from router.past.work import SizedTurn

ECONOMICS = Economics()


def turns(caller: str, quick: int, long: int, evidence: float = 0.0) -> list[SizedTurn]:
    return [SizedTurn(caller, evidence, number < long) for number in range(quick + long)]


def offset_of(*groups: list[SizedTurn], economics: Economics = ECONOMICS) -> float:
    found = learn_offsets([turn for group in groups for turn in group], economics)
    return found["ada"].log_odds if "ada" in found else 0.0


def test_twenty_five_turns_count_half_of_what_many_show():
    few, many = offset_of(turns("ada", 14, 11)), offset_of(turns("ada", 14_000, 11_000))

    assert many == pytest.approx(-0.24, abs=0.01)  # the log-odds of eleven in 25
    assert few == pytest.approx(many / 2, abs=0.01)


def test_turns_that_took_what_they_looked_like_teach_nothing():
    assert learn_offsets(turns("ada", 40, 40), ECONOMICS) == {}


def test_each_caller_learns_from_their_own_turns_alone():
    ada, bob = turns("ada", 30, 5), turns("bob", 2, 50)

    together = learn_offsets([*ada, *bob], ECONOMICS)

    assert together["ada"].log_odds < 0 < together["bob"].log_odds
    assert together == learn_offsets(ada, ECONOMICS) | learn_offsets(bob, ECONOMICS)
    assert together["bob"].turns == 52


@given(some.lists(some.tuples(some.floats(-8, 8), some.booleans()), min_size=1, max_size=80))
def test_no_history_moves_a_line_by_more_than_a_quarter(history):
    assert abs(offset_of([SizedTurn("ada", evidence, is_long) for evidence, is_long in history])) <= 0.25


def test_clear_turns_that_went_as_expected_move_it_little():
    assert -0.3 < offset_of(turns("ada", 50, 0, evidence=-4.0)) < 0


def test_what_the_config_adds_already_is_not_learned_again():
    history = turns("ada", 15_000, 10_000)

    assert offset_of(history, economics=replace(ECONOMICS, personal_log_odds=-0.405)) == 0.0
    assert offset_of(history, economics=replace(ECONOMICS, base_rate=0.4)) == 0.0
    assert offset_of(history, economics=replace(ECONOMICS, personal_log_odds=-0.205)) == pytest.approx(-0.2, abs=0.01)
