"""The vendors' Python SDKs as callers. They validate strictly, and stream through their own typed helpers."""

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import BaseModel

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
