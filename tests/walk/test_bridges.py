"""Whole requests over a bridge, against an upstream of another dialect."""

import json

import pytest

from tests.tools.http import call
from tests.tools.running import one_dialect
from tests.tools.speech import Speech, speak
from tests.tools.upstream import CHAT_STREAM_HEAD, chat_frame

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
    assert reply.headers["x-tandem-dropped"] == "seed"


@pytest.mark.parametrize(
    ("path", "end"),
    [("/v1/responses", b"response.completed"), ("/v1/messages", b"message_stop"), ("/v1/chat/completions", b"stop")],
)
async def test_a_line_that_breaks_after_the_finish_reason_is_an_end_on_every_path(start, upstream, path, end):
    tandem = await start(one_dialect("chat", upstream.base_url))
    upstream.scripts = [break_after_the_finish]
    body = {"model": "auto", "stream": True, "max_tokens": 9, "messages": PROMPT["messages"]}
    if path == "/v1/responses":
        body = {"model": "auto", "stream": True, "input": "hello"}

    reply = await call(tandem.port, path, body)

    assert end in reply.body
    assert b'"error":{' not in reply.body
    (entry,) = await tandem.entries()
    assert (entry["outcome"], entry["error"]) == ("SERVED", None)


async def break_after_the_finish(wire, seen):
    await wire.send(CHAT_STREAM_HEAD)
    await wire.chunk(chat_frame("abc"))
    await wire.chunk(chat_frame(finish="stop"))
    await wire.send(b"40\r\ndata: {")
    wire.writer.close()


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
async def test_a_compaction_can_be_gone_on_from_at_every_target(start, upstream, dialect):
    tandem = await start(one_dialect(dialect, upstream.base_url))
    upstream.scripts = [speak(dialect, Speech("Half of it is done.")), speak(dialect, Speech("Going on."))]
    asked = {"role": "user", "content": "write a parser"}

    compaction = (await call(tandem.port, "/v1/responses/compact", {"model": "auto", "input": [asked]})).json
    body = {"model": "auto", "input": [*compaction["output"], {"role": "user", "content": "go on"}]}
    explained = await call(tandem.port, "/tandem/explain", body)
    reply = await call(tandem.port, "/v1/responses", body)

    assert [item["type"] for item in compaction["output"]] == ["message", "compaction"]
    assert reply.status == 200
    sent = json.dumps(upstream.seen[-1].json)
    assert sent.index("write a parser") < sent.index("Half of it is done.") < sent.index("go on")
    assert "compaction" not in sent
    assert explained.json["drops"] == {}
    assert explained.json["person_text"] == "go on"


async def test_an_odd_call_id_is_refused_and_not_a_fault_of_ours(start, upstream):
    tandem = await start(one_dialect("chat", upstream.base_url))
    item = {"type": "function_call_output", "call_id": [], "output": "x"}

    for path in ("/v1/responses/compact", "/v1/responses"):
        reply = await call(tandem.port, path, {"model": "auto", "input": [item]})

        assert (reply.status, reply.json["error"]["param"]) == (400, "input[0].call_id")


ATTACHED = [
    ("/v1/responses", {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file_1"}]}]}),
    ("/v1/responses", {"input": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AA"}}]}]}),
    (
        "/v1/messages",
        {
            "max_tokens": 9,
            "messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "file", "file_id": "f"}}]}],
        },
    ),
]


@pytest.mark.parametrize("wish", ["auto", "fast"])
@pytest.mark.parametrize(("path", "body"), ATTACHED)
async def test_a_message_that_is_only_an_attachment_is_refused_and_nobody_is_called(start, upstream, path, body, wish):
    tandem = await start(one_dialect("chat", upstream.base_url))

    reply = await call(tandem.port, path, {"model": wish, **body})

    assert reply.status == 400
    assert "which needs a target that speaks" in reply.json["error"]["message"]
    assert upstream.seen == []
