"""Prompt and room for the answer, held against each window."""

import pytest
from msgspec.structs import replace

from policies.window import WindowConfig, WindowPolicy
from router.contract.opinions import RuleOut
from router.contract.words import Tier
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
    assert ruled_out[1_500][0].because == "a prompt of 1500 tokens is over its window of 1000"


@pytest.mark.parametrize(
    ("body", "fits", "reserve"),
    [
        ({"max_tokens": 20}, 4_076, 20),
        ({"max_completion_tokens": 20, "max_tokens": 900}, 4_076, 20),
        ({"max_output_tokens": 20}, 3_072, 1_024),  # a name of another dialect
        ({}, 3_072, 1_024),
        ({"max_tokens": None}, 3_072, 1_024),
        ({"max_tokens": 64_000}, 2_048, 2_048),
    ],
)
def test_the_requests_own_limit_is_kept_free_or_else_a_share_of_a_small_window(body, fits, reserve):
    policy, small = WindowPolicy(WindowConfig()), stand(make_target(window_tokens=4_096))

    assert policy.judge(ask(**body), make_signals(small, tokens=fits)) == ()
    (opinion,) = policy.judge(ask(**body), make_signals(small, tokens=fits + 1))

    assert isinstance(opinion, RuleOut)
    assert (opinion.tokens, opinion.reserved_tokens) == ((fits + 1 + reserve, 4_096), reserve)
    assert opinion.because == f"a prompt of {fits + 1} tokens plus {reserve} for the answer is over its window of 4096"


@pytest.mark.parametrize("limit", [8_000, 32_000, 64_000])
def test_no_limit_of_a_request_refuses_what_a_reserve_of_8000_lets_in(limit):
    policy = WindowPolicy(WindowConfig())

    assert policy.judge(ask(max_tokens=limit), make_signals(stand(make_target(window_tokens=200_000)), tokens=192_000)) == ()


def test_a_window_that_a_target_named_long_ago_rules_it_out_only_while_another_can_serve():
    policy = WindowPolicy(WindowConfig())
    known = stand(make_target(window_tokens=8_192))
    doubted = replace(known, window_to_try=32_000)

    told = [policy.judge(ask(max_tokens=20), make_signals(found, tokens=10_000))[0] for found in (known, doubted)]
    (too_long,) = policy.judge(ask(max_tokens=20), make_signals(doubted, tokens=40_000))

    assert [opinion.yields for opinion in (*told, too_long)] == [False, True, False]
