"""What Codex says of its turns, and which of its own entries a name of ours gets."""

import pytest

from router.contract.words import Dialect
from router.sessions.clients.client import ListedModel
from router.sessions.clients.codex import choose_entries, read_stated, write_models
from tests.tools.values import make_view

PLAIN = {
    "slug": "gpt-5.5",
    "visibility": "list",
    "base_instructions": "plain prompt",
    "apply_patch_tool_type": "freeform",
    "service_tiers": [{"id": "priority"}],
    "supported_reasoning_levels": [{"effort": "xhigh"}],
    "upgrade": {"model": "gpt-6"},
}
NEWER = {
    **PLAIN,
    "slug": "gpt-6",
    "base_instructions": "newer prompt",
    "use_responses_lite": True,
    "tool_mode": "code_mode_only",
}
HIDDEN = {**PLAIN, "slug": "auto-review", "visibility": "hide", "base_instructions": "hidden prompt"}


@pytest.mark.parametrize("model", ["gpt-6", "openai/gpt-6", "gpt-6-2026-11-01"])
def test_a_model_that_codex_knows_has_its_own_prompt_and_efforts_in_the_public_form(model):
    entry = choose_entries([HIDDEN, NEWER, PLAIN], {"auto": model})["auto"]

    assert entry["base_instructions"] == "newer prompt"
    assert entry["supported_reasoning_levels"] == [{"effort": "xhigh"}]
    assert (entry["use_responses_lite"], entry["tool_mode"], entry["upgrade"]) == (False, None, None)


@pytest.mark.parametrize("model", ["", "gpt-6-luna", "my-gpt-6", "gpt-oss-120b"])
def test_any_other_model_has_the_prompt_that_goes_with_public_tools(model):
    entry = choose_entries([HIDDEN, NEWER, PLAIN], {"auto": model})["auto"]

    assert entry["base_instructions"] == "plain prompt"
    assert [level["effort"] for level in entry["supported_reasoning_levels"]] == ["low", "medium", "high"]
    assert entry["service_tiers"] == []


def test_without_a_prompt_of_codexs_own_there_is_no_entry():
    assert choose_entries([], {"auto": "gpt-6"}) == {}
    assert choose_entries([{**PLAIN, "base_instructions": ""}, HIDDEN], {"auto": "gpt-6"}) == {}


def test_an_entry_of_ours_differs_in_name_and_window_alone():
    (entry,) = write_models({"auto": PLAIN}, [ListedModel("auto", "Tandem auto", "Words.", 1_000)])["models"]

    changed = {key for key in entry if entry[key] != PLAIN.get(key)}
    assert changed == {
        "slug",
        "display_name",
        "description",
        "supported_in_api",
        "context_window",
        "max_context_window",
        "priority",
    }
    assert entry["context_window"] == 1_000


def test_a_name_whose_prompt_would_be_lost_is_left_out():
    models = [ListedModel(name, name, "", 1_000) for name in ("auto", "fast", "deep")]

    assert write_models({}, models) == {"models": []}
    shown = write_models({"deep": PLAIN, "auto": PLAIN}, models)["models"]
    assert [(entry["slug"], entry["priority"]) for entry in shown] == [("auto", 1), ("deep", 2)]


@pytest.mark.parametrize(("takes", "kind"), [(True, "freeform"), (False, None)])
def test_the_patch_tool_is_offered_where_every_target_can_call_it(takes, kind):
    (entry,) = write_models({"auto": PLAIN}, [ListedModel("auto", "", "", 1_000, takes)])["models"]

    assert entry["apply_patch_tool_type"] == kind


@pytest.mark.parametrize("searches", [True, False])
def test_tools_are_held_back_only_where_they_can_be_searched_for(searches):
    known = {**PLAIN, "supports_search_tool": True}
    (entry,) = write_models({"auto": known}, [ListedModel("auto", "", "", 1_000, searches_tools=searches)])["models"]

    assert entry["supports_search_tool"] is searches


@pytest.mark.parametrize(("window", "limit"), [(128_000, 115_200), (32_000, 22_000), (8_000, 5_500)])
def test_compaction_leaves_room_for_the_answer_and_what_is_typed_next(window, limit):
    early = ListedModel("auto", "", "", window, compacts_early=True)

    assert write_models({"auto": PLAIN}, [early])["models"][0]["auto_compact_token_limit"] == limit
    assert "auto_compact_token_limit" not in write_models({"auto": PLAIN}, [early._replace(compacts_early=False)])["models"][0]


METADATA = "x-codex-turn-metadata"


@pytest.mark.parametrize(("headers", "carried"), [({METADATA: '{"turn_id":"t"}'}, {}), ({}, {METADATA: '{"turn_id":"t"}'})])
def test_the_metadata_of_a_turn_is_a_header_or_a_text_in_the_body(headers, carried):
    view = make_view({"input": "x", "client_metadata": carried}, Dialect.RESPONSES, headers)

    assert read_stated(view).turn_id == "t"


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null", '{"turn_id":7}'])
def test_metadata_of_any_shape_is_read_without_harm(text):
    assert read_stated(make_view({"input": "x"}, Dialect.RESPONSES, {METADATA: text})).turn_id == ""
