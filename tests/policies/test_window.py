"""Prompt and room for the answer, held against each window."""

from policies.learned import LearnedConfig, LearnedPolicy
from policies.window import WindowConfig, WindowPolicy
from router.contract.opinions import RuleOut
from router.contract.words import Tier
from router.decide.choose import Rules, decide
from tests.tools.exchanges import ECONOMICS
from tests.tools.values import ask, make_signals, make_target, stand


def test_window_keeps_room_for_the_answer():
    policy = WindowPolicy(WindowConfig(output_reserve_tokens=8_000))

    assert policy.judge(ask(), make_signals(tokens=120_000)) == ()
    (opinion,) = policy.judge(ask(), make_signals(tokens=120_001))
    assert isinstance(opinion, RuleOut)
    assert opinion.tokens == (128_001, 128_000)


def test_only_targets_that_are_too_small_are_ruled_out_and_for_good():
    policy = WindowPolicy(WindowConfig(output_reserve_tokens=0))
    small, large = stand(make_target(window_tokens=1_000)), stand(make_target("sage", Tier.DEEP, window_tokens=2_000))

    ruled_out = {tokens: policy.judge(ask(), make_signals(small, large, tokens=tokens)) for tokens in (1_000, 1_500, 2_001)}

    assert {tokens: [opinion.target for opinion in found] for tokens, found in ruled_out.items()} == {
        1_000: [],
        1_500: ["spark"],
        2_001: ["spark", "sage"],
    }
    assert all(opinion.lasting for opinion in ruled_out[2_001])
    assert ruled_out[1_500][0].because == "prompt plus room for the answer is 1500 tokens, over its window of 1000"


def test_of_two_fast_targets_the_larger_one_serves_what_the_smaller_cannot_hold():
    policy = WindowPolicy(WindowConfig())
    small, large = stand(make_target()), stand(make_target("wide", window_tokens=256_000))
    deep = stand(make_target("sage", Tier.DEEP))
    signals = make_signals(small, large, deep, text="fix the typo in calc.py", tokens=130_000)
    quick = Rules((policy, LearnedPolicy(LearnedConfig())), ECONOMICS, spill_over=True, config_fingerprint="")

    decision = decide(quick, ask(), signals)

    assert (decision.tier, decision.targets) == (Tier.FAST, ("wide",))
