"""Bodies for targets that speak chat."""

from router.dialects.hosts import quirks_of
from tests.tools.bridging import CHAT, OPENAI, RESPONSES, codex_request, crossed


def test_metadata_of_an_answer_that_is_not_stored_is_left_out():
    body, dropped = crossed(RESPONSES, CHAT, {"input": "x", "metadata": {"a": "b"}}, quirks=OPENAI)

    assert "metadata" not in body
    assert dropped == ("metadata",)


def test_what_codex_sends_becomes_chat():
    body, _ = crossed(RESPONSES, CHAT, codex_request(stream=True))

    assert [message["role"] for message in body["messages"]] == [
        "system", "user", "assistant", "tool", "assistant", "tool", "user", "system",
    ]  # fmt: skip
    assert body["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"input":"*** Begin"}'
    assert body["stream_options"] == {"include_usage": True}
    assert body["reasoning_effort"] == "xhigh"


def test_hosts_differences_are_obeyed():
    body, dropped = crossed(RESPONSES, CHAT, codex_request(max_output_tokens=9), quirks=quirks_of("https://api.cerebras.ai/v1"))

    assert body["max_completion_tokens"] == 9
    assert not body.keys() & {"max_tokens", "prompt_cache_key"}
    assert "prompt_cache_key" in dropped
