"""The OpenAI and Anthropic Python SDKs over every bridge: their own types and stream helpers judge what comes back."""

import asyncio
import json

import anthropic
import openai
import pytest

from router.dialects.translate.bridges import BRIDGES
from tests.conftest import SIMULATED
from tests.tools.http import call, chat
from tests.tools.later import later
from tests.tools.running import one_dialect
from tests.tools.sdks import SCHEMA, sdk_caller
from tests.tools.speech import Speech, ToolCall, speak
from tests.tools.upstream import answer_json
from tests.tools.waiting import until

DIALECTS = ["chat", "responses", "messages"]
PAIRS = [pytest.param(str(caller), str(target), id=bridge.name) for (caller, target), bridge in BRIDGES.items()]
WAYS = pytest.mark.parametrize("streams", [True, False], ids=["streaming", "whole"])
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TWO_CALLS = (
    ToolCall("call_1", "read_file", json.dumps({"path": "calc.py"})),
    ToolCall("call_2", "read_file", json.dumps({"path": "README.md"})),
)

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("caller", DIALECTS)
@WAYS
async def test_an_sdk_calls_a_tool_and_gets_its_answer_whatever_its_upstream_speaks(start, tmp_path, caller, dialect, streams):
    (tmp_path / "far").mkdir()
    far = await start(SIMULATED.replace('"gpt-*": auto', '"*": simulated-fast'), tmp_path / "far")
    tandem = await start(one_dialect(dialect, f"{far.url}/v1"))

    async with sdk_caller(caller, tandem.url, streams=streams, with_tools=True) as sdk:
        sdk.say("Fix the typo in calc.py")
        first = await sdk.ask()
        sdk.give_back(dict.fromkeys(first.calls, "retrun a / b"))
        last = await sdk.ask()

    assert [name for name, _ in first.calls.values()] == ["read_file"]
    assert "simulated fast tier: no model was asked" in last.text
    assert [entry["dialect"] for entry in await far.entries(2)] == [dialect] * 2


@pytest.mark.parametrize(("caller", "target"), PAIRS)
@WAYS
async def test_parallel_calls_keep_their_ids_and_their_results_find_them(start, upstream, caller, target, streams):
    tandem = await start(one_dialect(target, upstream.base_url))
    upstream.scripts = [speak(target, Speech("I read both.", TWO_CALLS)), speak(target, Speech("Both are read."))]

    async with sdk_caller(caller, tandem.url, streams=streams, with_tools=True) as sdk:
        sdk.say("Read both files.")
        first = await sdk.ask()
        sdk.give_back({call: f"words of {arguments['path']}" for call, (_, arguments) in first.calls.items()})
        last = await sdk.ask()

    assert first.text == "I read both."
    assert first.calls == {
        "call_1": ("read_file", {"path": "calc.py"}),
        "call_2": ("read_file", {"path": "README.md"}),
    }
    assert last.text == "Both are read."
    assert first.tokens == last.tokens == (90, 12)
    assert results_in(target, upstream.seen[1].json) == {"call_1": "words of calc.py", "call_2": "words of README.md"}
    assert tools_in(target, upstream.seen[0].json) == {"read_file": SCHEMA}


@pytest.mark.parametrize(("caller", "target"), PAIRS)
@WAYS
async def test_an_image_arrives_as_the_targets_own_kind_of_image(start, upstream, caller, target, streams):
    tandem = await start(one_dialect(target, upstream.base_url))
    upstream.scripts = [speak(target, Speech("One pixel."))]

    async with sdk_caller(caller, tandem.url, streams=streams) as sdk:
        sdk.say("What is this?", PIXEL)
        heard = await sdk.ask()

    assert heard.text == "One pixel."
    assert images_in(target, upstream.seen[0].json) == [PIXEL]


@pytest.mark.parametrize(("caller", "target"), PAIRS)
@WAYS
async def test_a_schema_crosses_and_the_answer_is_parsed_by_the_sdk(start, upstream, caller, target, streams):
    tandem = await start(one_dialect(target, upstream.base_url))
    upstream.scripts = [speak(target, Speech('{"word": "typo", "score": 3}'))]

    async with sdk_caller(caller, tandem.url, streams=streams, with_schema=True) as sdk:
        sdk.say("What is wrong?")
        heard = await sdk.ask()

    assert (heard.parsed.word, heard.parsed.score) == ("typo", 3)
    schema = schema_in(target, upstream.seen[0].json)
    assert set(schema["properties"]) == {"word", "score"}
    assert schema["required"] == ["word", "score"]


@pytest.mark.parametrize(("caller", "target"), PAIRS)
async def test_the_stream_helpers_take_thinking_text_and_calls_without_complaint(start, upstream, caller, target):
    tandem = await start(one_dialect(target, upstream.base_url))
    upstream.scripts = [speak(target, Speech("I read both.", TWO_CALLS, thinking="There are two files."))]

    async with sdk_caller(caller, tandem.url, streams=True, with_tools=True) as sdk:
        sdk.say("Read both files.")
        heard = await sdk.ask()

    assert heard.thinking == "There are two files."
    assert heard.deltas == heard.text == "I read both."
    assert list(heard.calls) == ["call_1", "call_2"]


@pytest.mark.parametrize(("caller", "target"), [pair for pair in PAIRS if pair.values[0] != "chat"])
@WAYS
async def test_a_targets_reasoning_comes_back_to_it_with_the_results(start, upstream, caller, target, streams):
    tandem = await start(one_dialect(target, upstream.base_url))
    spoken = Speech("I read it.", TWO_CALLS[:1], thinking="There is a file.")
    upstream.scripts = [speak(target, spoken), speak(target, Speech("It is read."))]

    async with sdk_caller(caller, tandem.url, streams=streams, with_tools=True) as sdk:
        sdk.say("Read it.")
        first = await sdk.ask()
        sdk.give_back(dict.fromkeys(first.calls, "words"))
        await sdk.ask()

    again = upstream.seen[1].body.decode()
    if target == "messages":
        assert '"signature":"signed"' in again
    elif target == "responses":
        assert '"encrypted_content":"sealed"' in again
    assert "tandem~" not in again


@pytest.mark.parametrize(("caller", "target"), PAIRS)
async def test_a_stream_that_its_target_does_not_end_is_an_error_to_the_sdk_and_no_answer(start, upstream, caller, target):
    tandem = await start(one_dialect(target, upstream.base_url))
    upstream.scripts = [speak(target, Speech("I read both.", TWO_CALLS), ends=False)]

    async with sdk_caller(caller, tandem.url, streams=True, with_tools=True) as sdk:
        sdk.say("Read both files.")
        with pytest.raises((openai.APIError, anthropic.APIError)):
            await sdk.ask()


@pytest.mark.parametrize(("caller", "target"), PAIRS)
@WAYS
async def test_a_refusal_is_the_sdks_own_kind_of_error_with_the_targets_words(start, upstream, caller, target, streams):
    tandem = await start(one_dialect(target, upstream.base_url))
    error = {"type": "invalid_request_error", "message": "That is no picture."}
    body = {"type": "error", "error": error} if target == "messages" else {"error": {**error, "param": None, "code": None}}
    upstream.scripts = [answer_json(body, status=400)]

    async with sdk_caller(caller, tandem.url, streams=streams) as sdk:
        sdk.say("What is this?", PIXEL)
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError), match="That is no picture."):
            await sdk.ask()


def results_in(dialect: str, body: dict) -> dict[str, str]:
    """What the tools gave back, by the call's id, as an upstream was told it."""
    if dialect == "chat":
        return {line["tool_call_id"]: line["content"] for line in body["messages"] if line["role"] == "tool"}
    if dialect == "responses":
        items = [item for item in body["input"] if item["type"] == "function_call_output"]
        return {item["call_id"]: item["output"] for item in items}
    blocks = [block for line in body["messages"] if isinstance(line["content"], list) for block in line["content"]]
    found = {block["tool_use_id"]: block["content"] for block in blocks if block["type"] == "tool_result"}
    return {call: text if isinstance(text, str) else text[0]["text"] for call, text in found.items()}


def tools_in(dialect: str, body: dict) -> dict[str, dict]:
    """The schemas of the tools that an upstream was offered, by name."""
    if dialect == "chat":
        return {tool["function"]["name"]: tool["function"]["parameters"] for tool in body["tools"]}
    field = "parameters" if dialect == "responses" else "input_schema"
    return {tool["name"]: tool[field] for tool in body["tools"]}


def images_in(dialect: str, body: dict) -> list[str]:
    """The base64 of the images that an upstream was shown."""
    lines = body["input"] if dialect == "responses" else body["messages"]
    parts = [part for line in lines for part in line["content"]]
    if dialect == "messages":
        return [part["source"]["data"] for part in parts if part["type"] == "image"]
    kind = "image_url" if dialect == "chat" else "input_image"
    found = [part["image_url"] for part in parts if part["type"] == kind]
    urls = [image["url"] if dialect == "chat" else image for image in found]
    return [url.removeprefix("data:image/png;base64,") for url in urls]


def schema_in(dialect: str, body: dict) -> dict:
    """The schema that an upstream was told to answer in."""
    if dialect == "chat":
        return body["response_format"]["json_schema"]["schema"]
    return (body["text"] if dialect == "responses" else body["output_config"])["format"]["schema"]


@pytest.mark.parametrize("caller", DIALECTS)
async def test_an_sdk_reads_over_what_it_is_told_while_it_waits_for_a_quota(start, upstream, monkeypatch, caller):
    monkeypatch.setattr("router.dispatch.waiting.HEARTBEAT_SECONDS", 0.02)
    gate, answer = asyncio.Event(), speak("chat", Speech("It is mended."))

    async def held(wire, seen):
        await gate.wait()
        await answer(wire, seen)

    upstream.scripts = [held, answer]
    config = one_dialect("chat", upstream.base_url).replace("auto: auto", "auto: fast").replace('"*": auto', '"*": fast')
    tandem = await start(config.replace("{name: quick,", "{name: quick, quota: {in_flight: 1},"))
    first = later(call(tandem.port, "/v1/chat/completions", chat()))
    await until(lambda: upstream.seen)

    async def let_go():
        queue = tandem.house.state.live.queues.queue_of(tandem.house.plan.targets["quick"], None)
        await until(lambda: queue.length)
        asyncio.get_running_loop().call_later(0.1, gate.set)

    async with sdk_caller(caller, tandem.url, streams=True) as sdk:
        sdk.say("Fix the typo")
        reply, _, _ = await asyncio.gather(sdk.ask(), let_go(), first)

    assert reply.text == "It is mended."
    assert reply.tokens == (90, 12)
    waits = [json.loads(row["decision"]).get("queued") for row in await tandem.entries(2)]
    assert [seconds > 0.05 for wait in waits if wait for _, seconds in wait] == [True]
