"""What engines say of themselves, in the words of each."""

import pytest

from router.cli.setup.engines import (
    Engine,
    ListedModel,
    describe,
    engine_kind,
    read_listed,
    read_loaded,
    read_props,
    read_running,
    size_of,
    windows_of,
)


@pytest.mark.parametrize(
    ("entry", "listed"),
    [
        (
            {"id": "smol", "owned_by": "llamacpp", "meta": {"n_ctx": 2048, "n_ctx_train": 8192, "n_params": 134515008}},
            ListedModel("smol", "llamacpp", 2048, 134515008.0),
        ),
        ({"id": "Qwen/Q", "owned_by": "vllm", "max_model_len": 40960}, ListedModel("Qwen/Q", "vllm", 40960)),
        ({"id": "models/gemini"}, ListedModel("gemini")),
        ({"id": "x", "owned_by": None, "meta": None, "max_model_len": "many"}, ListedModel("x")),
        ({"id": "x", "meta": {"n_ctx": 0, "n_params": -1}}, ListedModel("x")),
        ({"id": 3}, None),
    ],
)
def test_a_list_names_owner_window_and_size_of_a_model_or_leaves_them_open(entry, listed):
    assert read_listed(entry) == listed


@pytest.mark.parametrize(
    ("owner", "server", "kind"),
    [
        ("llamacpp", "", "llamacpp"),
        ("vllm", "uvicorn", "vllm"),
        ("library", "", "ollama"),
        ("organization_owner", "", "lmstudio"),
        ("somebody", "llama.cpp", "llamacpp"),
        ("somebody", "", ""),
    ],
)
def test_an_engine_is_known_by_what_it_says(owner, server, kind):
    assert engine_kind((ListedModel("m", owner),), server) == kind


def test_llama_cpp_with_one_model_has_its_window_for_every_name():
    assert Engine("llamacpp", 1, {"/models/smol.gguf": 2048}).window_of("smol") == 2048
    assert Engine("llamacpp", 1, {"a": 2048, "b": 4096}).window_of("smol") is None
    assert Engine("vllm", None, {"a": 2048}).window_of("smol") is None
    assert Engine("vllm", None, {"a": 2048}).window_of("a") == 2048


def test_windows_are_those_that_are_named():
    assert windows_of((ListedModel("a", window_tokens=4096), ListedModel("b"))) == {"a": 4096}


def test_slots_and_windows_are_read_from_each_engines_own_page():
    assert read_props({"total_slots": 4}) == 4
    assert read_running({"models": [{"name": "a", "context_length": 4096}, {"name": "b"}]}) == {"a": 4096}
    loaded = [{"id": "a", "loaded_context_length": 8192, "max_context_length": 131072}, {"id": "b", "max_context_length": 4096}]
    assert read_loaded({"data": loaded}) == {"a": 8192}


@pytest.mark.parametrize("told", [None, [], {"total_slots": 0, "models": 3, "data": {}}, {"models": [None, {"name": 1}]}])
def test_a_page_that_says_something_else_says_nothing(told):
    assert (read_props(told), read_running(told), read_loaded(told)) == (None, {}, {})


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("llama3:70b", 70e9),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", 30e9),
        ("mixtral-8x7b", 56e9),
        ("/models/SmolLM2-135M-Instruct.gguf", 135e6),
        ("/home/70b/small-1.5b.gguf", 1.5e9),
        ("gpt-4b6", None),
        ("mystery", None),
    ],
)
def test_a_models_size_is_in_its_name(model, size):
    assert size_of(model, ()) == size


def test_what_the_engine_says_of_a_size_counts_more_than_the_name():
    assert size_of("tiny-70b", (ListedModel("tiny-70b", parameters=3e6),)) == 3e6


def test_what_an_engine_reports_is_described():
    assert describe(Engine("llamacpp", 1, {"fast-model": 8192}), "fast-model") == [
        "window of 8,192 tokens",
        "serves 1 request at a time",
    ]
    assert describe(Engine(), "fast-model") == []
