"""Requests over a bridge to an upstream of another dialect."""

import json

import pytest

from tests.tools.http import call
from tests.tools.running import one_dialect, two_targets
from tests.tools.speech import Speech, ToolCall, speak
from tests.tools.upstream import CHAT_STREAM_HEAD, answer_json, chat_frame

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


@pytest.mark.parametrize("dialect", ["chat", "messages"])
async def test_a_tool_that_the_client_runs_is_called_and_its_output_follows_by_the_responses_id(start, upstream, dialect):
    tandem = await start(one_dialect(dialect, upstream.base_url))
    asked = ToolCall("call_1", "shell", '{"commands": ["ls"]}')
    upstream.scripts = [speak(dialect, Speech("", (asked,))), speak(dialect, Speech("There is one file."))]
    tools = [{"type": "shell", "environment": {"type": "local"}}, {"type": "apply_patch"}]
    body = {"model": "auto", "input": "what is here?", "tools": tools}

    explained = await call(tandem.port, "/tandem/explain", body)
    first = await call(tandem.port, "/v1/responses", body)
    output = {"stdout": "a.py", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    result = {"type": "shell_call_output", "call_id": "call_1", "output": [output]}
    later = {**body, "input": [result], "previous_response_id": first.json["id"]}
    second = await call(tandem.port, "/v1/responses", later)

    assert explained.json["drops"] == {}
    (item,) = first.json["output"]
    assert (item["type"], item["action"]["commands"]) == ("shell_call", ["ls"])
    assert second.json["output"][0]["content"][0]["text"] == "There is one file."
    for seen in upstream.seen:
        assert [tool.get("name") or tool["function"]["name"] for tool in seen.json["tools"]] == ["shell", "apply_patch"]
    sent = json.dumps(upstream.seen[-1].json["messages"])
    assert sent.index("what is here?") < sent.index("call_1") < sent.index("a.py")


def shell_output(call_id: str, text: str) -> dict:
    chunk = {"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    return {"type": "shell_call_output", "call_id": call_id, "output": [chunk]}


@pytest.mark.parametrize("goes_on_by_id", [False, True])
async def test_a_session_that_hops_to_a_chat_target_and_back_keeps_its_shell_calls(
    start, upstream, other_upstream, goes_on_by_id
):
    """Fast speaks responses and has shells; deep speaks chat."""
    config = two_targets(upstream.base_url, other_upstream.base_url)
    tandem = await start(config.replace("dialect: chat", "dialect: responses", 1))
    action = {"commands": ["ls"], "timeout_ms": None, "max_output_length": None}
    native = {"id": "sh_host", "type": "shell_call", "call_id": "call_a", "status": "completed", "action": action}
    whole = {"object": "response", "created_at": 1, "model": "m", "status": "completed"}
    upstream.scripts = [answer_json({**whole, "id": f"resp_{number}", "output": [native]}) for number in (1, 2)]
    other_upstream.scripts = [speak("chat", Speech("", (ToolCall("call_b", "shell", '{"commands": ["pwd"]}'),)))]
    items, previous = [{"role": "user", "content": "look around"}], {}

    for tier, output in (("fast", "a.py"), ("deep", "/src"), ("fast", "")):
        body = {"model": "auto", "input": items, "tools": [{"type": "shell"}], **previous}
        reply = await call(tandem.port, "/v1/responses", body, {"x-tandem-tier": tier})
        (item,) = reply.json["output"]
        result = shell_output(item["call_id"], output)
        if goes_on_by_id:
            items, previous = [result], {"previous_response_id": reply.json["id"]}
        else:
            items = [*items, item, result]

    (chat,), back = other_upstream.seen, upstream.seen[-1].json
    assert chat.json["messages"][1]["tool_calls"][0]["id"] == chat.json["messages"][2]["tool_call_id"] == "call_a"
    assert chat.json["messages"][2]["content"] == "exit code: 0\na.py"
    kinds = [(item["type"], item["call_id"]) for item in back["input"][1:]]
    outputs = [
        ("shell_call", "call_a"),
        ("shell_call_output", "call_a"),
        ("shell_call", "call_b"),
        ("shell_call_output", "call_b"),
    ]
    assert kinds == outputs
    assert back["input"][1] == native
    assert back["input"][3]["action"]["commands"] == ["pwd"]
    assert ("id" in back["input"][3]) == (not goes_on_by_id)


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
