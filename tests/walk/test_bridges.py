"""Whole requests over a bridge, against an upstream of another dialect."""

import json

import pytest

from tests.tools.http import call
from tests.tools.running import one_dialect
from tests.tools.speech import Speech, speak

PROMPT = {"model": "auto", "messages": [{"role": "user", "content": "how long is this? " * 40}]}


@pytest.mark.parametrize("dialect", ["chat", "responses"])
async def test_a_count_is_given_by_the_router_where_no_target_can_be_asked_for_one(start, upstream, dialect):
    tandem = await start(one_dialect(dialect, upstream.base_url))
    upstream.scripts = [speak(dialect, Speech("a whole answer, and paid for"))]

    reply = await call(tandem.port, "/v1/messages/count_tokens", PROMPT)

    assert reply.status == 200
    assert set(reply.json) == {"input_tokens"}
    assert 150 <= reply.json["input_tokens"] <= 300
    assert upstream.seen == []


async def test_the_explanation_names_what_a_request_lost_on_its_way_to_who_served_it(start, upstream):
    tandem = await start(one_dialect("messages", upstream.base_url))
    upstream.scripts = [speak("messages", Speech("an answer"))]
    body = {**PROMPT, "seed": 7}

    dry = await call(tandem.port, "/tandem/explain", body)
    reply = await call(tandem.port, "/v1/chat/completions", body, {"x-tandem-explain": "full"})
    kept = await call(tandem.port, f"/tandem/decisions/{reply.headers['x-tandem-request-id']}")

    target = reply.headers["x-tandem-target"]
    assert dry.json["drops"][target] == ["seed"]
    assert json.loads(reply.headers["x-tandem-explain"])["drops"] == {target: ["seed"]}
    assert kept.json["dropped"] == ["seed"]
