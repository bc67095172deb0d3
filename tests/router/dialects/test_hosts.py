"""Hosts, by their names and by their words."""

import json

import pytest

from router.dialects.hosts import caches_when_asked, find_longest_limit, quirks_of, says_too_long
from tests.tools.bridging import CHAT, MESSAGES, RESPONSES, answer_to


@pytest.mark.parametrize(
    ("address", "field"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://mine.openai.azure.com/openai/v1/", "max_completion_tokens"),
        ("https://api.openai.com.evil.example/v1", "max_tokens"),
        ("http://127.0.0.1:8000/v1", "max_tokens"),
    ],
)
def test_a_host_is_known_by_its_whole_name_or_its_end(address, field):
    assert quirks_of(address).limit_field == field


@pytest.mark.parametrize(
    ("address", "model", "dialect", "expected"),
    [
        ("https://api.anthropic.com", "claude-opus-5-5", MESSAGES, True),
        ("https://gateway.example/anthropic", "us.anthropic.Claude-opus", MESSAGES, True),
        ("https://api.moonshot.ai/anthropic", "kimi-k3", MESSAGES, False),
        ("https://openrouter.ai/api/v1", "anthropic/claude-opus-5.5", CHAT, True),
        ("https://openrouter.ai/api/v1", "openai/gpt-oss-120b", CHAT, False),
        ("https://openrouter.ai.evil.example/v1", "anthropic/claude-opus-5.5", CHAT, False),
        ("https://api.anthropic.com/v1", "claude-opus-5-5", CHAT, False),
        ("http://127.0.0.1:8000/v1", "claude-like", CHAT, False),
        ("https://openrouter.ai/api/v1", "anthropic/claude-opus-5.5", RESPONSES, True),
    ],
)
def test_a_mark_is_for_claude_alone_and_in_chat_for_hosts_that_take_it(address, model, dialect, expected):
    assert caches_when_asked(address, model, dialect) is expected


def test_a_limit_that_is_too_large_is_no_refusal_for_length():
    words = "'max_tokens' or 'max_completion_tokens' is too large: 128000. This model's maximum context length is 131072 tokens"

    told = json.loads(answer_to(MESSAGES, CHAT).refusal(400, json.dumps({"error": {"message": words}}).encode()))["error"]

    assert told["code"] != "context_length_exceeded"
    assert told["message"] == words


def test_a_refusal_for_length_is_known_by_its_words(subtests):
    for words, expected in [
        ("invalid_request_error context_length_exceeded", True),
        ("Prompt is too long: 9 tokens > 8 maximum", True),
        ("the request exceeds the available context size", True),
        ("max_tokens is too large: 9. The maximum context length is 8", False),
        ("rate limit reached", False),
        ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", True),
        ("the input length exceeds the context length", True),
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", True),
        ("ValidationException: Input is too long for requested model.", True),
        ("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193", True),
        ("The number of tokens to keep from the initial prompt is greater than the context length", True),
        ("Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 9000", True),
        ("tools: the list is too long", False),
    ]:
        with subtests.test(words=words, expected=expected):
            assert says_too_long(words) is expected


@pytest.mark.parametrize(
    ("words", "longest"),
    [
        ("max_tokens is too large: 32000. This model supports at most 16384 completion tokens", 16_384),
        ("max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for claude-3", 8_192),
        ("`max_completion_tokens` must be less than or equal to `8192`, the maximum value", 8_192),
        ("'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", None),
        ("max_tokens is too large: 32,000. This model's maximum context length is 20,000 tokens", 8_000),
        ("This model's maximum context length is 16384 tokens, and you sent 17000", None),
        ("temperature must be 1, and 4096 is not", None),
    ],
)
def test_the_longest_limit_is_read_from_the_refusal_of_a_longer_one(words, longest):
    assert find_longest_limit(words, 32_000) == longest
