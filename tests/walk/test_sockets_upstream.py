"""Targets driven over WebSockets: what they get, what the caller gets, and when HTTP takes over."""

import asyncio
import json

import pytest

from router.upstream.websocket import answer
from router.upstream.websocket import frames as frames_module
from tests.tools.http import Reply, call, read_reply, request_bytes
from tests.tools.running import Running, running
from tests.tools.socket_upstream import (
    SocketUpstream,
    die,
    events_of,
    hold_little,
    refuse,
    say,
    say_nothing,
    write_without_end,
)
from tests.tools.sockets import open_socket
from tests.tools.speech import Speech, ToolCall, speak
from tests.tools.waiting import until_steady

pytestmark = pytest.mark.wire

TOOLS = [{"type": "function", "name": "read", "parameters": {"type": "object"}, "strict": False}]


@pytest.fixture
async def target():
    server = SocketUpstream()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def other_target():
    server = SocketUpstream()
    await server.start()
    yield server
    await server.stop()


def config_for(fast: SocketUpstream, deep: SocketUpstream, *, deep_transport: str = "http", more: str = "") -> str:
    each = f"adapter: openai_http, dialect: responses, window_tokens: 400000, {more}"
    return f"""
ledger: {{path: test.db}}
tiers:
  fast: {{targets: [{{name: spark, base_url: "{fast.base_url}", model: fast-model, upstream_transport: websocket, {each}}}]}}
  deep: {{targets: [{{name: sage, base_url: "{deep.base_url}", model: deep-model, upstream_transport: {deep_transport}, {each}}}]}}
"""


def user(text: str) -> dict:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def output_for(call_id: str, text: str = "line one\nline two") -> dict:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


class Client:
    """Sends its whole conversation with each request, as Codex does."""

    def __init__(self, tandem: Running, **fields: object) -> None:
        self.port = tandem.port
        self.items: list[dict] = []
        self.fields = {"model": "auto", "store": False, "stream": True, "instructions": "be brief", "tools": TOOLS, **fields}
        self.headers = {"session-id": "s-1", "x-tandem-tier": "fast"}

    async def post(self, *items: dict, **fields: object) -> Reply:
        self.items += items
        reply = await call(
            self.port, "/v1/responses", {**self.fields, "input": self.items, **fields}, headers=dict(self.headers)
        )
        if reply.status == 200 and reply.is_whole:
            for item in output_of(reply):
                self.items.append({name: value for name, value in item.items() if name not in ("id", "status")})
        return reply


def events_in(reply: Reply) -> list[dict]:
    blocks = reply.body.decode().split("\n\n")
    return [json.loads(block.split("data: ", 1)[1]) for block in blocks if "data: " in block]


def output_of(reply: Reply) -> list[dict]:
    if reply.headers["content-type"].startswith("application/json"):
        return reply.json["output"]
    return events_in(reply)[-1]["response"]["output"]


def text_of(reply: Reply) -> str:
    return "".join(part["text"] for item in output_of(reply) if item["type"] == "message" for part in item["content"])


async def test_a_tool_loop_of_five_calls_sends_only_what_is_new(target, tmp_path):
    target.scripts = [*(say("", ToolCall(f"call_{n}", "read", "{}"), thinking="hm") for n in range(4)), say("done")]
    async with running(config_for(target, target), tmp_path) as tandem:
        client = Client(tandem, instructions="be brief " * 500)
        await client.post(user("fix the typo in a.py"))
        for n in range(3):
            await client.post(output_for(f"call_{n}", "x" * 5_000))
        last = await client.post(output_for("call_3", "x" * 5_000))

    assert text_of(last) == "done"
    assert target.sockets == 1
    first, *rest = [seen.json for seen in target.seen]
    assert first["type"] == "response.create"
    assert "previous_response_id" not in first
    assert [message["input"] for message in rest] == [[output_for(f"call_{n}", "x" * 5_000)] for n in range(4)]
    assert all(message["previous_response_id"].startswith("resp_") for message in rest)
    assert all(message["instructions"] == first["instructions"] and message["tools"] == TOOLS for message in rest)
    assert all("stream" not in message for message in (first, *rest))
    sizes = [len(seen.raw) for seen in target.seen]
    assert sizes[1:] == [sizes[1]] * 4  # each call costs the same, however long the conversation


async def test_the_caller_gets_the_same_stream_as_over_http(target, tmp_path):
    calls = (ToolCall("call_1", "read", '{"path":"a.py"}'),)
    target.scripts = [say("hello", *calls, thinking="hm")]
    target.http.scripts = [speak("responses", Speech("hello", calls, "hm"))]
    async with running(config_for(target, target), tmp_path) as tandem:
        client = Client(tandem)
        over_socket = await client.post(user("fix it"))
        client.headers["x-tandem-tier"] = "deep"
        over_http = await client.post()

    def plain(reply: Reply) -> list[dict]:
        events = events_in(reply)
        for event in events:
            if "response" in event:
                event["response"] |= {"id": "", "store": None}
        return events

    assert plain(over_socket) == plain(over_http)
    assert over_socket.headers["content-type"] == over_http.headers["content-type"]
    assert over_socket.headers["x-tandem-target"] == "spark"
    assert (len(target.seen), len(target.http.seen)) == (1, 1)


async def test_an_edited_history_sends_the_whole_input(target, tmp_path):
    async with running(config_for(target, target), tmp_path) as tandem:
        client = Client(tandem)
        await client.post(user("fix it"))
        client.items[-1]["content"][0]["text"] = "never said"
        await client.post(user("and that"))

    assert "previous_response_id" not in target.seen[1].json
    assert len(target.seen[1].json["input"]) == 3


async def test_a_hop_to_the_other_tier_and_back_goes_on_where_each_target_left_off(target, other_target, tmp_path):
    other_target.scripts = [say("thought about it")]
    async with running(config_for(target, other_target, deep_transport="websocket"), tmp_path) as tandem:
        client = Client(tandem)
        await client.post(user("fix it"))
        client.headers["x-tandem-tier"] = "deep"
        await client.post(user("think about it"))
        client.headers["x-tandem-tier"] = "fast"
        await client.post(user("thanks"))

    assert len(other_target.seen[0].json["input"]) == 3
    back = target.seen[1].json
    assert [item.get("role") for item in back["input"]] == ["user", "assistant", "user"]
    assert back["input"][0] == user("think about it")
    assert back["previous_response_id"]
    assert (target.sockets, other_target.sockets) == (1, 1)


async def test_a_target_that_lost_the_response_gets_the_whole_input_on_the_same_socket(target, tmp_path):
    target.scripts = [say("ok"), refuse(400, "previous_response_not_found"), say("again")]
    async with running(config_for(target, target), tmp_path) as tandem:
        client = Client(tandem)
        await client.post(user("fix it"))
        reply = await client.post(user("and that"))
        [entry] = (await tandem.entries(2))[1:]

    assert text_of(reply) == "again"
    assert [("previous_response_id" in seen.json, seen.socket) for seen in target.seen] == [(False, 1), (True, 1), (False, 1)]
    assert len(target.seen[2].json["input"]) == 3
    assert entry["outcome"] == "SERVED"
    assert target.http.seen == []


async def test_a_socket_that_its_target_calls_too_old_is_replaced(target, tmp_path):
    target.scripts = [say("ok"), refuse(400, "websocket_connection_limit_reached"), say("again")]
    async with running(config_for(target, target), tmp_path) as tandem:
        client = Client(tandem)
        await client.post(user("fix it"))
        reply = await client.post(user("and that"))

    assert text_of(reply) == "again"
    assert [(seen.socket, "previous_response_id" in seen.json) for seen in target.seen] == [(1, False), (1, True), (2, False)]


@pytest.mark.parametrize("status", [426, 404, 200, 503])
async def test_a_refused_upgrade_is_served_over_http_and_not_asked_for_again(target, tmp_path, status, listen):
    target.upgrade_status = status
    logged = listen()
    async with running(config_for(target, target), tmp_path) as tandem:
        client = Client(tandem)
        replies = [await client.post(user("fix it")), await client.post(user("and that"))]

    assert [text_of(reply) for reply in replies] == ["over http"] * 2
    assert target.seen == []
    assert len(target.http.seen) == 2
    refused = [line for line in logged() if line["event"] == "socket.refused"]
    assert [(line["target"], line["reason"]) for line in refused] == [("spark", f"no WebSocket ({status})")]


async def test_a_socket_that_dies_before_the_first_event_is_replaced_by_http(target, tmp_path):
    target.scripts = [die(after=0)]
    async with running(config_for(target, target), tmp_path) as tandem:
        reply = await Client(tandem).post(user("fix it"))
        [entry] = await tandem.entries()

    assert text_of(reply) == "over http"
    assert target.http.seen[0].json["stream"] is True
    assert target.http.seen[0].json["input"] == [user("fix it")]
    assert (entry["outcome"], entry["target"]) == ("SERVED", "spark")


async def test_a_socket_that_dies_after_the_first_event_cuts_the_answer(target, tmp_path):
    target.scripts = [die(after=5)]
    async with running(config_for(target, target), tmp_path) as tandem:
        reply = await Client(tandem).post(user("fix it"))
        [entry] = await tandem.entries()

    assert not reply.is_whole
    assert events_in(reply)[-1]["type"] == "response.failed"
    assert entry["outcome"] == "CUT_SHORT"
    assert target.http.seen == []


async def test_an_error_frame_in_mid_answer_ends_the_stream_as_failed(target, tmp_path):
    async def begin_then_fail(connection, seen):
        for event in events_of(Speech("some words of an answer"))[:5]:
            await connection.send(json.dumps(event))
        await refuse(500, "server_error", "it broke")(connection, seen)

    target.scripts = [begin_then_fail]
    async with running(config_for(target, target), tmp_path) as tandem:
        reply = await Client(tandem).post(user("fix it"))
        [entry] = await tandem.entries()

    last = events_in(reply)[-1]
    assert (last["type"], last["message"]) == ("error", "it broke")
    assert entry["outcome"] == "FAILED"


async def test_a_caller_that_leaves_closes_the_socket(target, tmp_path):
    target.scripts = [write_without_end, say("ok")]
    async with running(config_for(target, target), tmp_path) as tandem:
        client = Client(tandem)
        reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
        body = {**client.fields, "input": [user("fix it")]}
        writer.write(request_bytes("/v1/responses", body, client.headers))
        await reader.readuntil(b".delta")
        writer.close()
        await asyncio.wait_for(target.seen[0].left.wait(), 30)
        reply = await client.post(user("fix it"))

    assert text_of(reply) == "ok"
    assert target.sockets == 2


async def test_an_interrupt_closes_the_socket(target, tmp_path):
    target.scripts = [write_without_end, say("renamed")]
    async with running(config_for(target, target), tmp_path) as tandem, open_socket(tandem.port) as socket:
        await socket.say("migrate it", client_metadata={"x-tandem-tier": "fast"})
        begun = await socket.until("response.output_text.delta")
        response_id = next(event["response"]["id"] for event in begun if event["type"] == "response.created")
        await socket.send({"type": "response.steer", "previous_response_id": response_id, "input": "no, just rename it"})
        await socket.until("response.incomplete")
        answer = (await socket.until("response.completed"))[-1]["response"]
        await asyncio.wait_for(target.seen[0].left.wait(), 30)

    assert answer["output"][0]["content"][0]["text"] == "renamed"
    assert "previous_response_id" not in target.seen[1].json
    assert "first words" in target.seen[1].raw


async def test_a_caller_on_a_socket_drives_a_target_on_a_socket(target, tmp_path):
    target.scripts = [say("", ToolCall("call_0", "read", "{}"), thinking="hm"), say("done")]
    tier = {"x-tandem-tier": "fast"}
    async with running(config_for(target, target), tmp_path) as tandem, open_socket(tandem.port) as socket:
        first = await socket.ask([user("fix it")], client_metadata=tier)
        second = await socket.ask([output_for("call_0")], previous_response_id=first["id"], client_metadata=tier)

    assert second["output"][0]["content"][0]["text"] == "done"
    assert target.sockets == 1
    assert target.seen[1].json["input"] == [output_for("call_0")]
    assert target.seen[1].json["previous_response_id"] == first["id"]


async def test_a_caller_that_does_not_stream_gets_the_response_in_one_piece(target, tmp_path):
    async with running(config_for(target, target), tmp_path) as tandem:
        client = Client(tandem, stream=False)
        replies = [await client.post(user("fix it")), await client.post(user("and that"))]

    assert [reply.headers["content-type"] for reply in replies] == ["application/json"] * 2
    assert [text_of(reply) for reply in replies] == ["ok"] * 2
    assert target.seen[1].json["input"] == [user("and that")]


async def test_a_chat_caller_is_bridged_to_a_target_on_a_socket(target, tmp_path):
    target.scripts = [say("", ToolCall("call_0", "read", '{"path":"a"}')), say("done")]
    tools = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
    messages: list[dict] = [{"role": "user", "content": "fix it"}]
    headers = {"session-id": "s-1", "x-tandem-tier": "fast"}
    async with running(config_for(target, target), tmp_path) as tandem:
        body = {"model": "auto", "messages": messages, "tools": tools}
        first = await call(tandem.port, "/v1/chat/completions", body, headers=headers)
        answer = first.json["choices"][0]["message"]
        messages += [answer, {"role": "tool", "tool_call_id": answer["tool_calls"][0]["id"], "content": "x"}]
        second = await call(tandem.port, "/v1/chat/completions", body, headers=headers)

    assert second.json["choices"][0]["message"]["content"] == "done"
    assert target.sockets == 1
    assert [item["type"] for item in target.seen[1].json["input"]] == ["function_call_output"]


async def test_a_stop_closes_every_socket(target, tmp_path):
    async with running(config_for(target, target), tmp_path) as tandem:
        for session in ("s-1", "s-2"):
            client = Client(tandem)
            client.headers["session-id"] = session
            await client.post(user("fix it"))
        assert len(target.open) == 2

    for seen in target.seen:
        await asyncio.wait_for(seen.left.wait(), 30)
    assert target.open == set()


async def test_a_stop_in_mid_answer_closes_its_socket_too(target, tmp_path):
    target.scripts = [write_without_end]
    async with running(config_for(target, target), tmp_path) as tandem:
        client = Client(tandem)
        reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
        writer.write(request_bytes("/v1/responses", {**client.fields, "input": [user("fix it")]}, client.headers))
        await reader.readuntil(b".delta")

    await asyncio.wait_for(target.seen[0].left.wait(), 30)
    writer.close()
    assert target.open == set()


async def test_a_target_that_never_answers_is_given_up_after_its_time(target, tmp_path):
    target.scripts = [say_nothing]
    config = config_for(target, target, more="timeouts: {first_byte_seconds: 0.2}")
    async with running(config, tmp_path) as tandem:
        reply = await Client(tandem).post(user("fix it"))
        await asyncio.wait_for(target.seen[0].left.wait(), 30)

    assert reply.status == 504
    assert "did not begin to answer in 0.2 s" in reply.json["error"]["message"]
    assert target.http.seen == []


async def test_keys_and_passed_headers_are_those_of_http_and_the_key_is_never_shown(target, tmp_path, monkeypatch):
    monkeypatch.setenv("SOCKET_KEY", "sk-canary-0123456789")
    target.scripts = [say("the key is sk-canary-0123456789"), refuse(400, "bad", "you sent sk-canary-0123456789")]
    async with running(config_for(target, target, more="api_key: env:SOCKET_KEY"), tmp_path) as tandem:
        client = Client(tandem)
        client.headers |= {"openai-beta": "responses_websockets=2026-02-06", "authorization": "Bearer callers-own"}
        served = await client.post(user("fix it"))
        refused = await client.post(user("and that"))

    headers = target.seen[0].headers
    assert headers["authorization"] == "Bearer sk-canary-0123456789"
    assert headers["openai-beta"] == "responses_websockets=2026-02-06"
    assert headers["user-agent"] == "tandem"
    assert b"sk-canary" not in served.body + refused.body


async def test_headers_and_query_of_a_target_are_part_of_the_handshake(target, tmp_path, monkeypatch):
    monkeypatch.setenv("GATEWAY_TOKEN", "gateway-canary-0123456789")
    more = "headers: {x-gateway: env:GATEWAY_TOKEN}, query: {api-version: 2024-10-21}"
    async with running(config_for(target, target, more=more), tmp_path) as tandem:
        await Client(tandem).post(user("fix it"))
        (connection,) = target.open

    assert target.seen[0].headers["x-gateway"] == "gateway-canary-0123456789"
    assert connection.request.path == "/v1/responses?api-version=2024-10-21"


async def test_callers_with_keys_of_their_own_never_share_a_socket(target, tmp_path):
    async with running(config_for(target, target, more="api_key: caller"), tmp_path) as tandem:
        for key in ("one", "other", "one"):
            client = Client(tandem)
            client.headers["authorization"] = f"Bearer {key}"
            await client.post(user("fix it"))

    assert [seen.headers["authorization"] for seen in target.seen] == ["Bearer one", "Bearer other", "Bearer one"]
    assert [seen.socket for seen in target.seen] == [1, 2, 1]


async def test_pings_of_a_target_are_answered(target, tmp_path):
    async def ping_first(connection, seen):
        await asyncio.wait_for(await connection.ping(), 30)
        await say("ok")(connection, seen)

    target.scripts = [ping_first]
    async with running(config_for(target, target), tmp_path) as tandem:
        reply = await Client(tandem).post(user("fix it"))
        [connection] = target.open
        await asyncio.wait_for(await connection.ping(), 30)

    assert text_of(reply) == "ok"


FLOOD = 160
"""Frames of 100 kB: more than the kernel holds on the router's two sockets."""


async def test_a_slow_reader_pauses_a_target_on_a_socket(target, tmp_path):
    sent, began = 0, asyncio.Event()

    async def flood(connection, seen):
        nonlocal sent
        begun, *_, ended = events_of(Speech("x"))
        await connection.send(json.dumps(begun))
        for number in range(FLOOD):
            await connection.send(json.dumps({"type": "response.output_text.delta", "delta": "y" * 100_000}))
            sent = number
            began.set()
        await connection.send(json.dumps(ended))

    target.scripts = [flood]
    async with running(config_for(target, target), tmp_path) as tandem:
        client = Client(tandem)
        reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port, limit=1 << 26)
        hold_little(writer.get_extra_info("socket"))
        writer.transport.pause_reading()
        writer.write(request_bytes("/v1/responses", {**client.fields, "input": [user("fix it")]}, client.headers))
        await asyncio.wait_for(began.wait(), 30)
        await until_steady(lambda: sent)
        paused_at = sent
        writer.transport.resume_reading()
        reply = await asyncio.wait_for(read_reply(reader), 60)
        writer.close()

    assert paused_at < FLOOD - 1
    assert reply.is_whole
    assert len(reply.body) > FLOOD * 100_000


def frames(*told: dict):
    async def script(connection, seen):
        for each in told:
            await connection.send(json.dumps(each))

    return script


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "error", "status_code": 429, "error": {"message": "later"}, "headers": {"retry-after": "7"}},
        {"type": "error", "code": "rate_limit_exceeded", "message": "Rate limit reached. Please try again in 7s."},
    ],
    ids=["status_code", "flat"],
)
async def test_a_rate_limit_in_any_shape_is_a_429_with_its_wait(target, tmp_path, frame):
    target.scripts = [frames(frame)]
    async with running(config_for(target, target) + "spill_over: false", tmp_path) as tandem:
        reply = await Client(tandem).post(user("hi"))
        again = await Client(tandem).post(user("hi"))

    assert (reply.status, reply.headers["retry-after"]) == (429, "7")
    assert again.status == 429
    assert len(target.seen) == 1


@pytest.mark.parametrize("streams", [True, False])
async def test_an_item_of_megabytes_is_passed_on_without_being_read(target, tmp_path, monkeypatch, streams):
    read: list[int] = []
    for module in (answer, frames_module):
        monkeypatch.setattr(module, "read", lambda text, loads=frames_module.read: read.append(len(text)) or loads(text))
    parts = [{"type": "output_text", "text": "y", "annotations": []}] * 50_000
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": parts}
    begun, *_, done = events_of(Speech("x"), "resp_big")
    target.scripts = [frames(begun, {"type": "response.output_item.done", "output_index": 0, "item": item}, done)]
    async with running(config_for(target, target), tmp_path) as tandem:
        reply = await Client(tandem, stream=streams).post(user("hi"))

    assert reply.status == 200
    assert max(read, default=0) < 100_000
