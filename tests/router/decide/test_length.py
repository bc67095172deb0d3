"""What is said where only the length of a conversation keeps a quick turn from fast."""

import pytest
from msgspec.structs import replace

from router.contract.opinions import Insist, Lean, Opinions, Rank, RuleOut
from router.contract.signals import SessionPosition
from router.contract.words import Tier
from router.decide.choose import decide
from router.decide.length import because_too_long, say_too_long, say_way_back
from router.decide.opinions import Rules
from tests.tools.exchanges import ECONOMICS
from tests.tools.values import ask, make_signals, make_target, stand

TOO_LONG = {"spark": RuleOut("spark", "too long", lasting=True, tokens=(130_400, 128_000))}
IMAGE = {"spark": RuleOut("spark", "takes no images", lasting=True)}
LOOKS = Opinions(leans=(("learned", Lean(-3.0, "looks like a quick edit: typo", names_turn=True)),))


class Says:
    name = "says"

    def __init__(self, *opinions) -> None:
        self.opinions = opinions

    def judge(self, request, signals):
        return self.opinions


def decision_of(*opinions, signals=None):
    return decide(
        Rules((Says(*opinions),), ECONOMICS, spill_over=True, config_fingerprint=""), ask(), signals or make_signals()
    )


def test_a_quick_turn_is_told_how_to_get_fast_back_and_a_long_one_is_not():
    signals = make_signals(tokens=122_400)

    assert (
        because_too_long(signals, LOOKS, TOO_LONG, 0.05, ECONOMICS)
        == "131k of 128k tokens: compact to use fast; looks like a quick edit: typo"
    )
    assert because_too_long(signals, LOOKS, TOO_LONG, 0.999, ECONOMICS) == ""


def test_another_reason_than_length_is_no_reason_to_compact():
    both = {**TOO_LONG, "other": RuleOut("other", "takes no images", lasting=True)}

    assert say_way_back(IMAGE, ["spark"]) == say_way_back({}, ["spark"]) == say_way_back(TOO_LONG, []) == ""
    assert say_way_back(both, ["spark", "other"]) == ""


def test_of_several_fast_targets_the_largest_is_the_one_to_fit():
    wide = {**TOO_LONG, "wide": RuleOut("wide", "too long", lasting=True, tokens=(300_000, 256_000))}

    assert say_way_back(wide, ["spark", "wide"]) == "300k of 256k tokens: compact to use fast"


@pytest.mark.parametrize(("tokens", "words"), [((128_001, 128_000), "129k of 128k"), ((1_500, 1_000), "1500 of 1000")])
def test_figures_never_say_that_it_would_fit(tokens, words):
    ruled_out = {"spark": RuleOut("spark", "", lasting=True, tokens=tokens)}

    assert say_way_back(ruled_out, ["spark"]).startswith(f"{words} tokens")


def test_what_deep_has_cached_does_not_hide_that_the_turn_is_quick():
    slow = stand(make_target(), prefill=2_000)
    signals = make_signals(slow, stand(make_target("sage", Tier.DEEP)), tokens=122_400)
    warm = SessionPosition(tier=Tier.DEEP, warm={"sage": 122_000})
    signals = replace(signals, turn=replace(signals.turn, position=warm))

    assert because_too_long(signals, LOOKS, TOO_LONG, 0.05, ECONOMICS)


def test_the_decision_says_it_for_a_new_turn_and_for_one_that_outgrew_fast():
    quick = Lean(-4.0, "looks like a quick edit", names_turn=True)
    running = Insist("9 tool calls into a turn on fast", Rank.RUNNING_TURN, tier=Tier.FAST, yields=True)

    new, grown, long = (
        decision_of(*TOO_LONG.values(), opinion) for opinion in (quick, running, Lean(9.0, "looks like a long task"))
    )

    assert [decision.tier for decision in (new, grown, long)] == [Tier.DEEP] * 3
    assert new.because == "131k of 128k tokens: compact to use fast; looks like a quick edit"
    assert grown.because == "9 tool calls into a turn on fast, but 131k of 128k tokens: compact to use fast"
    assert long.because == "only deep can serve this: spark cannot: too long"


@pytest.mark.parametrize(
    ("prompt", "numbers"),
    [(10_025, "10025 tokens > 4096 maximum"), (4_097, "4097 tokens > 4096 maximum"), (3_500, "3500 tokens > 3072 maximum")],
)
def test_a_refusal_for_length_begins_with_the_prompts_own_tokens_and_names_the_room_for_the_answer_apart(prompt, numbers):
    small = RuleOut("tiny", "", lasting=True, tokens=(prompt + 512, 2_048), reserved_tokens=512)
    large = RuleOut("wide", "", lasting=True, tokens=(prompt + 1_024, 4_096), reserved_tokens=1_024)

    words = say_too_long([small, large], Insist("x-tandem-tier asks for fast", Rank.HEADER, tier=Tier.FAST))

    assert words == (
        f"prompt is too long: {numbers}. 1024 of the window's 4096 tokens are kept free for the answer. "
        "X-tandem-tier asks for fast, and no target there has a larger window"
    )
