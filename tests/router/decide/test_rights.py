"""Whether a caller may force a tier."""

import pytest

from router.contract.errors import NotPermitted
from router.contract.opinions import Insist, Rank
from router.contract.rights import EVERYTHING, USUAL
from router.contract.words import Tier
from router.decide.rights import check_forced
from tests.tools.values import make_target, stand

DEEP = Insist("x-tandem-tier asks for deep", Rank.HEADER, tier=Tier.DEEP)
SAGE = Insist("the model name is a target", Rank.MODEL_NAME, target="sage")


def statuses():
    return {"sage": stand(make_target("sage", Tier.DEEP))}


@pytest.mark.parametrize("insist", [DEEP, SAGE])
def test_a_tier_that_may_not_be_forced_is_refused_with_the_name_of_the_right(insist):
    with pytest.raises(NotPermitted, match=f"{insist.because}, and this key does not have the right to force deep .may_force"):
        check_forced("override", insist, statuses(), USUAL)


@pytest.mark.parametrize(
    ("rank", "way_out"),
    [
        (Rank.HEADER, "leave the header out"),
        (Rank.IN_BAND_LINE, "Remove the line"),
        (Rank.SESSION_SCOPE, "x-tandem-tier: auto with x-tandem-scope: session"),
        (Rank.MODEL_NAME, "the model auto"),
    ],
)
def test_a_refusal_says_how_to_stop_asking_in_the_same_way(rank, way_out):
    with pytest.raises(NotPermitted, match=way_out):
        check_forced("override", Insist("somebody asks for deep", rank, tier=Tier.DEEP), statuses(), USUAL)


@pytest.mark.parametrize("insist", [DEEP, SAGE])
def test_what_the_operator_insists_on_is_no_callers_wish(insist):
    check_forced("rules", insist, statuses(), USUAL)
    check_forced("override", insist, statuses(), EVERYTHING)
