"""The list of models in its three shapes."""

import pytest

from router.contract.errors import UnknownModel
from router.contract.words import Dialect, Feature, Tier
from router.edge.catalogue import Catalogue
from router.sense.models import ModelNames
from tests.tools.values import make_target

ENTRY = {"base_instructions": "Codex's own", "apply_patch_tool_type": "freeform"}
KNOWN = dict.fromkeys(("auto", "fast", "deep"), ENTRY)
TARGETS = {"spark": make_target(), "sage": make_target("sage", Tier.DEEP)}


@pytest.fixture
def catalogue() -> Catalogue:
    return Catalogue(ModelNames({"quick": "spark", "gpt-*": "auto"}, tuple(TARGETS)), TARGETS)


@pytest.mark.parametrize(
    ("name", "window"),
    [("auto", 400_000), ("fast", 128_000), ("deep", 400_000), ("spark", 128_000), ("quick", 128_000), ("gpt-9", 400_000)],
)
def test_a_window_is_the_largest_that_a_name_may_lead_to(catalogue, name, window):
    assert catalogue.window(name) == window


def test_openai_sdks_see_every_name_that_is_not_a_pattern(catalogue):
    listed = catalogue.openai()

    assert [entry["id"] for entry in listed["data"]] == ["auto", "fast", "deep", "quick", "spark", "sage"]
    assert {entry["object"] for entry in listed["data"]} == {"model"}


def test_one_model_is_found_also_by_a_pattern_and_an_unknown_one_is_not(catalogue):
    assert catalogue.openai_entry("gpt-9")["id"] == "gpt-9"
    with pytest.raises(UnknownModel):
        catalogue.openai_entry("nope")


def test_pages_follow_one_another_to_the_end(catalogue):
    names, after = [], None
    for _ in range(10):
        page = catalogue.anthropic(4, after)
        names += [entry["id"] for entry in page["data"]]
        after = page["last_id"]
        if not page["has_more"]:
            break

    assert names == ["auto", "fast", "deep", "quick", "spark", "sage"]


def test_a_page_after_the_last_is_empty_and_one_after_an_unknown_name_is_the_first(catalogue):
    assert catalogue.anthropic(5, "sage") == {"data": [], "has_more": False, "first_id": None, "last_id": None}
    assert catalogue.anthropic(5, "nope")["first_id"] == "auto"


def test_codex_sees_the_three_tiers_with_what_it_needs(catalogue):
    by_slug = {entry["slug"]: entry for entry in catalogue.codex(KNOWN)["models"]}

    assert set(by_slug) == {"auto", "fast", "deep"}
    assert by_slug["auto"]["context_window"] == 400_000
    assert {entry["base_instructions"] for entry in by_slug.values()} == {"Codex's own"}


def test_codex_is_told_of_no_name_whose_prompt_it_would_lose(catalogue):
    assert catalogue.codex({}) == {"models": []}
    assert [entry["slug"] for entry in catalogue.codex({"deep": KNOWN["deep"]})["models"]] == ["deep"]


@pytest.mark.parametrize(
    ("speaks", "accepts", "kind"),
    [
        (Dialect.RESPONSES, {Feature.CUSTOM_TOOLS}, "freeform"),
        (Dialect.RESPONSES, {Feature.TOOLS}, None),
        (Dialect.CHAT, {Feature.TOOLS}, "freeform"),
        (Dialect.CHAT, set(), None),
    ],
)
def test_codex_is_offered_its_patch_tool_where_every_target_can_call_it(speaks, accepts, kind):
    odd = make_target(speaks=frozenset({speaks}), accepts=frozenset(accepts))
    targets = {**TARGETS, "spark": odd}
    by_slug = {entry["slug"]: entry for entry in Catalogue(ModelNames({}, tuple(targets)), targets).codex(KNOWN)["models"]}

    assert (by_slug["fast"]["apply_patch_tool_type"], by_slug["auto"]["apply_patch_tool_type"]) == (kind, kind)
    assert by_slug["deep"]["apply_patch_tool_type"] == "freeform"


def test_codex_is_shown_no_tier_whose_name_was_taken_away():
    catalogue = Catalogue(ModelNames({"fast": None}, tuple(TARGETS)), TARGETS)

    assert [entry["slug"] for entry in catalogue.codex(KNOWN)["models"]] == ["auto", "deep"]


@pytest.mark.parametrize(
    ("name", "means"),
    [("auto", True), ("gpt-9", True), ("fast", False), ("spark", False), ("quick", False), ("nope", False)],
)
def test_a_name_means_auto_where_it_leaves_the_choice_to_us(catalogue, name, means):
    assert catalogue.means_auto(name) is means


@pytest.mark.parametrize(("name", "window"), [("auto", 128_000), ("gpt-9", 128_000), ("deep", 400_000), ("sage", 400_000)])
def test_the_window_of_auto_may_be_the_fast_tiers(name, window):
    names = ModelNames({"gpt-*": "auto"}, tuple(TARGETS))

    assert Catalogue(names, TARGETS, Tier.FAST).window(name) == window


def test_every_list_names_the_window_of_auto_that_the_config_chose():
    catalogue = Catalogue(ModelNames({}, tuple(TARGETS)), TARGETS, Tier.FAST)

    assert catalogue.openai()["data"][0]["context_window"] == 128_000
    assert catalogue.anthropic(1)["data"][0]["max_input_tokens"] == 128_000
    assert catalogue.codex(KNOWN)["models"][0]["context_window"] == 128_000


def test_with_deep_alone_its_window_counts_in_any_case():
    alone = {"sage": TARGETS["sage"]}

    assert Catalogue(ModelNames({}, ("sage",)), alone, Tier.FAST).window("auto") == 400_000


@pytest.mark.parametrize(("window", "limit"), [(128_000, 115_200), (32_000, 22_000), (8_000, 5_500)])
def test_codex_is_told_to_compact_while_fast_can_still_take_the_next_turn(window, limit):
    targets = {"spark": make_target(window_tokens=window), "sage": TARGETS["sage"]}
    names = ModelNames({}, tuple(targets))

    by_fast, by_deep = (
        {
            entry["slug"]: entry.get("auto_compact_token_limit")
            for entry in Catalogue(names, targets, tier).codex(KNOWN)["models"]
        }
        for tier in Tier
    )

    assert by_fast == {"auto": limit, "fast": None, "deep": None}
    assert by_deep == dict.fromkeys(("auto", "fast", "deep"))
