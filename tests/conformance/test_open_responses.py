"""What the Open Responses compliance suite asks for over HTTP, restated: each case on every kind of target."""

import json

import pytest

from tests.conformance.reading import check, hear, read_events
from tests.conformance.road import SIMULATED, Tandem
from tests.tools.loop_clock import jumping_clock
from tests.tools.speech import Speech, ToolCall

UPSTREAMS = ["chat", "responses", "messages", SIMULATED]
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather at a place.",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
}


def said(role: str, content: object) -> dict:
    return {"type": "message", "role": role, "content": content}


CASES = {
    "a basic text": [said("user", "Say hello in three words.")],
    "a system prompt": [said("system", "You are a pirate."), said("user", "Say hello.")],
    "a developer's words": [said("developer", "Answer in French."), said("user", "Say hello.")],
    "a conversation of several turns": [
        said("user", "My name is Alice."),
        said("assistant", "Hello Alice. How can I help?"),
        said("user", "What is my name?"),
    ],
    "a picture": [said("user", [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": PIXEL}])],
}


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("upstream", UPSTREAMS)
@jumping_clock
async def test_a_request_is_completed_with_a_message(upstream, case, streams):
    reply = await Tandem(upstream).call("/v1/responses", {"model": "auto", "input": CASES[case], "stream": streams})

    assert hear("responses", reply).text
    answer = read_events("responses", reply.body)[-1]["response"] if streams else reply.json
    assert answer["status"] == "completed"
    assert answer["output"][-1]["type"] == "message"
    assert answer["error"] is None


@pytest.mark.parametrize("upstream", UPSTREAMS)
@jumping_clock
async def test_a_tool_is_called(upstream):
    speech = Speech("", (ToolCall("call_1", "get_weather", '{"location": "Paris"}'),))
    asked = {"model": "auto", "input": [said("user", "What is the weather like in Paris?")], "tools": [WEATHER]}

    answer = (await Tandem(upstream, speech).call("/v1/responses", asked)).json

    check("responses", "Answer", answer)
    (call,) = [item for item in answer["output"] if item["type"] == "function_call"]
    assert call["name"] == "get_weather"
    assert set(json.loads(call["arguments"])) == {"location"}


@pytest.mark.parametrize("upstream", UPSTREAMS)
@jumping_clock
async def test_a_tools_result_is_taken_back(upstream):
    call = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"location": "Paris"}'}
    result = {"type": "function_call_output", "call_id": "call_1", "output": "Sunny."}
    asked = {"model": "auto", "input": [said("user", "And in Paris?"), call, result], "tools": [WEATHER]}

    reply = await Tandem(upstream).call("/v1/responses", asked)

    assert hear("responses", reply).text
    assert reply.json["status"] == "completed"


@pytest.mark.parametrize("upstream", ["chat", "messages", SIMULATED])
@jumping_clock
async def test_a_response_is_gone_on_from_by_its_id(upstream):
    tandem = Tandem(upstream)
    first = (await tandem.call("/v1/responses", {"model": "auto", "input": "My name is Alice."})).json

    asked = {"model": "auto", "input": "What is my name?", "previous_response_id": first["id"]}
    second = (await tandem.call("/v1/responses", asked)).json

    check("responses", "Answer", second)
    assert second["previous_response_id"] == first["id"]
    items = (await tandem.call(f"/v1/responses/{second['id']}/input_items?order=asc")).json["data"]
    assert [item["role"] for item in items] == ["user", "assistant", "user"]


@pytest.mark.parametrize("upstream", UPSTREAMS)
@jumping_clock
async def test_a_compacted_conversation_can_be_gone_on_from(upstream):
    tandem, asked = Tandem(upstream), {"model": "auto", "input": CASES["a conversation of several turns"]}

    compacted = await tandem.call("/v1/responses/compact", asked)
    then = await tandem.call("/v1/responses", {"model": "auto", "input": [*compacted.json["output"], said("user", "Go on.")]})

    assert (compacted.status, compacted.json["object"]) == (200, "response.compaction")
    check("responses", "Compacted", compacted.json)
    assert hear("responses", then).text
