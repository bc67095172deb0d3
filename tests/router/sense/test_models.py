import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.errors import UnknownModel
from router.contract.words import Tier
from router.sense.models import ModelNames, models_behind
from tests.tools.values import make_target

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


SHIPPED = {"auto": "auto", "fast": "fast", "deep": "deep", "claude-fast": "fast", "*-fast": "fast", "gpt-*": "auto"}


def meaning_of(name: str, own: dict[str, str | None]) -> str | None:
    """What a name means where these are added to the shipped ones."""
    return meaning_in(ModelNames(own, ("spark", "sage"), SHIPPED), name)


def meaning_in(names: ModelNames, name: str) -> str | None:
    try:
        alias = names.resolve(name)
    except UnknownModel:
        return None
    return alias.target or (str(alias.tier) if alias.tier else "auto")


def test_the_configs_own_names_are_added_to_the_shipped_ones_and_count_before_them(subtests):
    for name, own, meaning in [
        ("claude-fast", {}, "fast"),
        ("claude-fast", {"mine": "deep"}, "fast"),
        ("claude-fast", {"claude-fast": "deep"}, "deep"),
        ("claude-fast", {"claude-*": "deep"}, "fast"),
        ("claude-fast", {"claude-fast": None}, "fast"),
        ("claude-fast", {"claude-fast": None, "*-fast": None}, None),
        ("spark", {"spark": "sage"}, "sage"),
        ("spark", {"*": "deep"}, "spark"),
        ("auto", {"auto": "deep"}, "deep"),
        ("fast", {"fast": None}, None),
        ("gpt-9", {}, "auto"),
        ("gpt-9", {"gpt-*": "sage"}, "sage"),
        ("gpt-9", {"gpt-*": None}, None),
        ("gpt-9", {"*": None}, None),
        ("gpt-9", {"*": None, "g*": "deep"}, "deep"),
        ("claude-fast", {"*": None}, "fast"),
        ("gpt-9-fast", {}, "fast"),
        ("gpt-9-fast", {"g*": "deep", "gpt-9*": "sage"}, "deep"),
        ("gpt-9-fast", {"gpt-9*": "sage", "g*": "deep"}, "sage"),
        ("gpt-9-fast", {"*-fast": "sage"}, "sage"),
    ]:
        with subtests.test(name=name, own=own, meaning=meaning):
            assert meaning_of(name, own) == meaning


def test_a_providers_prefix_before_a_shipped_name_is_understood(subtests):
    for name, own, meaning in [
        ("openai/auto", {}, "auto"),
        ("tandem/auto", {}, "auto"),
        ("openai/fast", {}, "fast"),
        ("anthropic/claude-fast", {}, "fast"),
        ("OpenAI/Deep", {}, "deep"),
        ("openrouter/openai/deep", {}, "deep"),
        ("openai/fast", {"*": "deep"}, "fast"),
        ("openai/fast", {"fast": "sage"}, "sage"),
        ("openai/fast", {"openai/fast": "sage"}, "sage"),
        ("openai/fast", {"fast": None}, None),
        ("openai/nope", {}, None),
        ("openai/", {}, None),
        ("openai/nope", {"openai/*": "deep"}, "deep"),
    ]:
        with subtests.test(name=name, own=own, meaning=meaning):
            assert meaning_of(name, own) == meaning


def test_a_shipped_name_with_a_prefix_is_an_override_and_keeps_the_callers_spelling():
    alias = ModelNames({}, (), SHIPPED).resolve("openai/fast")

    assert (alias.name, alias.is_pattern) == ("openai/fast", False)


NAMES_OR_PATTERNS = st.text("ab-*", min_size=1, max_size=4)
MEANINGS = st.sampled_from(["auto", "fast", "deep", "spark"])


def first_meaning(name: str, own: dict[str, str | None], targets: tuple[str, ...], shipped: dict[str, str]) -> str | None:
    """The rule in one list: what comes first counts."""
    taken = [entry for entry, meaning in own.items() if meaning is None]
    mine = [(entry, meaning) for entry, meaning in own.items() if meaning is not None]
    ours = [(entry, meaning) for entry, meaning in shipped.items() if entry not in taken]
    ours = [(entry, meaning) for entry, meaning in ours if "*" not in entry or "*" not in taken]
    by_name = [*mine, *((target, target) for target in targets), *ours]
    exact = [meaning for entry, meaning in by_name if entry == name]
    patterns = [meaning for entry, meaning in (*mine, *ours) if "*" in entry and fits(name, entry)]
    return next(iter(exact + patterns), None)


def fits(name: str, pattern: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return fits(name, pattern[1:]) or (bool(name) and fits(name[1:], pattern))
    return name[:1] == pattern[0] and fits(name[1:], pattern[1:])


@given(
    own=st.dictionaries(NAMES_OR_PATTERNS, MEANINGS | st.none(), max_size=6),
    targets=st.lists(st.text("ab-", min_size=1, max_size=3), unique=True, max_size=3),
    shipped=st.dictionaries(NAMES_OR_PATTERNS, MEANINGS, max_size=6),
    name=st.text("ab-", min_size=1, max_size=4),
)
def test_whatever_is_merged_the_first_that_matches_in_the_promised_order_counts(own, targets, shipped, name):
    names = ModelNames(own, tuple(targets), shipped)

    assert meaning_in(names, name) == first_meaning(name, own, tuple(targets), shipped)
    assert all("*" not in entry for entry in list(names.meanings)[: len(names.listed())])


SPARK, FLASH, SAGE = make_target("spark"), make_target("flash"), make_target("sage", Tier.DEEP)


@pytest.mark.parametrize(
    ("targets", "meanings"),
    [
        ([(SPARK, "smollm2-135m"), (SAGE, "Qwen/Large")], {"smollm2-135m": "spark", "qwen/large": "sage"}),
        ([(SPARK, "smollm2"), (FLASH, "smollm2"), (SAGE, "large")], {"smollm2": "fast", "large": "sage"}),
        ([(SPARK, "smollm2"), (FLASH, "other"), (SAGE, "smollm2")], {"other": "flash"}),
        ([(SPARK, "same"), (SAGE, "same")], {}),
    ],
)
def test_the_name_of_a_model_means_its_one_target_or_the_tier_that_has_no_other(targets, meanings):
    assert models_behind(targets) == meanings


def test_the_name_of_a_model_counts_after_every_other_name_and_is_not_listed():
    own_models = {"smollm2-135m": "spark", "gpt-9": "sage", "sage": "spark"}
    names = ModelNames({"gpt-*": "auto"}, ("spark", "sage"), None, own_models)

    found = names.resolve("SmolLM2-135M")
    assert (found.name, found.target, found.is_pattern) == ("SmolLM2-135M", "spark", False)
    assert names.resolve("gpt-9").target is None
    assert names.resolve("sage").target == "sage"
    assert "smollm2-135m" not in names.listed()
