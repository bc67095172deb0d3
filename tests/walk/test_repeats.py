"""Repeated requests with an `Idempotency-Key`: every dialect, straight and bridged, whole and streamed."""

import asyncio
import contextlib
import json
import sqlite3

import pytest

from tests.conftest import SIMULATED
from tests.tools.cases import covering
from tests.tools.http import call, chat, read_reply, request_bytes
from tests.tools.raw import Caller
from tests.tools.running import one_dialect, two_targets
from tests.tools.speech import Speech, speak
from tests.tools.upstream import CHAT_ANSWER, answer_json
from tests.tools.waiting import later, until

pytestmark = pytest.mark.wire

KEY = {"idempotency-key": "2f1c"}
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "completions": "/v1/completions",
}
HELLO = [{"role": "user", "content": "hello"}]
BODIES = {
    "chat": {"messages": HELLO},
    "responses": {"input": "hello"},
    "messages": {"messages": HELLO, "max_tokens": 99},
    "completions": {"prompt": "def f("},
}
DIALECTS = ["chat", "responses", "messages"]
WAYS = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])


def ask(dialect: str, *, streams: bool = False, **more) -> dict:
    return {"model": "auto", "stream": streams, **BODIES[dialect], **more}


def answer_after(go_on: asyncio.Event):
    async def script(wire, seen):
        await go_on.wait()
        await answer_json(CHAT_ANSWER)(wire, seen)

    return script


def read_sessions(tandem) -> list[tuple]:
    with contextlib.closing(sqlite3.connect(tandem.loaded.ledger_path)) as database:
        return database.execute("SELECT key, at, state FROM sessions").fetchall()


@pytest.mark.parametrize(("caller", "target", "streams"), covering(DIALECTS, DIALECTS, [False, True]))
async def test_a_request_that_was_served_gets_the_same_bytes_again_and_no_target_is_called(
    start, upstream, caller, target, streams
):
    upstream.scripts = [speak(target, Speech("hi there"))]
    tandem = await start(one_dialect(target, upstream.base_url))
    first = await call(tandem.port, PATHS[caller], ask(caller, streams=streams), KEY)
    again = await call(tandem.port, PATHS[caller], ask(caller, streams=streams), KEY)
    one, two = await tandem.entries(2)

    assert (first.status, again.status, again.body) == (200, 200, first.body)
    assert (first.is_whole, again.is_whole, len(upstream.seen)) == (True, True, 1)
    assert again.headers["x-tandem-replayed"] == "true"
    assert "x-tandem-replayed" not in first.headers
    for name in ("content-type", "x-tandem-tier", "x-tandem-target", "x-request-id"):
        assert again.headers[name] == first.headers[name]
    assert (one["id"], two["id"]) == (first.headers["x-tandem-request-id"], again.headers["x-tandem-request-id"])
    assert (two["outcome"], two["status"], two["cost_usd"], two["attempts"]) == ("SERVED", 200, 0.0, "[]")
    assert two["because"] == f"replayed from {one['id']} (same idempotency-key)"
    assert (two["model"], two["streaming"], two["tier"], two["session"]) == ("auto", streams, None, None)


async def test_a_typed_completion_has_keys_too(start):
    tandem = await start(SIMULATED)
    first, again = [await call(tandem.port, PATHS["completions"], ask("completions"), KEY) for _ in range(2)]

    assert (first.status, again.body, again.headers.get("x-tandem-replayed")) == (200, first.body, "true")


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_key_of_another_request_is_refused_in_the_callers_dialect_and_sdks_are_told_not_to_try_again(
    start, upstream, dialect
):
    upstream.scripts = [speak(dialect, Speech("hi"))]
    tandem = await start(one_dialect(dialect, upstream.base_url))
    await call(tandem.port, PATHS[dialect], ask(dialect), KEY)
    refused = await call(tandem.port, PATHS[dialect], ask(dialect, model="deep"), KEY)
    _, entry = await tandem.entries(2)

    assert (refused.status, refused.json["error"]["code"]) == (409, "idempotency_mismatch")
    assert refused.headers["x-should-retry"] == "false"
    assert refused.json["error"]["message"].endswith(f"(request {entry['id']})")
    assert (entry["outcome"], entry["status"], entry["error"], entry["attempts"]) == (
        "REFUSED",
        409,
        "idempotency_mismatch",
        "[]",
    )
    assert len(upstream.seen) == 1


async def test_two_keys_are_refused(simulated):
    for by_shim in (False, True):
        async with Caller(simulated.port, by_shim=by_shim) as caller:
            await caller.send(request_bytes("/v1/chat/completions", chat(), {"Idempotency-Key": "a", "idempotency-key": "b"}))
            reply = await caller.reply()

        assert (reply.status, reply.json["error"]["param"]) == (400, "idempotency-key")


@pytest.mark.parametrize("header", ["x-session-id", "session_id", "thread-id", "x-claude-code-session-id", "x-tandem-session"])
async def test_the_same_body_in_another_session_is_another_request(simulated, header):
    for session in "ab":
        reply = await call(simulated.port, "/v1/chat/completions", chat(), {"idempotency-key": "k", header: session})

    assert (reply.status, reply.json["error"]["code"]) == (409, "idempotency_mismatch")


async def test_a_response_that_is_sent_again_can_be_continued_by_its_one_id(start, upstream):
    upstream.scripts = [speak("chat", Speech("hi"))]
    tandem = await start(one_dialect("chat", upstream.base_url))
    first, again = [await call(tandem.port, PATHS["responses"], ask("responses"), KEY) for _ in range(2)]
    body = ask("responses", previous_response_id=again.json["id"])
    third = await call(tandem.port, PATHS["responses"], body)

    assert first.json["id"] == again.json["id"]
    assert third.status == 200
    assert [message["role"] for message in upstream.seen[1].json["messages"]] == ["user", "assistant", "user"]


async def test_a_repeat_whose_history_was_deleted_meanwhile_still_gets_its_answer(start, upstream):
    upstream.scripts = [speak("chat", Speech("hi"))]
    tandem = await start(one_dialect("chat", upstream.base_url))
    before = await call(tandem.port, PATHS["responses"], ask("responses"))
    body = ask("responses", previous_response_id=before.json["id"])
    first = await call(tandem.port, PATHS["responses"], body, KEY)
    await call(tandem.port, f"/v1/responses/{before.json['id']}", method="DELETE")
    again = await call(tandem.port, PATHS["responses"], body, KEY)

    assert (again.status, again.body) == (200, first.body)


async def test_a_session_does_not_count_a_repeat_as_work(start, upstream):
    upstream.scripts = [answer_json(CHAT_ANSWER)]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url))
    headers = {**KEY, "x-tandem-session": "editor"}
    await call(tandem.port, PATHS["chat"], chat(), headers)
    await until(lambda: read_sessions(tandem))
    before = read_sessions(tandem)
    await call(tandem.port, PATHS["chat"], chat(), headers)
    await tandem.entries(2)  # written after the session's changes, by one writer

    assert read_sessions(tandem) == before


async def test_a_body_in_chunks_is_the_same_request(start, upstream):
    upstream.scripts = [answer_json(CHAT_ANSWER)]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url))
    first = await call(tandem.port, PATHS["chat"], chat(), KEY)
    raw = json.dumps(chat()).encode()
    head = f"POST {PATHS['chat']} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nidempotency-key: 2f1c\r\n"
    async with Caller(tandem.port) as caller:
        await caller.send(head.encode() + b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(raw), raw))
        again = await asyncio.wait_for(read_reply(caller.reader), 30)

    assert (again.body, again.headers["x-tandem-replayed"], len(upstream.seen)) == (first.body, "true", 1)


async def test_a_repeat_does_not_supersede_the_one_that_it_repeats(start, upstream):
    go_on = asyncio.Event()
    upstream.scripts = [answer_after(go_on)]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url))
    headers = {**KEY, "x-tandem-supersede": "lint", "x-tandem-session": "editor"}
    asking = [later(call(tandem.port, PATHS["chat"], chat(), headers)) for _ in range(2)]
    await upstream.arrived.wait()
    await until(lambda: len(tandem.house.state.running) == 2)
    go_on.set()
    replies = await asyncio.gather(*asking)

    assert [reply.status for reply in replies] == [200, 200]
    assert len(upstream.seen) == 1


async def test_a_changed_config_forgets_no_answer(start, upstream):
    upstream.scripts = [answer_json(CHAT_ANSWER)]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url))
    await call(tandem.port, PATHS["chat"], chat(), KEY)
    tandem.house.swap(tandem.house.plan)
    again = await call(tandem.port, PATHS["chat"], chat(), KEY)

    assert again.headers["x-tandem-replayed"] == "true"


async def test_neither_key_nor_answer_goes_to_the_target_the_log_or_the_disk(start, upstream, listen):
    read_log = listen()
    upstream.scripts = [speak("chat", Speech("canary of the answer"))]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url))
    for _ in range(2):
        reply = await call(tandem.port, PATHS["chat"], chat(), {"idempotency-key": "canary-of-the-key"})
    await tandem.entries(2)

    assert b"canary of the answer" in reply.body
    assert "idempotency-key" not in upstream.seen[0].headers
    written = b"".join(path.read_bytes() for path in tandem.loaded.ledger_path.parent.iterdir() if path.is_file())
    assert b"canary" not in written
    assert "canary" not in json.dumps(read_log())
