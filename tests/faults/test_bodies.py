"""Odd bodies over the wire (rows B and T): refused by name, or passed on byte for byte."""

import json
import re

import pytest

from tests.tools.http import call, chat, request_bytes
from tests.tools.raw import Caller
from tests.tools.running import one_dialect, two_targets
from tests.tools.speech import Speech, speak
from tests.tools.upstream import CHAT_ANSWER, answer_json
from tests.tools.waiting import some_turns

RECURSIVE = {"type": "object", "properties": {"next": {"$ref": "#"}}}


def tool(name: str, schema: dict) -> dict:
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def with_picture(url: str) -> dict:
    parts = [{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": url}}]
    return {"model": "deep", "messages": [{"role": "user", "content": parts}]}


KEYS = "380,000 keys (B5)"
ODD = {
    KEYS: chat(),  # added by the test: every collection would make them
    "unknown fields (B10)": chat(next_years_feature={"deeply": [{"nested": 1e5}]}),
    "five thousand tools (B13)": chat(tools=[tool(f"tool_{number}", {"type": "object"}) for number in range(5_000)]),
    "a schema of two megabytes (B13)": chat(tools=[tool("large", {"type": "object", "description": "x" * (2 << 20)})]),
    "a schema that holds itself (B13)": chat(tools=[tool("endless", RECURSIVE)]),
    "an address of the cloud's own (B14)": with_picture("http://169.254.169.254/latest/meta-data/"),
    "a file as a picture (B14)": with_picture("file:///etc/passwd"),
    "a NUL in a text (B8)": chat("a\0b"),
    "scripts, joined emoji and marks (T4)": chat("שלום \u200f مرحبا 👩‍👩‍👧‍👦 e\u0301 𝒳 \u202e kana ｶﾅ"),
}


async def test_a_million_keys_are_refused_before_they_are_parsed(start, upstream):
    tandem = await start(two_targets(upstream.base_url, upstream.base_url))

    reply = await call(tandem.port, "/v1/chat/completions", chat(metadata={str(number): 1 for number in range(1_000_000)}))

    assert (reply.status, reply.json["error"]["code"]) == (400, "invalid_request")
    assert "too many values" in reply.json["error"]["message"]
    assert not upstream.seen


@pytest.mark.parametrize("case", ODD)
async def test_what_is_only_odd_reaches_a_target_of_its_dialect_as_it_came(start, upstream, case):
    upstream.scripts = [answer_json(CHAT_ANSWER)]
    large = "window_tokens: 90000000"
    config = two_targets(upstream.base_url, upstream.base_url, fast_extra=f"{large},").replace("window_tokens: 400000", large)
    tandem = await start(config)
    more = {"metadata": {str(number): 1 for number in range(380_000)}} if case == KEYS else {}
    raw = json.dumps({**ODD[case], **more}, ensure_ascii=False).encode()

    reply = await call(tandem.port, "/v1/chat/completions", raw)

    assert reply.status == 200, reply.body
    (seen,) = upstream.seen
    assert re.sub(rb'(?<="model": ")[^"]*', ODD[case]["model"].encode(), seen.body, count=1) == raw


@pytest.mark.parametrize("levels", [200, 260, 600])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages", '{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"x":DEEP}}]}'),
        ("/v1/chat/completions", '{"role":"assistant","tool_calls":[{"id":"t","function":{"name":"f","arguments":DEEP}}]}'),
        ("/v1/responses", '{"type":"function_call","call_id":"t","name":"f","arguments":DEEP}'),
        ("/v1/responses", '{"type":"local_shell_call","call_id":"t","action":{"x":DEEP}}'),
    ],
)
async def test_a_call_with_deep_arguments_is_served_or_refused_and_never_a_fault(simulated, path, body, levels):
    """B4."""
    field = "input" if path == "/v1/responses" else "messages"
    deep = body.replace("DEEP", "[" * levels + "]" * levels)
    raw = f'{{"model":"auto","max_tokens":9,"{field}":[{{"role":"user","content":"hi"}},{deep}]}}'

    reply = await call(simulated.port, path, raw.encode())

    assert reply.status in (200, 400), reply.body


async def test_five_thousand_headers_are_a_431(simulated):
    """W5."""
    reply = await call(simulated.port, "/v1/chat/completions", chat(), {f"x-{number}": "y" for number in range(5_000)})

    assert reply.status == 431


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_tokens", 10**12), ("n", 1000), ("temperature", "hot"), ("stream", "yes"), ("stream", 1)],
)
async def test_a_number_that_is_none_or_too_large_is_a_400_that_names_its_field(simulated, field, value):
    """B12 and B16."""
    reply = await call(simulated.port, "/v1/chat/completions", chat(**{field: value}))

    assert (reply.status, reply.json["error"]["param"]) == (400, field)


@pytest.mark.parametrize("by_shim", [False, True])
@pytest.mark.parametrize("leaves", ["close", "abort"])
async def test_a_caller_that_leaves_while_its_body_arrives_costs_no_call_and_has_no_entry(start, upstream, by_shim, leaves):
    """S3."""
    upstream.scripts = [answer_json(CHAT_ANSWER)]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, extra="limits: {max_in_flight: 1}"))
    async with Caller(tandem.port, by_shim=by_shim) as caller:
        await caller.send(request_bytes("/v1/chat/completions", chat())[:-5])
        await some_turns()
        getattr(caller.writer.transport, leaves)()
        await some_turns()

    reply = await call(tandem.port, "/v1/chat/completions", chat())

    assert reply.status == 200  # its slot is free
    assert len(upstream.seen) == 1
    assert len(await tandem.entries()) == 1


async def test_what_a_person_wrote_crosses_a_bridge_unchanged(start, upstream):
    """T4, over a bridge."""
    words = ODD["scripts, joined emoji and marks (T4)"]["messages"][0]["content"]
    upstream.scripts = [speak("messages", Speech(words))]
    tandem = await start(one_dialect("messages", upstream.base_url))

    reply = await call(tandem.port, "/v1/chat/completions", chat(words))

    assert upstream.seen[0].json["messages"][0]["content"] in (words, [{"type": "text", "text": words}])
    assert reply.json["choices"][0]["message"]["content"] == words
