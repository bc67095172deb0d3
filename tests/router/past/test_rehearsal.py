"""Turns that somebody only describes: how large they are taken to be, and what is remembered of them."""

import pytest

from router.contract.words import Tier
from router.past.rehearsal import assume_work, rehearse
from router.wiring.build import build_house
from tests.conftest import SIMULATED
from tests.tools.configs import load_text

LONG = "Implement the whole parser from scratch, with tests and docs"


@pytest.fixture
def house(tmp_path):
    return build_house(load_text(SIMULATED, tmp_path), with_ledger=False).house


@pytest.mark.parametrize(
    ("words", "work"),
    [
        ("thanks!", (0, 0)),
        ("what does this decorator do", (2, 0)),
        ("is this thread safe?", (2, 0)),
        ("was ist der unterschied zwischen den beiden funktionen", (2, 0)),
        ("how would you restructure the config system? plan only, no code", (2, 0)),
        ("migrate the whole codebase to rust. first only a plan", (2, 0)),
        ("rename usr to user in models.py", (2, 1)),
        ("do the rename in models.py", (2, 1)),
        ("rename usr to user, but don't touch the tests", (2, 1)),
        (LONG, (26, 8)),
        ("can you migrate the whole codebase to rust, with tests?", (26, 8)),
    ],
)
async def test_a_turn_is_taken_to_be_as_large_as_its_words_say(house, words, work):
    arrival, _ = await rehearse(house, "codex", [words])

    assert assume_work((await house.decide(arrival)).decision) == work


async def test_the_last_request_finds_where_the_turn_before_it_went(house):
    arrival, (before,) = await rehearse(house, "codex", [LONG, "go on"])

    decision = (await house.decide(arrival)).decision

    assert before == (26, 8, Tier.DEEP)
    assert decision.turn.position.tier is Tier.DEEP
    assert [(turn.calls, turn.edits) for turn in decision.turn.history.last] == [(26, 8)]


async def test_nothing_but_the_memory_of_the_session_is_changed(house):
    before = dict(house.state.live.statuses(house.plan.targets, 0.0))

    await rehearse(house, "codex", [LONG, "go on"])

    assert dict(house.state.live.statuses(house.plan.targets, 0.0)) == before
