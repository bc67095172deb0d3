"""Context windows at run time: small ones are used, and what an engine reports counts."""

import re

import pytest

from tests.tools.http import call
from tests.tools.running import two_targets
from tests.tools.upstream import CHAT_ANSWER, answer_json

HELLO = {
    "/v1/chat/completions": {"model": "fast", "max_tokens": 20, "messages": [{"role": "user", "content": "Say hello"}]},
    "/v1/responses": {"model": "fast", "max_output_tokens": 20, "input": "Say hello"},
    "/v1/messages": {"model": "fast", "max_tokens": 20, "messages": [{"role": "user", "content": "Say hello"}]},
}
CODE = "def f(x): return x + 1\n"
"""Ten tokens."""


@pytest.fixture
async def small(start, upstream, other_upstream):
    """A Tandem with a fast window of 4,096 tokens."""
    upstream.scripts = other_upstream.scripts = [answer_json(CHAT_ANSWER)]
    return await start(two_targets(upstream.base_url, other_upstream.base_url, fast_extra="window_tokens: 4096,"))


@pytest.mark.parametrize("path", HELLO)
async def test_a_window_of_4096_serves_a_short_prompt_in_every_dialect(small, path):
    reply = await call(small.port, path, HELLO[path])

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "spark")


async def test_a_prompt_that_only_the_answers_room_keeps_out_is_refused_in_the_words_on_which_clients_compact(small):
    body = HELLO["/v1/messages"] | {"max_tokens": 2_000, "messages": [{"role": "user", "content": CODE * 300}]}

    refused = await call(small.port, "/v1/messages", body)
    short = await call(small.port, "/v1/messages", body | {"max_tokens": 20})

    words = refused.json["error"]["message"]
    assert refused.status == 400
    told = re.match(r"prompt is too long: (\d+) tokens > 2096 maximum\. (.*)", words)
    assert told is not None
    assert 2_096 < int(told[1]) < 4_096
    assert told[2].startswith("2000 of the window's 4096 tokens are kept free for the answer. ")
    assert short.status == 200


def overflow(window: int) -> dict:
    words = f"request (10039 tokens) exceeds the available context size ({window} tokens), try increasing it"
    return {"error": {"code": 400, "message": words, "type": "exceed_context_size_error", "n_ctx": window}}


async def by_length(wire, seen):
    """A llama.cpp server with a window of 8,192 tokens."""
    is_long = len(seen.body) > 8_192 * 3
    await answer_json(*((overflow(8_192), 400) if is_long else (CHAT_ANSWER, 200)))(wire, seen)


LONG = {"model": "auto", "messages": [{"role": "user", "content": "fix the typo: " + CODE * 1_200}]}


async def test_a_window_that_an_engine_names_is_kept_for_all_sessions_and_shown(pair, upstream, other_upstream):
    upstream.scripts = [by_length]
    await call(pair.port, "/v1/chat/completions", LONG | {"model": "fast"})
    asked = len(upstream.seen)

    moved = await call(pair.port, "/v1/chat/completions", LONG, {"x-tandem-session": "another"})
    named = await call(pair.port, "/v1/messages", LONG | {"model": "fast", "max_tokens": 20})
    short = await call(pair.port, "/v1/chat/completions", HELLO["/v1/chat/completions"])
    stats = await call(pair.port, "/tandem/stats", method="GET")
    models = await call(pair.port, "/v1/models", method="GET")

    assert asked == 1
    assert (moved.status, moved.headers["x-tandem-target"]) == (200, "sage")
    assert "of 8192 tokens: compact to use fast" in moved.headers["x-tandem-because"]
    assert named.status == 400
    assert re.match(r"prompt is too long: \d+ tokens > 8192 maximum\. 20 of the ", named.json["error"]["message"])
    assert (short.status, short.headers["x-tandem-target"]) == (200, "spark")
    assert len(upstream.seen) == 2
    shown = stats.json["targets"]["spark"]
    assert (shown["window_tokens"], shown["configured_window_tokens"]) == (8_192, 128_000)
    assert {model["id"]: model["context_window"] for model in models.json["data"]}["fast"] == 8_192


async def test_a_target_as_large_by_its_config_is_tried_once_the_first_has_named_a_smaller_window(
    start, upstream, other_upstream
):
    tandem = await start(two_targets(upstream.base_url, other_upstream.base_url, fast_extra="window_tokens: 400000,"))
    upstream.scripts, other_upstream.scripts = [by_length], [answer_json(CHAT_ANSWER)]

    reply = await call(tandem.port, "/v1/chat/completions", LONG, {"x-tandem-tier": "fast", "x-tandem-on-misfit": "other"})

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "sage")
