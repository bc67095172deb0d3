"""The list of models in its three shapes."""

import json
import os
from pathlib import Path

import pytest

from router.contract.errors import UnknownModel
from router.contract.words import Dialect, Feature, Tier
from router.edge.catalogue import Catalogue, OwnLists, StoredEntries
from router.sense.models import ModelNames
from tests.tools.values import make_target

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


@pytest.mark.parametrize(
    ("speaks", "accepts", "takes"),
    [
        (Dialect.RESPONSES, {Feature.CUSTOM_TOOLS}, True),
        (Dialect.RESPONSES, {Feature.TOOLS}, False),
        (Dialect.CHAT, {Feature.TOOLS}, True),
        (Dialect.CHAT, set(), False),
    ],
)
def test_a_name_takes_free_form_tools_where_every_target_can_call_one(speaks, accepts, takes):
    odd = make_target(speaks=frozenset({speaks}), accepts=frozenset(accepts))
    targets = {**TARGETS, "spark": odd}
    listed = Catalogue(ModelNames({}, tuple(targets)), targets).tiers()

    assert {model.name: model.takes_free_form for model in listed} == {"auto": takes, "fast": takes, "deep": True}


def test_tools_are_searched_for_where_no_target_is_behind_a_bridge():
    bridged = make_target(speaks=frozenset({Dialect.CHAT}))
    native = make_target(name="sage", tier=Tier.DEEP, speaks=frozenset({Dialect.RESPONSES}))
    targets = {"spark": bridged, "sage": native}
    listed = Catalogue(ModelNames({}, tuple(targets)), targets).tiers()

    assert {model.name: model.searches_tools for model in listed} == {"auto": False, "fast": False, "deep": True}


def test_a_tier_whose_name_was_taken_away_is_not_among_the_tiers():
    catalogue = Catalogue(ModelNames({"fast": None}, tuple(TARGETS)), TARGETS)

    assert [model.name for model in catalogue.tiers()] == ["auto", "deep"]


@pytest.mark.parametrize(
    ("name", "means"), [("auto", True), ("gpt-9", True), ("fast", False), ("spark", False), ("quick", False), ("nope", False)]
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
    assert catalogue.tiers()[0].window_tokens == 128_000


def test_with_deep_alone_its_window_counts_in_any_case():
    alone = {"sage": TARGETS["sage"]}

    assert Catalogue(ModelNames({}, ("sage",)), alone, Tier.FAST).window("auto") == 400_000


@pytest.mark.parametrize("tier", list(Tier))
def test_auto_compacts_early_where_its_window_is_the_fast_tiers(tier):
    listed = Catalogue(ModelNames({}, tuple(TARGETS)), TARGETS, tier).tiers()

    assert {model.name for model in listed if model.compacts_early} == ({"auto"} if tier is Tier.FAST else set())


def test_a_clients_own_list_is_found_by_the_parameter_that_only_it_sends(catalogue, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    lists = OwnLists()

    assert lists.find({"client_version": "0.166.0"}, catalogue) == {"models": []}
    assert lists.find({"limit": "5"}, catalogue) is None


def test_what_was_stored_is_read_again_when_it_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path, stored = tmp_path / "tandem" / "models.json", StoredEntries(Path("models.json"))
    assert stored() == {}
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"auto": {"slug": "a"}}))
    assert stored() == {"auto": {"slug": "a"}}
    path.write_text(json.dumps({"auto": {"slug": "b"}}))
    os.utime(path, ns=(1, 1))
    assert stored() == {"auto": {"slug": "b"}}
    path.write_text("{")
    os.utime(path, ns=(2, 2))
    assert stored() == {}
