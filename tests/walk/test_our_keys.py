"""Callers' keys reach no upstream, and ours no caller."""

import json

import pytest

from tests.tools.http import call, chat
from tests.tools.running import two_targets
from tests.tools.upstream import (
    CHAT_ANSWER,
    DONE,
    answer_json,
    stream,
)


async def test_no_credential_of_the_caller_reaches_an_upstream_and_none_of_an_upstream_leaves(start, upstream, monkeypatch):
    monkeypatch.setenv("TEST_KEY", "sk-our-own-secret")
    config = two_targets(upstream.base_url, upstream.base_url, fast_extra="api_key: env:TEST_KEY,")
    tandem = await start(config)
    secret = {
        "set-cookie": "k=1",
        "openai-model": "other",
        "x-openai-model": "other",
        "authorization": "leak",
        "openai-organization": "o",
    }
    upstream.scripts = [answer_json(CHAT_ANSWER, headers=secret | {"x-ratelimit-remaining-tokens": "9"})]
    headers = {
        "authorization": "Bearer caller",
        "x-api-key": "caller",
        "cookie": "a=b",
        "x-forwarded-for": "1.2.3.4",
        "openai-beta": "b1",
    }

    reply = await call(tandem.port, "/v1/chat/completions", chat(), headers)

    seen = upstream.seen[0].headers
    assert seen["authorization"] == "Bearer sk-our-own-secret"
    assert not {"x-api-key", "cookie", "x-forwarded-for"} & set(seen)
    assert seen["openai-beta"] == "b1"
    assert "caller" not in str(seen)
    assert not set(secret) & set(reply.headers)
    assert reply.headers["x-ratelimit-remaining-tokens"] == "9"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
@pytest.mark.parametrize("is_streaming", [False, True])
async def test_a_key_that_a_target_echoes_stays_here_straight_and_over_a_bridge(
    start, upstream, monkeypatch, path, is_streaming
):
    monkeypatch.setenv("TEST_KEY", "sk-our-own-secret")
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, fast_extra="api_key: env:TEST_KEY,"))

    async def echoes(wire, seen):
        said = {"error": {"message": f"bad header {seen.headers['authorization']}", "code": 400}}
        await (stream(b"data: " + json.dumps(said).encode() + b"\n\n", DONE) if is_streaming else answer_json(said, 400))(
            wire, seen
        )

    upstream.scripts = [echoes]
    body = chat(stream=is_streaming) if "chat" in path else {"model": "auto", "input": "x", "stream": is_streaming}

    reply = await call(tandem.port, path, body, {"x-tandem-tier": "fast"})

    assert reply.status == 400
    assert "bad header Bearer ***" in reply.json["error"]["message"]


async def test_headers_and_query_of_a_target_are_sent_and_their_secrets_stay_here(start, upstream, monkeypatch):
    monkeypatch.setenv("GATEWAY_TOKEN", "gateway-secret-canary")
    extra = "headers: {x-portkey-provider: openai, x-gateway: Bearer env:GATEWAY_TOKEN}, query: {api-version: 2024-10-21},"
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, fast_extra=extra))

    async def echoes(wire, seen):
        said = {"error": {"message": f"bad header {seen.headers['x-gateway']} of {seen.path}", "code": 400}}
        await answer_json(said, 400)(wire, seen)

    upstream.scripts = [echoes]

    reply = await call(tandem.port, "/v1/chat/completions", chat(model="fast"))
    explained = await call(tandem.port, "/tandem/explain", chat(model="fast"))

    (seen,) = upstream.seen
    assert seen.path == "/v1/chat/completions?api-version=2024-10-21"
    assert (seen.headers["x-portkey-provider"], seen.headers["x-gateway"]) == ("openai", "Bearer gateway-secret-canary")
    assert "bad header Bearer ***" in reply.json["error"]["message"]
    assert "canary" not in f"{reply.headers} {explained.body!r}"
