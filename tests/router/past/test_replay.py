"""Deciding again, from logs and from the ledger."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from router.contract.opinions import Lean
from router.contract.words import Tier, TurnKind
from router.decide.yardstick import Assumptions
from router.past.cases import Case, Kept, Work, cases_of
from router.past.history import PastSession, PastTurn, Size
from router.past.replay import choose_again, measure, quiet
from router.past.report import Report
from router.wiring.build import build_house
from tests.conftest import SIMULATED
from tests.tools.configs import load_text

WORDS = (
    "fix the typo",
    "Implement the whole parser from scratch, with tests, step by step",
    "why is it slow?",
    "yes",
    "it is still wrong",
)
SPEED = f"preference: speed\n{SIMULATED}"


@pytest.fixture
async def open_house(tmp_path):
    built = []

    def open_it(text: str = SIMULATED, *, with_ledger: bool = False):
        built.append(build_house(load_text(text, tmp_path), with_ledger=with_ledger))
        return built[-1].house

    yield open_it
    for one in built:
        await one.close()


turns = some.builds(
    PastTurn,
    words=some.sampled_from(WORDS),
    calls=some.lists(some.sampled_from(["Bash", "Edit"]), max_size=15).map(tuple),
    prompt_tokens=some.none() | some.integers(1, 300_000),
    effort=some.sampled_from([None, "low", "high", "xhigh"]),
    is_planning=some.booleans(),
    was_answered=some.booleans(),
)


@given(some.lists(turns, min_size=1, max_size=5), some.sampled_from(["codex", "claude-code", "aider", "cursor"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_the_same_config_changes_nothing(open_house, past, client):
    house, same = quiet(open_house()), quiet(open_house())
    report = Report("one", "the same")

    for case in cases_of([PastSession("s", client, tuple(past))]):
        before, after = await choose_again(house, case), await choose_again(same, case)
        assert before == after
        report.add(case, before.tier, after, measure(house, after, case))

    total = report.total
    assert (total.turns, total.to_fast, total.to_deep) == (len(past), 0, 0)
    assert total.before == total.after


def kept_case(log_odds: float, size: Size) -> Case:
    """A turn of which the ledger kept no text: only how far it leaned to deep."""
    kept = Kept((Lean(log_odds, "test"),), prompt_tokens=1_000, decided_by="estimate", kind=TurnKind.ASK)
    return Case("s", "codex", 1.0, size, kept=kept)


async def test_what_one_config_saves_over_another_the_other_loses(open_house):
    house, quick = quiet(open_house()), quiet(open_house(SPEED))
    often = Assumptions(fails_long=0.9, failure_seconds=300.0)
    there, back = Report("shipped", "speed", often), Report("speed", "shipped", often)
    long = [kept_case(step / 4, Size.LONG) for step in range(-12, 13)]

    for case in long:
        careful, hasty = await choose_again(house, case), await choose_again(quick, case)
        there.add(case, careful.tier, hasty, measure(house, hasty, case))
        back.add(case, hasty.tier, careful, measure(house, careful, case))

    saved = there.total.before.seconds - there.total.after.seconds
    assert there.total.to_fast > 0
    assert saved < 0  # long tasks that fast tried first took longer, whatever the hasty config believed
    assert back.total.before.seconds - back.total.after.seconds == pytest.approx(-saved)


async def test_a_turn_of_unknown_size_counts_in_no_time(open_house):
    house = quiet(open_house())
    report = Report("a", "b")
    (case,) = cases_of([PastSession("s", "codex", (PastTurn("fix the typo", prompt_tokens=1_000, was_answered=False),))])

    choice = await choose_again(house, case)
    report.add(case, Tier.DEEP, choice, measure(house, choice, case))

    assert (report.total.turns, report.total.timed, report.total.before.seconds) == (1, 0, 0.0)


async def test_another_preference_moves_turns_one_way_only(open_house):
    house, quick = quiet(open_house()), quiet(open_house(SPEED))
    past = [PastTurn(words, prompt_tokens=tokens) for words in WORDS for tokens in (1_000, 60_000)]

    for case in cases_of([PastSession("s", "codex", tuple(past))]):
        before, after = await choose_again(house, case), await choose_again(quick, case)
        assert (before.tier, after.tier) != (Tier.FAST, Tier.DEEP)


async def test_a_turn_that_no_target_can_take_is_said_to_be_unservable(open_house):
    (case,) = cases_of([PastSession("s", "codex", (PastTurn("fix it", prompt_tokens=900_000),))])

    assert await choose_again(quiet(open_house()), case) is None


LOGGED = PastTurn("fix the typo", calls=("read", "edit", "bash"), answer_chars=4_000, was_answered=True)


async def measured(house, turn: PastTurn, **more):
    (case,) = cases_of([PastSession("s", "codex", (turn,))])
    case = replace(case, size=Size.QUICK, **more)
    choice = await choose_again(house, case)
    return measure(house, choice, case)


async def test_a_turn_is_timed_by_its_own_calls_and_tokens(open_house):
    took = await measured(quiet(open_house()), LOGGED)

    tools = 4 * 0.3
    assert took[Tier.FAST].seconds == pytest.approx(4 * 0.2 + 1_000 / 1_000 + tools, abs=0.01)
    assert took[Tier.DEEP].seconds == pytest.approx(4 * 0.9 + 1_000 / 65 + tools, abs=0.01)


async def test_a_log_that_has_times_counts_as_deep_and_fast_is_sooner_by_the_models_own_time(open_house):
    took = await measured(quiet(open_house()), replace(LOGGED, at=10.0, seconds=100.0))

    assert took[Tier.DEEP].seconds == pytest.approx(100.0)
    assert 100.0 - took[Tier.FAST].seconds == pytest.approx(4 * 0.7 + 1_000 / 65 - 1, abs=0.01)


async def test_time_in_which_somebody_was_away_does_not_count(open_house):
    took = await measured(quiet(open_house()), replace(LOGGED, at=10.0, seconds=36_000.0))

    assert took[Tier.DEEP].seconds < 300


async def test_what_the_ledger_measured_counts_as_it_is_and_scales_the_other_tier(open_house):
    house = quiet(open_house())
    plain = await measured(house, LOGGED)

    took = await measured(house, LOGGED, was=Tier.FAST, work=Work(4, 1_000, seconds=5.4))

    assert took[Tier.FAST].seconds == pytest.approx(5.4)
    without_tools = {tier: plain[tier].seconds - 4 * 0.3 for tier in Tier}
    assert took[Tier.DEEP].seconds / 5.4 == pytest.approx(without_tools[Tier.DEEP] / without_tools[Tier.FAST])
