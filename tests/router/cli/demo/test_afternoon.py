import pytest

from router.cli.demo.afternoon import AFTERNOON, say_speeds, write_config
from router.contract.words import Tier
from tests.tools.configs import load_text

TURNS = [turn for conversation in AFTERNOON for turn in conversation]


@pytest.mark.parametrize("speed", [1.0, 5.0])
def test_every_time_is_shorter_by_the_speed(speed, tmp_path):
    loaded = load_text(write_config("l.db", speed), tmp_path)

    speeds = {plan.target.tier: plan.settings.typical_speed() for plan in loaded.targets}
    assert speeds[Tier.FAST].ttft_seconds == pytest.approx(0.2 / speed)
    assert speeds[Tier.DEEP].tokens_per_second == pytest.approx(65 * speed)
    assert loaded.config.decision.hop_seconds == pytest.approx(1 / speed)
    assert loaded.is_simulated
    assert loaded.warnings == ()


def test_the_afternoon_has_each_thing_that_a_developer_meets():
    assert any(turn.looks + turn.edits > 4 for turn in TURNS)
    assert any(turn.hangs_up_after_seconds is not None for turn in TURNS)
    assert any(turn.words.startswith("tier: ") for turn in TURNS)
    assert sum("copyright year" in turn.words for turn in TURNS) == 2
    assert len({turn.words for turn in TURNS}) == len(TURNS)


def test_the_speeds_are_told_as_they_are_configured():
    assert say_speeds() == "fast 1000 tokens/s, deep 65 tokens/s"
    assert say_speeds(2.0) == "fast 2000 tokens/s, deep 130 tokens/s"
