import pytest

from router.contract.errors import UnknownModel
from router.contract.words import Tier
from router.sense.models import ModelNames

NAMES = ModelNames({"auto": "auto", "mine": "deep", "*haiku*": "fast", "gpt-*": "auto", "x-*": "spark"}, ("spark", "sage"))


@pytest.mark.parametrize(
    ("name", "tier", "target", "is_pattern"),
    [
        ("auto", None, None, False),
        ("deep", Tier.DEEP, None, False),
        ("mine", Tier.DEEP, None, False),
        ("spark", None, "spark", False),
        ("claude-haiku-9", Tier.FAST, None, True),
        ("gpt-9", None, None, True),
        ("x-1", None, "spark", True),
    ],
)
def test_what_a_name_stands_for(name, tier, target, is_pattern):
    alias = NAMES.resolve(name)

    assert (alias.tier, alias.target, alias.is_pattern) == (tier, target, is_pattern)


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(UnknownModel, match="auto, fast, deep, mine, spark, sage.*haiku"):
        NAMES.resolve("nope")
