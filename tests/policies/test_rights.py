"""A key for one tier."""

from msgspec.structs import replace

from policies.rights import RightsPolicy
from router.contract.caller import Caller
from router.contract.rights import Rights
from router.contract.words import Tier
from tests.tools.values import ask, make_signals, make_target, stand

SPARK, SAGE = stand(make_target()), stand(make_target("sage", Tier.DEEP))


def judge(name):
    policy = RightsPolicy({"ada": Rights(tiers=frozenset({Tier.FAST})), "bob": Rights()})
    return policy.judge(replace(ask(), caller=Caller(name)), make_signals(SPARK, SAGE))


def test_targets_of_other_tiers_are_ruled_out_for_good():
    (opinion,) = judge("ada")

    assert (opinion.target, opinion.because) == ("sage", "this key is for fast only")
    assert opinion.lasting
    assert opinion.is_right


def test_a_key_for_both_tiers_is_not_held_back():
    assert judge("bob") == ()


def test_a_caller_that_is_not_in_the_key_file_has_no_target():
    assert [opinion.target for opinion in judge("another")] == ["spark", "sage"]
