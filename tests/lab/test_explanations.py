"""Explanations drawn for people to read."""

import pytest

from router.config.load import check_config
from router.contract.words import LONG_TASK, MAY_BE_LONG
from router.wiring.build import known_names
from tests.conftest import SIMULATED
from tests.lab.explanations import SHARES, explain_drawn

pytestmark = pytest.mark.shared


@pytest.fixture
def draw(tmp_path, shared):
    loaded = check_config(SIMULATED, "test", tmp_path, known_names())

    async def explain(seed: int, count: int):
        return [explained async for explained in explain_drawn(loaded, shared, seed, count)]

    return explain


async def test_one_seed_draws_the_same_turns_and_explains_them_alike(draw):
    first, again, other = await draw(1, 12), await draw(1, 12), await draw(2, 12)

    assert list(map(str, first)) == list(map(str, again))
    assert {explained.drawn for explained in first} != {explained.drawn for explained in other}
    assert len(first) == 12


async def test_no_drawn_turn_is_called_long_below_an_even_chance(draw):
    drawn = await draw(3, 240)

    assert len(drawn) == 4 * sum(SHARES.values())
    assert any(MAY_BE_LONG in explained.told["because"] for explained in drawn)
    assert [explained for explained in drawn if LONG_TASK in explained.told["because"] and explained.told["score"] < 0.5] == []
