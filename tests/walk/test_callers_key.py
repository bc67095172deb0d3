"""A caller's own key reaches the targets that take it, and is kept or shown nowhere."""

import json

import pytest

from tests.tools.http import call, chat
from tests.tools.running import two_targets
from tests.tools.sockets import open_socket
from tests.tools.speech import Speech, speak
from tests.tools.upstream import CHAT_ANSWER, answer_json

CANARY = "canary-key-of-the-caller"
WAYS = [
    {"authorization": f"Bearer {CANARY}"},
    {"x-api-key": CANARY},
    {"x-tandem-upstream-key": CANARY, "authorization": "Bearer something-else"},
]


@pytest.fixture
async def tandem(start, upstream, other_upstream):
    upstream.scripts = other_upstream.scripts = [answer_json(CHAT_ANSWER)]
    config = two_targets(
        upstream.base_url,
        other_upstream.base_url,
        fast_extra="api_key: caller,",
        deep_extra="api_key: key-of-the-operator,",
        extra="spill_over: false",
    )
    return await start(config)


@pytest.mark.parametrize("headers", WAYS, ids=[next(iter(way)) for way in WAYS])
async def test_the_callers_key_goes_to_the_target_that_takes_it_and_to_no_other(tandem, upstream, other_upstream, headers):
    await call(tandem.port, "/v1/chat/completions", chat(model="fast"), headers)
    await call(tandem.port, "/v1/chat/completions", chat(model="deep"), headers)

    assert upstream.seen[0].headers["authorization"] == f"Bearer {CANARY}"
    assert other_upstream.seen[0].headers["authorization"] == "Bearer key-of-the-operator"
    assert CANARY not in json.dumps(other_upstream.seen[0].headers)
    assert "x-tandem-upstream-key" not in {**upstream.seen[0].headers, **other_upstream.seen[0].headers}
    assert "key-of-the-operator" not in json.dumps(upstream.seen[0].headers)


async def test_a_request_without_a_key_is_told_what_to_send_and_nobody_is_called(tandem, upstream):
    reply = await call(tandem.port, "/v1/chat/completions", chat(model="fast"))

    assert (reply.status, reply.json["error"]["code"]) == (401, "caller_key")
    assert reply.json["error"]["type"] == "authentication_error"
    assert "x-tandem-upstream-key" in reply.json["error"]["message"]
    assert upstream.seen == []


async def test_a_key_that_the_target_refuses_is_the_callers_to_mend(tandem, upstream):
    upstream.scripts = [answer_json({"error": {"message": f"wrong key {CANARY}"}}, 401)]

    reply = await call(tandem.port, "/v1/chat/completions", chat(model="fast"), {"x-api-key": CANARY})

    assert (reply.status, reply.json["error"]["code"]) == (401, "caller_key")
    assert CANARY.encode() not in reply.body


async def test_the_callers_key_is_not_logged_kept_explained_or_echoed(tandem, capfd):
    headers = {"x-tandem-upstream-key": CANARY, "x-tandem-explain": "full"}

    served = await call(tandem.port, "/v1/chat/completions", chat(model="fast"), headers)
    explained = await call(tandem.port, "/tandem/explain", chat(), headers)
    empty = await call(tandem.port, "/v1/chat/completions", chat(), {"x-tandem-upstream-key": ""})

    (entry, *_) = await tandem.entries(2)
    kept = b"".join(path.read_bytes() for path in tandem.loaded.folder.iterdir())
    shown = json.dumps([served.headers, explained.headers, entry], default=str) + "".join(capfd.readouterr())
    assert served.status == explained.status == 200
    assert empty.status == 400
    assert CANARY not in shown
    assert CANARY.encode() not in served.body + explained.body + kept


async def test_a_messages_target_takes_the_callers_key_too_and_refuses_in_its_own_dialect(start, upstream):
    answer = {"type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}
    upstream.scripts = [answer_json(answer)]
    config = two_targets(upstream.base_url, upstream.base_url, fast_extra="api_key: caller,")
    tandem = await start(config.replace("adapter: openai_http, dialect: chat", "adapter: anthropic_http"))
    question = {**chat(model="fast"), "max_tokens": 5}

    await call(tandem.port, "/v1/messages", question, {"authorization": f"Bearer {CANARY}"})
    refused = await call(tandem.port, "/v1/messages", question)

    assert upstream.seen[0].headers["x-api-key"] == CANARY
    assert (refused.status, refused.json["error"]["type"]) == (401, "authentication_error")


A, B = {"authorization": "Bearer key-of-a"}, {"authorization": "Bearer key-of-b"}


@pytest.fixture
async def shared(start, upstream):
    """Both targets take callers' keys."""
    upstream.scripts = [answer_json(CHAT_ANSWER)]
    extra = "api_key: caller,"
    return await start(two_targets(upstream.base_url, upstream.base_url, fast_extra=extra, deep_extra=extra))


async def test_what_one_key_stored_another_can_neither_read_nor_go_on_from_nor_delete(shared):
    stored = await call(shared.port, "/v1/responses", {"model": "auto", "input": "hi", "store": True}, A)
    name = stored.json["id"]
    follow_up = {"model": "auto", "input": "go on", "previous_response_id": name}

    assert (await call(shared.port, f"/v1/responses/{name}", b"", B, method="GET")).status == 404
    assert (await call(shared.port, f"/v1/responses/{name}/input_items", b"", B, method="GET")).status == 404
    assert (await call(shared.port, f"/v1/responses/{name}/cancel", b"{}", B)).status == 404
    assert (await call(shared.port, f"/v1/responses/{name}", b"", B, method="DELETE")).status == 404
    assert (await call(shared.port, f"/v1/responses/{name}", b"", method="GET")).status == 404
    assert (await call(shared.port, "/v1/responses", follow_up, B)).status in (400, 404)
    assert (await call(shared.port, "/v1/responses", follow_up, A)).status == 200
    assert (await call(shared.port, f"/v1/responses/{name}", b"", A, method="GET")).status == 200


async def test_each_key_has_its_own_sessions_decisions_and_rows(shared):
    named = {"x-tandem-session": "same", "x-tandem-tier": "deep", "x-tandem-scope": "session"}
    one = await call(shared.port, "/v1/chat/completions", chat(), {**A, **named})
    other = await call(shared.port, "/v1/chat/completions", chat(), {**B, "x-tandem-session": "same"})
    entries = await shared.entries(2)
    path = f"/tandem/decisions/{one.headers['x-tandem-request-id']}"

    assert (one.headers["x-tandem-tier"], other.headers["x-tandem-tier"]) == ("deep", "fast")
    assert len({entry["caller"] for entry in entries}) == 2
    assert not any("key-of" in entry["caller"] for entry in entries)
    assert (await call(shared.port, path, b"", B, method="GET")).status == 404
    assert (await call(shared.port, path, b"", A, method="GET")).status == 200


async def test_on_a_socket_the_key_of_a_request_counts_and_not_that_of_the_handshake(start, upstream):
    upstream.scripts = [speak("chat", Speech("hi"))]
    extra = "api_key: caller,"
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, fast_extra=extra, deep_extra=extra))
    async with open_socket(tandem.port, authorization="Bearer key-of-a") as socket:
        first = await socket.ask("hi")
        other = {"x-tandem-upstream-key": "key-of-b"}
        await socket.say("go on", previous_response_id=first["id"], client_metadata=other)
        refused = await socket.answer()
        await socket.say("go on", previous_response_id=first["id"])
        own = await socket.answer()

    assert (refused["type"], refused["error"]["code"]) == ("error", "previous_response_not_found")
    assert own["type"] == "response.completed"
