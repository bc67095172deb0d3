"""How hosts name their windows, and say that they are loading."""

import json

import pytest

from router.dialects.engine_words import read_loading, read_window


def refusal(message: str, **more) -> bytes:
    return json.dumps({"error": {"message": message, **more}}).encode()


def test_a_window_is_read_from_the_words_of_every_host(subtests):
    for message, window in [
        ("prompt is too long: 212400 tokens > 200000 maximum", 200_000),
        ("input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length", 200_000),
        ("This model's maximum context length is 4096 tokens. However, you requested 4120 tokens", 4_096),
        ("This model's maximum context length is 8,192 tokens, you sent 9,000", 8_192),
        ("This endpoint's maximum context length is 32768 tokens. However, you requested about 40000", 32_768),
        ("Requested token count exceeds the model's maximum context length of 4096 tokens", 4_096),
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", 4_096),
        ("This model's maximum prompt length is 131072 but the request contains 150000 tokens.", 131_072),
        ("request (10039 tokens) exceeds the available context size (8192 tokens), try increasing it", 8_192),
        ("the request exceeds the available context size, try increasing it (n_ctx 8192, 10039 tokens)", 8_192),
        ("The number of tokens to keep is greater than the context length of only 4096 tokens", 4_096),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
        ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", 32_768),
        ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens", 4_096),
    ]:
        with subtests.test(message=message, window=window):
            assert read_window(refusal(message)) == window


def test_llamacpp_names_it_in_a_field_of_its_own():
    words = "the request exceeds the available context size, try increasing it"

    assert read_window(refusal(words, type="exceed_context_size_error", n_prompt_tokens=10_039, n_ctx=8_192)) == 8_192
    assert read_window(refusal(words, type="exceed_context_size_error", n_ctx="8192")) is None
    assert read_window(refusal(words, type="exceed_context_size_error", n_ctx=12)) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff{",
        b"[]",
        b'{"error": null}',
        refusal("it does not fit"),
        refusal("the request exceeds the available context size"),
        refusal("prompt is too long: 24 tokens > 12 maximum"),
        refusal("Request too large for model: tokens per minute (TPM): Limit 6000, Requested 9000"),
        refusal("'max_tokens' is too large: 128000. This model's maximum context length is 131072 tokens"),
        refusal("messages[0]: prompt is too long " + "x" * 600 + " maximum context length is 300 tokens"),
        refusal("image too large", echoed="This model's maximum context length is 4096 tokens"),
    ],
)
def test_what_is_not_a_hosts_word_on_its_window_is_left_out(body):
    assert read_window(body) is None


def test_a_body_that_is_only_words_counts_too():
    assert read_window(b"This model's maximum context length is 4096 tokens") == 4_096
    assert read_window(b'{"error": "This model\'s maximum context length is 4096 tokens"}') == 4_096


@pytest.mark.parametrize(
    "words",
    ["Loading model", "Model org/name is currently loading", "The model is still loading, try again", "loading the model"],
)
def test_a_model_that_is_being_loaded_is_told_by_its_words(words):
    assert read_loading(refusal(words, type="unavailable_error", code=503)) == words
    assert read_loading(json.dumps({"error": words, "estimated_time": 20.0}).encode()) == words


@pytest.mark.parametrize("words", ["overloaded", "downloading models is off", "Loading model" + "x" * 200, ""])
def test_other_refusals_do_not_say_that_a_model_is_being_loaded(words):
    assert read_loading(refusal(words)) == ""
