"""Which of Codex's own entries a name of ours gets."""

import json
import os

import pytest

from router.edge.codex_models import STORED, StoredModels, choose_entries, write_entry

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
    entry = write_entry(PLAIN, "Tandem auto", "Words.", "auto", window=1000, takes_patches=True)

    changed = {key for key in entry if entry[key] != PLAIN.get(key)}
    assert changed == {
        "slug",
        "display_name",
        "description",
        "supported_in_api",
        "context_window",
        "max_context_window",
    }
    assert entry["context_window"] == 1000


def test_what_was_stored_is_read_again_when_it_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path, stored = tmp_path / "tandem" / STORED, StoredModels()
    assert stored() == {}
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"auto": PLAIN}))
    assert stored() == {"auto": PLAIN}
    path.write_text(json.dumps({"auto": NEWER}))
    os.utime(path, ns=(1, 1))
    assert stored() == {"auto": NEWER}
    path.write_text("{")
    os.utime(path, ns=(2, 2))
    assert stored() == {}
