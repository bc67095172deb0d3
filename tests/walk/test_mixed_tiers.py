"""Tiers whose targets speak different dialects: who is tried, and what is refused."""

import pytest

from tests.tools.http import call
from tests.tools.upstream import CHAT_ANSWER, answer_json

MIXED = """
ledger: {{path: test.db}}
tiers:
  fast:
    targets:
      - {{name: spark, adapter: openai_http, dialect: chat, base_url: "{0}", model: m,
         typical: {{ttft_seconds: 0.2, tokens_per_second: 1000, prefill_tokens_per_second: 60000}}}}
      - {{name: claude, adapter: anthropic_http, dialect: messages, base_url: "{1}", model: m}}
  deep:
    targets:
      - {{name: sage, adapter: openai_http, dialect: chat, base_url: "{0}", model: m, window_tokens: 400000,
         accepts: [text, tools, images, files, json_schema, custom_tools, reasoning]}}
"""
CLAUDE_ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 1},
}
ASKED = {"model": "fast", "max_tokens": 9, "messages": [{"role": "user", "content": "fix the typo"}]}


@pytest.fixture
async def mixed(start, upstream, other_upstream):
    """A fast tier with a chat target, then a messages target."""
    tandem = await start(MIXED.format(upstream.base_url, other_upstream.base_url.removesuffix("/v1")))
    upstream.scripts, other_upstream.scripts = [answer_json(CHAT_ANSWER)], [answer_json(CLAUDE_ANSWER)]
    return tandem


async def test_a_request_that_one_target_cannot_take_goes_to_the_next(mixed, upstream, other_upstream):
    forced = {"tools": [{"name": "look", "input_schema": {}}], "tool_choice": {"type": "tool", "name": "unknown"}}

    reply = await call(mixed.port, "/v1/messages", {**ASKED, **forced})

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "claude")
    assert "spark cannot serve this (misfit)" in reply.headers["x-tandem-because"]
    assert not upstream.seen
    (entry,) = await mixed.entries()
    assert entry["outcome"] == "SERVED"


async def test_a_tool_that_the_target_runs_is_left_to_one_that_may_run_it(mixed, upstream, other_upstream):
    search = {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}

    reply = await call(mixed.port, "/v1/messages", {**ASKED, **search})

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "claude")
    assert "x-tandem-dropped" not in reply.headers
    assert upstream.seen == []


async def test_a_target_asked_for_by_name_serves_without_the_tool_that_another_would_run(mixed, other_upstream):
    search = {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}

    reply = await call(mixed.port, "/v1/messages", {**ASKED, **search, "model": "spark"})

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "spark")
    assert "web_search" in reply.headers["x-tandem-dropped"]
    assert not other_upstream.seen


async def test_a_request_that_no_target_can_take_is_refused_with_the_reason(start, upstream):
    tandem = await start(MIXED.format(upstream.base_url, upstream.base_url))
    upstream.scripts = [answer_json(CHAT_ANSWER)]

    reply = await call(
        tandem.port,
        "/v1/responses",
        {"model": "fast", "input": "x", "tools": [{"type": "web_search"}], "tool_choice": "required"},
    )

    assert (reply.status, reply.json["error"]["code"]) == (400, "misfit")
    assert not upstream.seen


async def test_a_misfit_does_not_hide_the_failure_of_the_target_that_was_asked(mixed, other_upstream):
    forced = {"tools": [{"type": "web_search_20250305", "name": "web_search"}], "tool_choice": {"type": "any"}}
    other_upstream.scripts = [answer_json({"error": {"message": "boom"}}, status=500)]

    reply = await call(mixed.port, "/v1/messages", {**ASKED, **forced})

    assert reply.status == 502


async def test_an_answer_that_cannot_be_translated_is_tried_elsewhere(mixed, upstream, other_upstream):
    deep = '{"a":' * 300 + "1" + "}" * 300
    message = {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": deep}}]}
    upstream.scripts = [answer_json({"choices": [{"message": message, "finish_reason": "tool_calls"}]})]

    reply = await call(mixed.port, "/v1/messages", ASKED)

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "claude")
