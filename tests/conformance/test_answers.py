"""Every answer of every path fits its API's own description, and says what the target said."""

import json

import pytest

from tests.conformance.reading import check, hear, read_events
from tests.conformance.road import PATHS, SIMULATED, Tandem
from tests.tools.cases import covering
from tests.tools.loop_clock import jumping_clock
from tests.tools.speech import Speech, ToolCall

DIALECTS = ["chat", "responses", "messages"]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
SPEECHES = {
    "text": Speech("Hello there."),
    "a call": Speech("I look.", (ToolCall("call_1", "get_weather", '{"city": "Bern"}'),)),
    "parallel calls": Speech(
        "", (ToolCall("call_1", "get_weather", '{"city": "Bern"}'), ToolCall("call_2", "get_weather", '{"city": "Rome"}'))
    ),
    "no arguments": Speech("", (ToolCall("call_1", "ping", "{}"),)),
    "reasoning": Speech("Four.", thinking="Two and two."),
    "a refusal": Speech(refusal="I will not."),
    "a cut": Speech("Once upon a", is_cut=True),
    "a schema": Speech('{"city": "Bern"}'),
}
TOOLS = [("get_weather", SCHEMA), ("ping", {"type": "object", "properties": {}})]


def request_for(dialect: str, kind: str, *, streams: bool) -> dict:
    """A request that asks for such an answer."""
    words = [{"role": "user", "content": "What is the weather like in Bern?"}]
    body: dict = {"model": "auto", "stream": streams}
    match dialect:
        case "chat":
            body |= {"messages": words}
        case "responses":
            body |= {"input": words, "metadata": {"team": "blue"}, "instructions": "Be brief."}
        case "messages":
            body |= {"messages": words, "max_tokens": 2_000}
    if "call" in kind or kind == "no arguments":
        body["tools"] = [_tool(dialect, name, schema) for name, schema in TOOLS]
    if kind == "a schema":
        body |= _schema(dialect)
    if kind == "reasoning":
        body |= _reasoning(dialect)
    return body


def _tool(dialect: str, name: str, schema: dict) -> dict:
    match dialect:
        case "chat":
            return {"type": "function", "function": {"name": name, "parameters": schema}}
        case "responses":
            return {"type": "function", "name": name, "parameters": schema}
    return {"name": name, "input_schema": schema}


def _schema(dialect: str) -> dict:
    match dialect:
        case "chat":
            return {"response_format": {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}}
        case "responses":
            return {"text": {"format": {"type": "json_schema", "name": "place", "schema": SCHEMA}}}
    return {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}


def _reasoning(dialect: str) -> dict:
    match dialect:
        case "chat":
            return {"reasoning_effort": "low"}
        case "responses":
            return {"reasoning": {"effort": "low", "summary": "auto"}, "include": ["reasoning.encrypted_content"]}
    return {"thinking": {"type": "enabled", "budget_tokens": 1_024}}


def expected_end(speech: Speech, dialect: str) -> set[str]:
    if speech.is_cut:
        return {"length"}
    if speech.refusal:
        return {"stop", "refusal"}
    return {"calls"} if speech.calls else {"stop"}


@pytest.mark.parametrize(
    ("dialect", "upstream", "kind", "streams"), covering(DIALECTS, DIALECTS, SPEECHES, [False, True], strength=3)
)
@jumping_clock
async def test_an_answer_fits_its_api_and_says_what_the_target_said(dialect, upstream, kind, streams):
    speech = SPEECHES[kind]

    reply = await Tandem(upstream, speech).call(PATHS[dialect], request_for(dialect, kind, streams=streams))

    heard = hear(dialect, reply)
    assert heard.text + heard.refusal == speech.text + speech.refusal
    assert [(name, json.loads(arguments)) for name, arguments in heard.calls] == [
        (call.name, json.loads(call.arguments)) for call in speech.calls
    ]
    assert heard.thinking == speech.thinking
    assert heard.end in expected_end(speech, dialect)


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("kind", ["text", "a call", "a schema", "reasoning"])
@pytest.mark.parametrize("dialect", DIALECTS)
@jumping_clock
async def test_a_simulated_answer_fits_its_api(dialect, kind, streams):
    reply = await Tandem(SIMULATED).call(PATHS[dialect], request_for(dialect, kind, streams=streams))

    heard = hear(dialect, reply)
    assert heard.end == ("calls" if kind == "a call" else "stop")
    if kind == "a call":
        assert [name for name, _ in heard.calls] == ["get_weather"]
    if kind == "a schema":
        assert set(json.loads(heard.text)) == {"city"}


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("upstream", ["chat", "messages", SIMULATED])
@jumping_clock
async def test_a_response_says_its_request_back_and_is_found_again(upstream, streams):
    tandem = Tandem(upstream, SPEECHES["a call"])
    asked = {**request_for("responses", "a call", streams=streams), "temperature": 0.3, "parallel_tool_calls": False}

    reply = await tandem.call("/v1/responses", asked)

    answer = read_events("responses", reply.body)[-1]["response"] if streams else reply.json
    again = await tandem.call(f"/v1/responses/{answer['id']}")
    check("responses", "Answer", again.json)
    assert again.json == answer
    for name in ("metadata", "instructions", "temperature", "parallel_tool_calls"):
        assert answer[name] == asked[name]
    assert [tool["name"] for tool in answer["tools"]] == ["get_weather", "ping"]


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("upstream", ["chat", SIMULATED])
@jumping_clock
async def test_a_completion_fits(upstream, streams):
    reply = await Tandem(upstream).call("/v1/completions", {"model": "auto", "prompt": "def add(", "stream": streams})

    blocks = reply.body.decode().split("\n\n") if streams else [f"data: {reply.body.decode()}", "data: [DONE]", ""]
    *frames, end, rest = [block for block in blocks if not block.startswith(":")]
    assert (reply.status, end, rest) == (200, "data: [DONE]", "")
    for frame in frames:
        check("chat", "CompletionChunk" if streams else "Completion", json.loads(frame.removeprefix("data: ")))
    assert frames


@pytest.mark.parametrize("upstream", ["chat", "messages"])
@jumping_clock
async def test_a_free_form_call_fits_too(upstream):
    patch = "*** Begin Patch"
    speech = Speech("", (ToolCall("call_1", "apply_patch", json.dumps({"input": patch})),))
    asked = {"model": "auto", "input": "Patch it.", "tools": [{"type": "custom", "name": "apply_patch"}], "stream": True}

    events = read_events("responses", (await Tandem(upstream, speech).call("/v1/responses", asked)).body)

    (item,) = events[-1]["response"]["output"]
    assert (item["type"], item["input"]) == ("custom_tool_call", patch)
