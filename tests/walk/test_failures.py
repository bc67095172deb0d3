"""Failing upstreams: who is asked next, and what the caller gets."""

import sys

import pytest

from tests.tools.http import call, chat
from tests.tools.upstream import (
    CHAT_ANSWER,
    answer_json,
)


async def test_after_a_spill_header_log_and_ledger_say_the_same(pair, upstream):
    upstream.scripts = [answer_json({}, 401)]

    reply = await call(pair.port, "/v1/chat/completions", chat())

    (entry,) = await pair.entries()
    assert entry["tier"] == reply.headers["x-tandem-tier"] == "deep"
    assert entry["because"] == reply.headers["x-tandem-because"]
    assert entry["because"].startswith("spark failed (auth), so sage answers: ")


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="since Python 3.12, all that can be parsed can be written")
async def test_a_body_that_cannot_be_written_anew_leaves_no_target_waiting(pair):
    deep = "[" * 1010 + "]" * 1010
    raw = f'{{"model":"auto","stream":true,"messages":[{{"role":"user","content":"fix the typo"}}],"metadata":{{"model":"x"}},"x":{deep}}}'

    reply = await call(pair.port, "/v1/chat/completions", raw.encode())

    assert (reply.status, reply.json["error"]["code"]) == (400, "too_deep")
    standing = pair.house.state.live.statuses(pair.house.plan.targets, pair.house.clock() + 60)["spark"]
    assert (standing.in_flight, standing.wait_seconds) == (0, 0.0)


async def test_a_500_on_a_pinned_tier_is_tried_once_more_and_only_then_are_sdks_told_not_to(pair, upstream):
    broken, good = answer_json({"error": "x"}, 500), answer_json(CHAT_ANSWER)
    upstream.scripts = [broken, good]
    passing = await call(pair.port, "/v1/chat/completions", chat(), {"x-tandem-tier": "fast"})
    upstream.scripts = [broken]
    lasting = await call(pair.port, "/v1/chat/completions", chat(), {"x-tandem-tier": "fast"})

    assert passing.status == 200
    assert (lasting.status, lasting.json["error"]["code"], lasting.headers["x-should-retry"]) == (
        502,
        "upstream_refused",
        "false",
    )
    assert len(upstream.seen) == 4
