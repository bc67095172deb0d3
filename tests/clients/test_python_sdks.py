"""The OpenAI and Anthropic Python SDKs over every bridge: their own types and stream helpers judge what comes back."""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anthropic
import httpx
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import BaseModel

from router.dialects.translate.bridges import BRIDGES
from tests.conftest import SIMULATED
from tests.tools.http import call, chat
from tests.tools.running import one_dialect
from tests.tools.speech import Speech, ToolCall, speak
from tests.tools.upstream import answer_json
from tests.tools.waiting import later, until

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}


class Verdict(BaseModel):
    """The shape that an answer is asked to have."""

    word: str
    score: int


@dataclass
class Heard:
    """What the program that uses the SDK gets to see."""

    text: str = ""
    thinking: str = ""
    calls: dict[str, tuple[str, dict]] = field(default_factory=dict)
    parsed: Verdict | None = None
    tokens: tuple[int, int] = (0, 0)
    deltas: str = ""


class Caller(ABC):
    """A conversation over one SDK: the user's words, the answers as they came, and the results of tools."""

    def __init__(self, client: Any, *, streams: bool, with_tools: bool = False, with_schema: bool = False) -> None:
        self.client, self.streams, self.with_tools, self.with_schema = client, streams, with_tools, with_schema
        self.history: list[Any] = []

    @abstractmethod
    def say(self, text: str, image: str | None = None) -> None: ...

    @abstractmethod
    async def ask(self) -> Heard: ...

    @abstractmethod
    def give_back(self, results: dict[str, str]) -> None: ...


class ChatCaller(Caller):
    def say(self, text: str, image: str | None = None) -> None:
        parts: list[dict] = [{"type": "text", "text": text}]
        if image:
            parts.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}", "detail": "low"}})
        self.history.append({"role": "user", "content": parts})

    async def ask(self) -> Heard:
        more: dict = {}
        if self.with_tools:
            function = {"name": "read_file", "description": "Reads a file.", "parameters": SCHEMA, "strict": True}
            more["tools"] = [{"type": "function", "function": function}]
        if self.with_schema:
            more["response_format"] = Verdict
        deltas = ""
        if self.streams:
            options = {"include_usage": True}
            async with self.client.chat.completions.stream(
                model="auto", messages=self.history, stream_options=options, **more
            ) as stream:
                async for event in stream:
                    deltas += event.delta if event.type == "content.delta" else ""
                answer = await stream.get_final_completion()
        else:
            answer = await self.client.chat.completions.parse(model="auto", messages=self.history, **more)
        (choice,) = answer.choices
        message = choice.message
        self.history.append(message)
        assert choice.finish_reason == ("tool_calls" if message.tool_calls else "stop")
        return Heard(
            message.content or "",
            getattr(message, "reasoning_content", ""),
            {call.id: (call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or ()},
            message.parsed,
            (answer.usage.prompt_tokens, answer.usage.completion_tokens),
            deltas,
        )

    def give_back(self, results: dict[str, str]) -> None:
        self.history += [{"role": "tool", "tool_call_id": call, "content": text} for call, text in results.items()]


class ResponsesCaller(Caller):
    def say(self, text: str, image: str | None = None) -> None:
        parts: list[dict] = [{"type": "input_text", "text": text}]
        if image:
            parts.append({"type": "input_image", "image_url": f"data:image/png;base64,{image}", "detail": "low"})
        self.history.append({"role": "user", "content": parts})

    async def ask(self) -> Heard:
        more: dict = {"include": ["reasoning.encrypted_content"], "store": False}
        if self.with_tools:
            function = {"name": "read_file", "description": "Reads a file.", "parameters": SCHEMA, "strict": True}
            more["tools"] = [{"type": "function", **function}]
        if self.with_schema:
            more["text_format"] = Verdict
        deltas = ""
        if self.streams:
            async with self.client.responses.stream(model="auto", input=self.history, **more) as stream:
                async for event in stream:
                    deltas += event.delta if event.type == "response.output_text.delta" else ""
                answer = await stream.get_final_response()
        else:
            answer = await self.client.responses.parse(model="auto", input=self.history, **more)
        assert answer.status == "completed"
        self.history += answer.output
        thoughts = [item for item in answer.output if item.type == "reasoning"]
        calls = [item for item in answer.output if item.type == "function_call"]
        return Heard(
            answer.output_text,
            "".join(part.text for item in thoughts for part in item.summary),
            {call.call_id: (call.name, json.loads(call.arguments)) for call in calls},
            answer.output_parsed,
            (answer.usage.input_tokens, answer.usage.output_tokens),
            deltas,
        )

    def give_back(self, results: dict[str, str]) -> None:
        self.history += [{"type": "function_call_output", "call_id": call, "output": text} for call, text in results.items()]


class MessagesCaller(Caller):
    def say(self, text: str, image: str | None = None) -> None:
        parts: list[dict] = [{"type": "text", "text": text}]
        if image:
            source = {"type": "base64", "media_type": "image/png", "data": image}
            parts.append({"type": "image", "source": source})
        self.history.append({"role": "user", "content": parts})

    async def ask(self) -> Heard:
        more: dict = {"max_tokens": 1000, "thinking": {"type": "adaptive"}}
        if self.with_tools:
            more["tools"] = [{"name": "read_file", "description": "Reads a file.", "input_schema": SCHEMA}]
        if self.with_schema:
            more["output_format"] = Verdict
        deltas = ""
        if self.streams:
            async with self.client.messages.stream(model="auto", messages=self.history, **more) as stream:
                async for event in stream:
                    deltas += event.text if event.type == "text" else ""
                answer = await stream.get_final_message()
        else:
            answer = await self.client.messages.parse(model="auto", messages=self.history, **more)
        calls = [block for block in answer.content if block.type == "tool_use"]
        assert answer.stop_reason == ("tool_use" if calls else "end_turn")
        self.history.append({"role": "assistant", "content": answer.content})
        return Heard(
            "".join(block.text for block in answer.content if block.type == "text"),
            "".join(block.thinking for block in answer.content if block.type == "thinking"),
            {call.id: (call.name, call.input) for call in calls},
            answer.parsed_output,
            (answer.usage.input_tokens, answer.usage.output_tokens),
            deltas,
        )

    def give_back(self, results: dict[str, str]) -> None:
        blocks = [{"type": "tool_result", "tool_use_id": call, "content": text} for call, text in results.items()]
        self.history.append({"role": "user", "content": blocks})


_CALLERS: dict[str, type[Caller]] = {"chat": ChatCaller, "responses": ResponsesCaller, "messages": MessagesCaller}


@asynccontextmanager
async def sdk_caller(dialect: str, url: str, **how: bool) -> AsyncIterator[Caller]:
    """A caller over the SDK that speaks a dialect. Whatever its types forbid is an error, and nothing is tried twice."""
    strict = {"api_key": "any", "max_retries": 0, "_strict_response_validation": True}
    client: Any = (
        AsyncAnthropic(base_url=url, **strict) if dialect == "messages" else AsyncOpenAI(base_url=f"{url}/v1", **strict)
    )
    async with client:
        yield _CALLERS[dialect](client, **how)


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
    # OpenAI's SDK hands `response.failed` over as an event, and raises when the connection is cut after it.
    error = httpx.RemoteProtocolError if caller == "responses" else (openai.APIError, anthropic.APIError)
    tandem = await start(one_dialect(target, upstream.base_url))
    upstream.scripts = [speak(target, Speech("I read both.", TWO_CALLS), ends=False)]

    async with sdk_caller(caller, tandem.url, streams=True, with_tools=True) as sdk:
        sdk.say("Read both files.")
        with pytest.raises(error):
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
