"""Context windows at run time: small ones are used, and what an engine says of its own counts from then on."""

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
    """A Tandem whose fast tier has a window of 4,096 tokens."""
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
